"""Twins: one small change, exact labels."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.labelled.augmentation.augment import Augmentation, augment_batch
from trivet.labelled.augmentation.changeable_values import (
    other_form,
)
from trivet.labelled.augmentation.twins import TWINS, swap_value
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

TOWER = "The tower is 330 metres tall. Gustave Eiffel opened it on March 31, 1889."
MAST = "The mast near Lyon is 212 metres tall. Its last owner sold it in May 1952 to a museum."
RESPONSE = "Yes. The tower is 330 metres tall and was opened by Gustave Eiffel on March 31, 1889."
OPENED = "Gustave Eiffel opened it on March 31, 1889."


def row(**labels: object) -> LabelledExample:
    """A row whose second sentence is supported by both sentences of the first context."""
    supported = Span(5, len(RESPONSE))
    both = (ContextSpan(0, 0, 29), ContextSpan(0, 30, len(TOWER)))
    known = Labels(
        unsupported=(),
        adherent=True,
        relevant=both,
        utilized=both,
        evidence=(Evidence(Span(0, 4), ()), Evidence(supported, both)),
    )
    return LabelledExample(
        example=RagExample("How tall is it?", (TOWER, MAST), RESPONSE),
        labels=replace(known, **labels),  # type: ignore[arg-type]
        source="towers",
        group="1",
    )


def supported_row(response: str, *contexts: str) -> LabelledExample:
    """A row whose whole response is supported."""
    labels = Labels(unsupported=(), adherent=True)
    return LabelledExample(RagExample("", contexts, response), labels, source="towers", group="1")


def all_marked(kind: str, labelled: LabelledExample) -> set[str]:
    """Return the texts that 40 draws of one kind of twin mark."""
    twins = [TWINS[kind](labelled, np.random.default_rng(seed)) for seed in range(40)]
    return {text for twin in twins if twin is not None for text in marked(twin)}


def marked(twin: LabelledExample) -> list[str]:
    """Return the texts of the unsupported spans."""
    return [twin.example.response[s.start : s.end] for s in twin.labels.unsupported or ()]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("number", ["212"]),
        ("entity", ["Lyon"]),
        ("unit", None),
        ("negation", ["is not", "was not"]),
    ],
)
def test_a_wrong_value_is_marked_exactly(kind: str, wrong: list[str] | None) -> None:
    for labels in ({}, {"unsupported": None, "evidence": None}):
        twin = TWINS[kind](row(**labels), np.random.default_rng(0))
        assert twin is not None
        (span,) = twin.labels.unsupported or ()
        (text,) = marked(twin)
        assert wrong is None or text in wrong
        assert twin.labels.adherent is False
        known = labels.get("unsupported", ()) == ()  # the kind of the other spans is unknown
        assert twin.labels.contradicted == ((span,) if known else None)
        after = twin.example.response[span.end :]
        assert RESPONSE.startswith(twin.example.response[: span.start])
        assert RESPONSE.endswith(after)
        assert text not in RESPONSE
        for evidence in twin.labels.evidence or ():
            assert evidence.response.end <= span.start or span.end <= evidence.response.start


def test_one_digit_of_a_value_is_changed_to_a_value_that_is_nowhere() -> None:
    for seed in range(30):
        twin = TWINS["digit"](row(), np.random.default_rng(seed))
        assert twin is not None
        (text,) = marked(twin)
        (span,) = twin.labels.unsupported or ()
        old = RESPONSE[span.start : span.end]
        assert old in TOWER or old in MAST
        assert len(old) == len(text) and sum(a != b for a, b in zip(old, text, strict=True)) == 1
        assert old[0] == text[0] or len(re.findall(r"\d", old)) == 1 or not old[0].isdigit()
        assert not {text} & {word.strip(".,") for word in f"{TOWER} {MAST} {RESPONSE}".split()}


@pytest.mark.parametrize(
    ("response", "contexts", "wrong"),
    [
        ("It weighs 5 kg.", ["No units."], set()),
        ("It weighs 5 kg.", ["It weighs 6 kg."], set()),
        ("It weighs 5 kg.", ["It weighs five kilograms."], {"mg", "g", "lb", "oz"}),
        # Another unit of the contexts is taken if it is possible: 5 ounces are in them.
        ("It weighs 5 kg.", ["It weighs 5 kg and has 3 lb of tar."], {"lb"}),
        ("It is 1,000 metres long.", ["1000 meters, 3 feet wide"], {"feet"}),
        ("It has 0 kg of salt.", ["It has 0 kg of salt."], set()),
    ],
)
def test_a_wrong_unit_is_of_a_quantity_of_the_contexts_and_makes_none(
    response: str, contexts: list[str], wrong: set[str]
) -> None:
    assert all_marked("unit", supported_row(response, *contexts)) == wrong


@pytest.mark.parametrize(
    ("response", "wrong"),
    [
        ("The contexts never say whether the mill is old.", set()),
        ("Nothing is known.", set()),
        ("It isn't clear that the mill is old.", set()),
        ("What is a mill? Ask there.", set()),
        ("The mill is closed if nobody comes.", {"is not"}),
        ("They do not say whether it is old. The mill was sold.", {"do", "was not"}),
    ],
)
def test_only_what_a_sentence_asserts_is_negated(response: str, wrong: set[str]) -> None:
    assert all_marked("negation", supported_row(response, "The mill is old.")) == wrong


def test_a_right_twin_keeps_its_labels() -> None:
    twin = TWINS["rewrite"](row(), np.random.default_rng(0))
    assert twin is not None
    assert "31 March 1889" in twin.example.response
    assert (twin.labels.adherent, twin.labels.unsupported) == (True, ())
    assert (twin.labels.evidence or ())[1].response.end == len(twin.example.response)


def test_removed_evidence_leaves_its_sentence_unsupported() -> None:
    repeated = replace(row().example, contexts=(TOWER, f"{MAST} {OPENED}"))
    twin = TWINS["evidence"](replace(row(), example=repeated), np.random.default_rng(0))
    assert twin is not None
    assert twin.example.contexts == (MAST,)
    assert marked(twin) == [RESPONSE[5:]]
    assert twin.labels.contradicted == ()
    assert twin.labels.relevant == twin.labels.utilized == ()


def test_a_hard_neutral_moves_from_the_contexts_to_the_response() -> None:
    for labels in ({}, {"evidence": None}):
        twin = TWINS["neutral"](row(**labels), np.random.default_rng(0))
        assert twin is not None
        (moved,) = marked(twin)
        assert moved in MAST
        assert twin.example.contexts == (TOWER, MAST.replace(moved, "").strip())
        assert twin.example.response == f"{RESPONSE} {moved}"
        assert twin.labels.contradicted == ()


@pytest.mark.parametrize(
    ("value", "other"),
    [
        *(("1,000", "1000"), ("25000", "25,000"), ("twelve", "12"), ("12", "twelve")),
        *(("May 8, 1994", "8 May 1994"), ("8 May 1994", "May 8, 1994")),
        *(("1", None), ("1994", None), ("1.5", None), ("Anna", None)),
    ],
)
def test_other_forms_of_a_value(value: str, other: str | None) -> None:
    assert other_form(value) == other


def test_twins_follow_the_rows_of_their_batch() -> None:
    right = replace(row(), generator="a model", labels=replace(row().labels, adherent=True))
    rows = [right, replace(right, group="2"), replace(right, generator=None)]
    twins = Augmentation(twins=1.0)
    batch = augment_batch(rows, [0, 1, 2], twins, 0, 0, rows)
    assert batch[:3] == rows
    assert [twin.group for twin in batch[3:]] == ["1", "2"]  # none of a text that no model wrote
    assert batch == augment_batch(rows, [0, 1, 2], twins, 0, 0, rows)
    assert augment_batch(rows, [0, 1, 2], Augmentation(), 0, 0, rows) == rows


@pytest.mark.parametrize("seed", range(20))
def test_a_foreign_value_is_in_no_context(seed: int) -> None:
    foreign = ("The bridge of Oslo has 71 lamps and was opened on May 4, 1951 by Ann Lee.",)
    contexts = " ".join(row().example.contexts)
    for kind in ("number", "date", "entity"):
        random = np.random.default_rng(seed)
        if (twin := swap_value(row(), random, kind, foreign)) is not None:
            (span,) = set(twin.labels.unsupported or ()) - set(row().labels.unsupported or ())
            changed = twin.example.response[span.start : span.end]
            assert changed in foreign[0]
            assert changed not in contexts


SAID = (
    "The tower is 330 metres tall.",
    "It opened on March 31, 1889.",
    "Gustave Eiffel did not design it.",
    "The mast near Lyon weighs 1,200 kg.",
    "Its last owner sold it in May 1952.",
    "Ten people can climb 71 steps an hour.",
)
WRONG = ("number", "date", "entity", "digit", "unit", "negation")
sentences = st.lists(st.sampled_from(SAID), min_size=1, max_size=4)


@given(
    contexts=st.lists(sentences, min_size=1, max_size=3),
    response=sentences,
    unsupported=st.lists(st.booleans(), min_size=4, max_size=4),
    kind=st.sampled_from(WRONG),
    seed=st.integers(0, 99),
)
def test_a_wrong_twin_differs_in_its_marked_characters_alone(
    contexts: list[list[str]],
    response: list[str],
    unsupported: list[bool],
    kind: str,
    seed: int,
) -> None:
    starts = [sum(len(text) + 1 for text in response[:index]) for index in range(len(response))]
    spans = [Span(a, a + len(text)) for a, text in zip(starts, response, strict=True)]
    wrong = tuple(span for span, bad in zip(spans, unsupported, strict=False) if bad)
    before = supported_row(" ".join(response), *(" ".join(context) for context in contexts))
    labels = Labels(unsupported=wrong, adherent=not wrong)
    twin = TWINS[kind](replace(before, labels=labels), np.random.default_rng(seed))
    if twin is None:
        return
    old, new = before.example.response, twin.example.response
    assert (twin.example.contexts, twin.labels.adherent) == (before.example.contexts, False)
    marked = twin.labels.unsupported or ()
    assert len(marked) == len(wrong) + 1
    assert all(a.end <= b.start for a, b in itertools.pairwise(marked))
    # One of the spans is new; what the others mark is what was marked.
    texts = [old[span.start : span.end] for span in wrong]
    changed = next(
        candidate
        for candidate in marked
        if texts == [new[span.start : span.end] for span in marked if span != candidate]
    )
    assert old.startswith(new[: changed.start])
    assert old.endswith(new[changed.end :])
    assert new != old
    assert not any(span.start <= changed.start < span.end for span in wrong)
