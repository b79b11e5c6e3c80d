"""Labelled JSONL: unknown stays unknown, offsets are checked, lost rows are counted."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.labelled.labelled_jsonl import (
    merge_overlapping,
    read_jsonl,
    to_row,
)
from trivet.labelled.source_report import SourceReport
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, Span

CONTEXT = "The kiln reaches cone six. It cools overnight."
RESPONSE = "It reaches cone six in an hour."


def row(labels: dict[str, Any] | None = None, **others: Any) -> dict[str, Any]:
    plain = {
        "id": "k1",
        "question": "How hot is the kiln?",
        "contexts": [CONTEXT, "Glaze is thin."],
        "response": RESPONSE,
        "labels": labels,
        "source": "kilns",
        "group": "kiln-1",
    }
    return plain | others


def read(tmp_path: Path, *rows: Any) -> tuple[list[LabelledExample], SourceReport]:
    path = tmp_path / "rows.jsonl"
    lines = [item if isinstance(item, str) else json.dumps(item) for item in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_jsonl(path)


LABELS = [
    {},
    {"adherent": True},
    {"unsupported": [[21, 31]], "adherent": False, "relevant": [[0, 0, 26]], "utilized": []},
    {"unsupported": [[0, 2], [21, 31]], "contradicted": [[21, 31]]},
    {
        "unsupported": [],
        "evidence": [
            {"response": [0, 9], "contexts": [[0, 0, 26]]},
            {"response": [9, 20], "contexts": []},
        ],
        "relevance": 0.5,
        "completeness": 1,
    },
]


@pytest.mark.parametrize("labels", LABELS)
def test_a_written_row_is_read_as_the_same_example(tmp_path: Path, labels: dict[str, Any]) -> None:
    more = {"split": "train", "generator": "potter", "weight": 0.5}
    for written in (row(labels), row(labels, **more), row(labels, id=None, response="")):
        if labels and not written["response"]:
            written["labels"] = {"relevant": [[1, 0, 5]]}
        (example,), _ = read(tmp_path, written)
        assert read(tmp_path, to_row(example))[0] == [example]


@pytest.mark.parametrize(
    ("relation", "contradicted"),
    [("refute", (Span(0, len(RESPONSE)),)), ("neutral", ()), ("not_support", None), (None, None)],
)
def test_a_relation_tells_whether_the_contexts_contradict(
    tmp_path: Path, relation: str | None, contradicted: tuple[Span, ...] | None
) -> None:
    (wrong,), _ = read(tmp_path, row({"adherent": False}, relation=relation))
    assert wrong.labels.contradicted == contradicted
    (right,), _ = read(tmp_path, row({"adherent": True}, relation=relation))
    assert right.labels.contradicted is None


def test_everything_known_arrives(tmp_path: Path) -> None:
    labels = {
        "unsupported": [[21, 31], [5, 5]],
        "adherent": False,
        "relevant": [[0, 0, 26]],
        "utilized": [],
        "evidence": [{"response": [0, 20], "contexts": [[0, 0, 26]]}],
        "relevance": 0.5,
        "utilization": 1,
        "completeness": None,
    }
    more = {"split": "train", "generator": "potter", "weight": 2, "relation": "x"}
    (example,), report = read(tmp_path, row(labels, **more))
    assert example.labels == Labels(
        unsupported=(Span(21, 31),),
        adherent=False,
        relevant=(ContextSpan(0, 0, 26),),
        utilized=(),
        evidence=(Evidence(Span(0, 20), (ContextSpan(0, 0, 26),)),),
        relevance=0.5,
        utilization=1.0,
    )
    assert example.example.contexts == (CONTEXT, "Glaze is thin.")
    assert example.example.context_sentences is None
    assert (example.source, example.group, example.split) == ("kilns", "kiln-1", "train")
    assert (example.generator, example.weight, example.example.id) == ("potter", 2.0, "k1")
    assert (report.rows, report.kept, report.dropped, report.noted) == (1, 1, {}, {})


@pytest.mark.parametrize(
    ("labels", "unsupported", "adherent"),
    [
        (None, None, None),
        ({"unsupported": None, "adherent": None}, None, None),
        ({"adherent": True}, (), True),
        ({"adherent": False}, None, False),
        ({"unsupported": []}, (), True),
        ({"unsupported": [[0, 2]]}, (Span(0, 2),), False),
    ],
)
def test_what_follows_from_what_is_known(
    tmp_path: Path, labels: dict[str, Any] | None, unsupported: Any, adherent: bool | None
) -> None:
    (example, empty), _ = read(tmp_path, row(labels), row({"unsupported": []}, response=""))
    assert example.labels == Labels(unsupported=unsupported, adherent=adherent)
    assert empty.labels.adherent is None, "an empty response is neither"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (
            row({"unsupported": [[0, 32]]}),
            "unsupported leaves its text (line 2: [0, 32) of 31 characters)",
        ),
        (row({"unsupported": [0, 3]}), "unsupported holds something that is not 2 whole"),
        (row({"evidence": [[0, 3]]}), "evidence is not a list of objects"),
        (row({"adherent": "yes"}), "adherent is not of type bool"),
        (row({"unsupported": [[0, 3]]}, response="\U0001f525\U0001f3fa"), "unsupported leaves its"),
        ("{broken", "line is not JSON"),
    ],
)
def test_a_bad_row_is_counted_and_the_rest_is_read(tmp_path: Path, bad: Any, reason: str) -> None:
    examples, report = read(tmp_path, row(), bad, row())
    assert [example.example.id for example in examples] == ["k1", "k1"]
    assert (report.rows, report.kept) == (3, 2)
    ((counted, (location,)),) = report.places.items()
    assert report.dropped == {counted: 1}
    assert f"{counted} ({location})".startswith(reason)
    assert location.startswith("line 2")


spans = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda p: Span(p[0], p[0] + p[1]))
)


def characters(marked: tuple[Span, ...] | list[Span]) -> set[int]:
    return {offset for span in marked for offset in range(span.start, span.end)}


@given(spans)
def test_merged_spans_hold_the_same_characters_in_order_and_once(unmerged: list[Span]) -> None:
    merged = merge_overlapping(unmerged)
    assert characters(merged) == characters(unmerged)
    assert all(left.end <= right.start for left, right in itertools.pairwise(merged))
    assert merge_overlapping(merged) == merged
