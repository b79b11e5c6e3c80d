"""The benchmark of twins makes the pairs by hand, and its table has the figures by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import twins
from benchmarks.twin_pairs import KINDS, Pair, pairs, share_held
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

TOWER = "It is 330 metres tall. The engineer Gustave Eiffel built it in May 1889."
MAST = "The mast is 331 metres tall. The owner Anna Ray sold it in June 1902."
RIGHT = "It is 330 metres tall."
RESPONSE = f"{RIGHT} It is 12 metres wide."
EVIDENCE = (Evidence(Span(0, len(RIGHT)), (ContextSpan(0, 0, 22),)),)
KNOWN = Labels(
    unsupported=(Span(len(RIGHT) + 1, len(RESPONSE)),), adherent=False, evidence=EVIDENCE
)


def row(*contexts: str, response: str = "", labels: Labels | None = None) -> LabelledExample:
    """A row of one source document."""
    known = labels or Labels(unsupported=(), adherent=True)
    return LabelledExample(RagExample("What is it?", contexts, response), known, "towers", "1")


def made(labelled: LabelledExample, kind: str, copied: bool = True) -> set[tuple[str, str]]:
    """Return the answers and copies of 40 draws; only a copy's response may differ."""
    found = pairs([labelled] * 40, kind, copied, most=40)
    for pair in found:
        assert pair.clean == replace(labelled.example, response=pair.clean.response)
        assert pair.changed == replace(pair.clean, response=pair.changed.response)
    return {(pair.clean.response, pair.changed.response) for pair in found}


def test_a_copied_sentence_gets_the_value_of_another_sentence() -> None:
    assert made(row(TOWER, MAST), "number") == {
        ("It is 330 metres tall.", "It is 331 metres tall."),
        ("The mast is 331 metres tall.", "The mast is 330 metres tall."),
    }
    built, owned = TOWER[23:], MAST[29:]
    assert made(row(TOWER, MAST), "date") == {
        (built, built.replace("May 1889", "June 1902")),
        (owned, owned.replace("June 1902", "May 1889")),
    }
    assert made(row(TOWER, MAST), "name") == {
        (built, built.replace("Gustave Eiffel", "Anna Ray")),
        (owned, owned.replace("Anna Ray", "Gustave Eiffel")),
    }
    assert made(row(TOWER), "number") == set()


def test_only_supported_sentences_of_a_response_are_changed() -> None:
    own = row(TOWER, MAST, response=RESPONSE, labels=KNOWN)
    wrong = {(RIGHT, "It is 331 metres tall.")}
    assert made(own, "number", copied=False) == wrong
    for labels in (
        replace(KNOWN, unsupported=(Span(0, 5),)),
        replace(KNOWN, unclear=(Span(0, 5),)),
        replace(KNOWN, unsupported=None),
    ):
        assert made(replace(own, labels=labels), "number", copied=False) == set()
    # In the second sentence 12 could become another number, were it supported.
    wide = row(TOWER, f"{MAST} It is 12 metres wide.", response=RESPONSE, labels=KNOWN)
    assert made(wide, "number", copied=False) == wrong
    both = made(replace(wide, labels=replace(KNOWN, unsupported=())), "number", copied=False)
    assert {clean for clean, _ in both} == {RIGHT, "It is 12 metres wide."}


@pytest.mark.parametrize(
    ("contexts", "wrong"),
    [
        (["It weighs 5 kg."], {"It weighs 5 mcg."}),
        (["It weighs 5 kg.", "It has 7 g of tar."], {"It weighs 5 g."}),
        (["It weighs 5 kg.", "It has 7 g of tar and 5-g nails."], {"It weighs 5 mcg."}),
        (["A 5-hour walk."], {"A 5-day walk."}),
        (["It weighs 0 kg."], set()),
        (["It has no units."], set()),
    ],
)
def test_a_unit_is_of_the_contexts_or_the_next_one_and_never_true(
    contexts: list[str], wrong: set[str]
) -> None:
    own = row(*contexts, response=contexts[0])
    assert {changed for _, changed in made(own, "unit", copied=False)} == wrong
    foreign = row(*contexts, response="It weighs 6 kg after a 6-hour walk.")
    assert made(foreign, "unit", copied=False) == set()


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [
        ("The mill has been sold.", {"The mill has never been sold."}),
        ("The mill has not been sold.", {"The mill has been sold."}),
        ("The mill was never sold.", {"The mill was sold."}),
        ("The mill is no longer open.", {"The mill is open."}),
        ("The mill isn't open.", {"The mill is open."}),
        ("You cannot enter.", {"You can enter."}),
        ("It runs without wind.", {"It runs with wind."}),
        ("Oil it before use at high heat.", {"Oil it after use at high heat."}),
        ("It is an active mill.", set()),
        ("The mill is not open and has never been sold.", set()),
        ("They ask whether it has been sold.", set()),
        ("Has it ever had wind before?", set()),
    ],
)
def test_a_negation_is_added_or_removed_where_a_sentence_asserts(
    sentence: str, wrong: set[str]
) -> None:
    # Only "after" is in the contexts: the pair that counting words cannot find is taken.
    contexts = (f"{sentence} Stop", "after") if "before use" in sentence else (sentence,)
    response = row(*contexts, response=sentence)
    assert {changed for _, changed in made(response, "negation", copied=False)} == wrong


