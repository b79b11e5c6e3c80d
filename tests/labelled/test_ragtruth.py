"""RAGTruth: passages, spans and dropped rows, on records of the publishers' shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trivet.labelled.ragtruth import read_ragtruth
from trivet.labelled.source_report import SourceReport
from trivet.records import LabelledExample, Labels, Span

ANSWER = "Clay rests for a day. It sings."
SHOP = {"name": "Kiln & Co", "hours": {"Monday": "9:0-17:0"}, "rating": None}
QA = {
    "source_id": "1",
    "task_type": "QA",
    "source_info": {
        "question": "how long does clay rest",
        "passages": "passage 1:Clay rests a day.\n\npassage 2:See passage 3: it is wet.\n\n",
    },
    "prompt": "...",
}
SUMMARY = {
    "source_id": "2",
    "task_type": "Summary",
    "source_info": "The kiln opened. Many came.\n",
    "prompt": "Summarize the following news:\nThe kiln opened. Many came.\n\noutput:",
}
RECORD = {
    "source_id": "3",
    "task_type": "Data2txt",
    "source_info": SHOP,
    "prompt": f"Describe the shop.\nStructured data:\n{SHOP!r}\nOverview:",
}


def response(**others: Any) -> dict[str, Any]:
    plain = {
        "id": "r1",
        "source_id": "1",
        "model": "potter-7b",
        "labels": [],
        "split": "train",
        "quality": "good",
        "response": ANSWER,
    }
    return plain | others


def label(start: Any, end: Any, text: str | None = None, **others: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "text": ANSWER[22:31] if text is None else text} | others


def read(
    folder: Path, *responses: Any, sources: Sequence[Any] = (QA, SUMMARY, RECORD)
) -> tuple[list[LabelledExample], SourceReport]:
    def lines(rows: Any) -> str:
        return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)

    (folder / "response.jsonl").write_text(lines(responses), encoding="utf-8")
    (folder / "source_info.jsonl").write_text(lines(sources), encoding="utf-8")
    return read_ragtruth(str(folder))


def test_spans_question_and_passages(tmp_path: Path) -> None:
    labels = [label(22, 31, implicit_true=True), label(0, 4, "Clay")]
    (example,), report = read(tmp_path, response(labels=labels))
    assert example.example.question == "how long does clay rest"
    assert example.example.contexts == ("Clay rests a day.", "See passage 3: it is wet.")
    # A span that is true in the world but in no passage is unsupported.
    assert example.labels == Labels(unsupported=(Span(0, 4), Span(22, 31)), adherent=False)
    assert (example.source, example.group) == ("ragtruth/qa", "ragtruth/1")
    assert (example.generator, example.split, example.example.id) == ("potter-7b", "train", "r1")
    assert report.noted == {"spans marked implicit_true": 1}


def test_the_other_tasks(tmp_path: Path) -> None:
    hidden = RECORD | {"source_id": "4", "prompt": "Describe {the shop}."}
    responses = [response(source_id=number) for number in "234"]
    (summary, record, other), _ = read(tmp_path, *responses, sources=[SUMMARY, RECORD, hidden])
    assert summary.labels == Labels(unsupported=(), adherent=True, contradicted=())
    assert summary.source == "ragtruth/summary"
    assert summary.example.question == "Summarize the following news:"
    assert summary.example.contexts == ("The kiln opened. Many came.",)
    assert record.source == "ragtruth/data2txt"
    assert record.example.question == "Describe the shop.\nStructured data:"
    assert record.example.contexts == (repr(SHOP),)
    # The prompt does not show this record, which is written as JSON.
    assert other.example.question == ""
    assert json.loads(other.example.contexts[0]) == SHOP


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{broken", "line is not JSON"),
        (response(quality="incorrect_refusal"), "quality is incorrect_refusal"),
        (response(response=" "), "response is empty"),
        (response(labels=None), "labels is not a list of objects"),
        (response(labels=[label(-9, 31)]), "a label leaves its text"),
        (response(labels=[label(21, 30)]), "a label quotes other text than its offsets show"),
    ],
)
def test_a_bad_row_is_counted_with_its_line(tmp_path: Path, bad: Any, reason: str) -> None:
    examples, report = read(tmp_path, response(), bad, response())
    assert (len(examples), report.rows, report.kept) == (2, 3, 2)
    assert report.dropped == {reason: 1}
    assert [where.partition(":")[0] for where in report.places[reason]] == ["response.jsonl line 2"]


@pytest.mark.parametrize(
    ("types", "contradicted"),
    [
        (("Evident Conflict", "Subtle Baseless Info"), (Span(0, 4),)),
        (("Evident Baseless Info", "Subtle Baseless Info"), ()),
        (("Evident Conflict", "Another"), None),
    ],
)
def test_the_type_of_a_span_tells_a_conflict(
    tmp_path: Path, types: tuple[str, str], contradicted: tuple[Span, ...] | None
) -> None:
    places = ((0, 4, "Clay"), (22, 31, None))
    spans = [label(*at, label_type=kind) for at, kind in zip(places, types, strict=True)]
    (example,), _ = read(tmp_path, response(labels=spans))
    assert example.labels.contradicted == contradicted


def test_the_hub_is_read_with_groups_of_equal_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load_dataset(name: str, part: str) -> dict[str, list[dict[str, Any]]]:
        asked.append((name, part))
        info: Any = QA["source_info"]
        qa = {"query": info["question"], "context": info["passages"]}
        qa |= {"task_type": "QA", "output": ANSWER, "quality": "good", "model": "potter-7b"}
        wrong = json.dumps([label(22, 31)])
        return {
            "train": [
                {**qa, "id": "1", "hallucination_labels": wrong},
                {**qa, "id": "2", "hallucination_labels": "[]"},
                {**qa, "id": "3", "hallucination_labels": "not JSON"},
            ],
            "test": [{**qa, "id": "4", "context": "Other.", "hallucination_labels": "[]"}],
        }

    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda name: ["default"])
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    (first, second, third), report = read_ragtruth("ragtruth")
    assert asked == [("wandb/RAGTruth-processed", "default")]
    assert first.example.contexts == ("Clay rests a day.", "See passage 3: it is wet.")
    assert first.labels == Labels(unsupported=(Span(22, 31),), adherent=False)
    assert first.group == second.group != third.group
    assert (first.source, first.split, third.split) == ("ragtruth/qa", "train", "test")
    assert report.dropped == {"labels is not a list of objects": 1}
