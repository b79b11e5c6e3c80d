"""Edits of a response: the words that are marked, and the edits that are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trivet.annotation.edits import LONGEST, Edit, Kind, apply_edits, largest_share
from trivet.errors import ExampleError
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

CONTEXT = "The mill was built in 1790 by Lee. Some of its wheels turn."
RESPONSE = "The mill was built in 1790 by Lee, for up to 40 workers. Some of its wheels turn today."


def labelled(response: str = RESPONSE, context: str = CONTEXT) -> LabelledExample:
    whole = Evidence(Span(0, len(response)), (ContextSpan(0, 0, len(context)),))
    labels = Labels(unsupported=(), adherent=True, utilized=whole.contexts, evidence=(whole,))
    return LabelledExample(RagExample("When?", (context,), response), labels, "set", "group")


def edit(kind: Kind, original: str, changed: str) -> Edit:
    return Edit(kind=kind, original=original, changed=changed)


def marked(row: LabelledExample) -> list[str]:
    return [row.example.response[s.start : s.end] for s in row.labels.unsupported or ()]


@pytest.mark.parametrize(
    ("original", "changed", "mark"),
    [
        ("built in 1790", "built in 1850", "1850"),
        ("built in 1790 by", "built in 1850 by", "1850"),
        ("by Lee, for", "by Grant, for", "Grant"),
        ("for up to 40 workers", "for 40 workers", "for 40 workers"),  # only words deleted
        ("wheels turn", "wheels rarely turn", "rarely turn"),
        ("Some of its wheels", "All wheels", "All"),
        ("The  mill\nwas", "The church was", "church"),  # white space is not copied exactly
    ],
)
def test_exactly_the_differing_words_are_marked(original: str, changed: str, mark: str) -> None:
    row = apply_edits(labelled(), [edit("numeric", original, changed)]).row
    assert marked(row)[0].startswith(mark)
    assert row.labels.adherent is False
    first = re.search(r"\s+".join(map(re.escape, original.split())), RESPONSE)
    assert first
    assert row.example.response == RESPONSE[: first.start()] + changed + RESPONSE[first.end() :]


@pytest.mark.parametrize(
    ("original", "changed", "reason"),
    [
        ("built in 1791", "built in 1850", "occur 0 times"),
        ("ill was", "ills were", "occur 0 times"),  # a part of a word
        ("s of", "s of it", "occur 0 times"),
        ("1790", "179", "3 characters in 'changed'"),
        ("The", "A mill", "3 characters in 'original'"),
        ("Some of its wheels", "x" * (LONGEST + 1), f"{LONGEST + 1} characters in 'changed'"),
        ("in 1790", "", "0 characters in 'changed'"),
        ("built in 1790", "Built  in 1,790", "changes nothing"),
        ("built in 1790", "wrongly dated to 1850", "gives itself away by 'wrongly'"),
        ("built in 1790", "built in [...]", "gives itself away"),
        ("built in 1790", '{"changed": 1850}', "gives itself away"),
        ("Some of its wheels turn today.", "Some of its wheels turn.", "contexts contain"),
        (RESPONSE, "b" + RESPONSE[1:80] + "yes", "more than 80%"),
    ],
)
def test_an_edit_is_refused_with_its_reason(original: str, changed: str, reason: str) -> None:
    with pytest.raises(ExampleError, match=re.escape(reason)):
        apply_edits(labelled(), [edit("entity", original, changed)])


def test_words_that_occur_twice_are_refused() -> None:
    with pytest.raises(ExampleError, match="occur 2 times"):
        apply_edits(labelled("The mill and the mill."), [edit("entity", "mill", "church")])


def test_an_edit_that_overlaps_an_earlier_one_is_left_out_and_said() -> None:
    edits = [
        edit("temporal", "in 1790", "in 1850"),
        edit("temporal", "1790 by", "1900 by"),
        edit("entity", "by Lee", "by Grant"),
    ]
    found = apply_edits(labelled(), edits)
    assert marked(found.row) == ["1850", "Grant"]
    assert found.edits == (edits[0], edits[2])
    assert found.refused == ("the edit of '1790 by' overlaps another edit",)


def test_edits_are_reported_in_the_order_of_the_response() -> None:
    edits = [edit("entity", "by Lee", "by Grant"), edit("temporal", "in 1790", "in 1850")]
    found = apply_edits(labelled(), edits)
    assert [edit.changed for edit in found.edits] == ["in 1850", "by Grant"]


def test_the_rest_keeps_its_evidence() -> None:
    row = apply_edits(labelled(), [edit("temporal", "in 1790", "in 1850")]).row
    pieces = [
        row.example.response[e.response.start : e.response.end] for e in row.labels.evidence or ()
    ]
    assert pieces[0] == "The mill was built in"
    assert "1850" not in " ".join(pieces)


@pytest.mark.parametrize(
    ("characters", "share"), [(200, 0.8), (500, 0.6), (1500, 0.45), (1501, 0.4)]
)
def test_the_share_that_may_change_falls_with_the_length(characters: int, share: float) -> None:
    assert largest_share(characters) == share


WORDS = st.lists(
    st.sampled_from(["mill", "lee,", "worked.", "1790", "(1,000)"]), min_size=6, max_size=20
)


@settings(max_examples=60, deadline=None)
@given(WORDS, st.data())
def test_outside_the_marks_every_character_stays(words: list[str], data: st.DataObject) -> None:
    words = [f"{word[:1]}{place}{word}" for place, word in enumerate(words)]  # each occurs once
    response = " ".join(words)
    places = data.draw(st.lists(st.integers(0, len(words) - 2), min_size=1, max_size=3))
    edits = []
    for place in places:
        new = data.draw(st.lists(st.sampled_from(["alpha", "beta", words[place]]), min_size=1))
        edits.append(edit("entity", " ".join(words[place : place + 2]), " ".join(new)))
    try:
        found = apply_edits(labelled(response), edits)
    except ExampleError:
        return
    changed, spans = found.row.example.response, found.row.labels.unsupported or ()
    assert 1 <= len(spans) <= len(edits)
    assert all(changed[s.start : s.end] == changed[s.start : s.end].strip() != "" for s in spans)
    # What lies between the marks lies, in order, in the first response.
    kept = changed
    for span in reversed(spans):
        kept = kept[: span.start] + "\0" + kept[span.end :]
    pattern = ".*".join(map(re.escape, kept.split("\0")))
    assert re.fullmatch(pattern, response, re.DOTALL)
    # Each edit can be found again in the changed response.
    assert all(edit.changed in changed for edit in found.edits)


@settings(max_examples=60, deadline=None)
@given(WORDS)
def test_reversed_edits_give_the_first_response_back(words: list[str]) -> None:
    words = [f"{word[:1]}{place}{word}" for place, word in enumerate(words)]
    response = " ".join(words)
    forth = edit("entity", words[2] + " " + words[3], words[2] + " somethingelse")
    back = edit("entity", forth.changed, forth.original)
    changed = apply_edits(labelled(response), [forth]).row
    assert apply_edits(changed, [back]).row.example.response == response