def test_all_passages_that_may_support_an_answer_are_removed() -> None:
    answer = "Gustave Eiffel opened the iron tower."
    again = "The tower of iron that Gustave opened."
    near = "The tower of Lyon opened."
    other = "The mast is near Lyon."
    labels = Labels(
        unsupported=(),
        adherent=True,
        evidence=(
            Evidence(Span(0, len(answer)), (ContextSpan(1, 0, 10),)),
            Evidence(Span(len(answer) + 1, len(answer) + 1 + len(other)), (ContextSpan(2, 0, 9),)),
        ),
    )
    response = f"{answer} {other}"  # the second sentence has too few words
    own = row(again, "In 1889 he did so.", other, response=response, labels=labels)
    (pair,) = pairs([own], "evidence", copied=False, most=1)
    assert pair == Pair(
        "towers 1",
        replace(own.example, response=answer),
        RagExample("What is it?", (other,), answer),
    )
    for labelled in (
        replace(own, labels=replace(labels, evidence=None)),
        replace(own, example=replace(own.example, contexts=(again, "In 1889 he did so."))),
    ):
        assert pairs([labelled], "evidence", copied=False, most=1) == []
    # "Near" has two of the answer's five long words, "again" four.
    copied = row(answer, again, near)
    found = pairs([copied] * 40, "evidence", copied=True, most=40)
    assert {(x.clean.response, x.changed.contexts) for x in found} == {
        (answer, (near,)),
        (again, (near,)),
    }
    assert all(pair.changed.response == pair.clean.response for pair in found)


def test_shared_words_are_counted_once() -> None:
    assert share_held(RagExample("", ("The Mill is old.",), "the mill, the mill is NEW")) == 0.75
    assert share_held(RagExample("", ("The mill.",), "...")) == 0


@pytest.mark.parametrize("kind", ["number", "evidence"])
def test_documents_of_two_sources_are_apart_though_they_share_a_name(kind: str) -> None:
    own = row(TOWER, MAST)
    rows = [own, replace(own, source="masts"), own]
    groups = [pair.group for pair in pairs(rows, kind, copied=True, most=3)]
    assert groups[0] == groups[2] != groups[1]


def test_the_table_has_the_figures_of_the_pairs() -> None:
    examples = [RagExample("", ("The mill is old.",), text) for text in ("old", "new")]
    made = [Pair(str(number % 6), *examples) for number in range(12)]
    scores = np.array([0.1, 0.2] * 9 + [0.2, 0.1] * 3)
    flagged = np.array([False, True] * 6 + [True, True] * 3 + [False, False] * 3)
    line = twins.table_row("copied", "number", made, scores, flagged)
    assert line[:4] == ("copied", "number", 12, 6)
    # Of 144 pairs of an answer and a copy 81 are right and 9 wrong, 54 are ties.
    assert str(line[4]).startswith("0.750 [") and line[5] == "0.75"
    assert line[6:8] == ("0.250 [0.083, 0.417]", "0.750 [0.583, 0.917]")
    assert line[8] == "1.000 [1.000, 1.000]"
    alone = twins.table_row("copied", "number", made[:1], scores[:2], flagged[:2])
    assert alone[4] == "1.000"
    nothing = twins.table_row("copied", "unit", [], np.zeros(0), np.zeros(0, bool))
    assert nothing[2:] == (0, 0, "-", "-", "-", "-", "-")


def test_the_command_prints_every_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    line = {
        "question": "How tall is it?",
        "contexts": [TOWER, MAST],
        "response": RESPONSE,
        "group": "1",
        "labels": {"unsupported": [[len(RIGHT) + 1, len(RESPONSE)]], "adherent": False},
    }
    path.write_text(json.dumps(line), encoding="utf-8")
    twins.main(["--data", f"jsonl:{path}", "--split", "all"])
    printed = capsys.readouterr().out.splitlines()
    cells = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in printed]
    assert cells[0] == twins.COLUMNS
    assert [one[:2] for one in cells[2:]] == [
        (answer, kind) for answer in ("copied", "answered") for kind in KINDS
    ]
    numbers = [one for one in cells if one[1] == "number"]
    assert [one[2:4] for one in numbers] == [("1", "1")] * 2
    assert [one[8] for one in numbers] == ["0.500"] * 2
