"""RAGBench: from sentence keys to spans, on small parquet files of the publishers' shape."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.data.examples import write_parquet
from trivet.errors import DataError
from trivet.labelled.ragbench import read_ragbench
from trivet.labelled.source_report import SourceReport
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, PublishedScores, Span

DOCUMENTS = [
    [["0a", "Clay rests for a day. "], ["0b", "Then it is thrown."]],
    [["1a", "A kiln reaches cone six."]],
]
RESPONSE = [["a", "Clay rests a day."], ["b", "It sings."], ["c", "That is all."]]


def support(key: str, *names: str, fully: bool | None = None) -> dict[str, Any]:
    return {
        "response_sentence_key": key,
        "supporting_sentence_keys": list(names),
        "fully_supported": fully,
        "explanation": "",
    }


def row(**others: Any) -> dict[str, Any]:
    plain = {
        "id": "q1",
        "question": "How long does clay rest?",
        "documents": ["not read"],
        "response": "not read",
        "documents_sentences": DOCUMENTS,
        "response_sentences": RESPONSE,
        "sentence_support_information": [
            support("a", "0a", fully=True),
            support("b"),
            support("c", "general"),
        ],
        "unsupported_response_sentence_keys": ["b"],
        "adherence_score": False,
        "all_relevant_sentence_keys": ["0b", "0a"],
        "all_utilized_sentence_keys": ["0a"],
        "relevance_score": 2 / 3,
        "utilization_score": 1 / 3,
        "completeness_score": 0.5,
        "generation_model_name": "potter-1",
    }
    return plain | others


def read(tmp_path: Path, *rows: dict[str, Any]) -> tuple[list[LabelledExample], SourceReport]:
    write_parquet(tmp_path / "pottery" / "train-00000-of-00001.parquet", *rows)
    return read_ragbench(str(tmp_path))


def labels_of(tmp_path: Path, **others: Any) -> tuple[Labels, dict[str, int]]:
    (example,), report = read(tmp_path, row(**others))
    return example.labels, report.noted


def test_keys_become_spans_of_the_joined_sentences(tmp_path: Path) -> None:
    (example,), report = read(tmp_path, row())
    texts = example.example
    assert texts.contexts == (
        "Clay rests for a day. Then it is thrown.",
        "A kiln reaches cone six.",
    )
    assert texts.response == "Clay rests a day. It sings. That is all."
    assert texts.context_sentences == ((Span(0, 21), Span(22, 40)), (Span(0, 24),))
    assert texts.response_sentences == (Span(0, 17), Span(18, 27), Span(28, 40))
    assert example.labels == Labels(
        unsupported=(Span(18, 27),),
        adherent=False,
        relevant=(ContextSpan(0, 0, 21), ContextSpan(0, 22, 40)),
        utilized=(ContextSpan(0, 0, 21),),
        evidence=(Evidence(Span(0, 17), (ContextSpan(0, 0, 21),)), Evidence(Span(28, 40), ())),
        relevance=2 / 3,
        utilization=1 / 3,
        completeness=0.5,
    )
    assert (example.source, example.split) == ("ragbench/pottery", "train")
    assert (example.generator, texts.id) == ("potter-1", "pottery/train/q1/potter-1")
    assert (report.rows, report.kept, report.dropped, report.noted) == (1, 1, {}, {})


def test_a_full_stop_after_a_key_is_no_part_of_it(tmp_path: Path) -> None:
    labels, noted = labels_of(
        tmp_path,
        sentence_support_information=[
            support("a.", "0a."),
            support("b."),
            support("c.", "general"),
        ],
        unsupported_response_sentence_keys=["b."],
        all_relevant_sentence_keys=["0b.", "0a.", "0a"],
        all_utilized_sentence_keys=["0a."],
    )
    assert labels == labels_of(tmp_path)[0]
    assert noted == {}


def test_unknown_stays_unknown(tmp_path: Path) -> None:
    columns = [name for name in row() if name.endswith(("_information", "_keys", "_score"))]
    assert len(columns) == 8
    assert labels_of(tmp_path, **dict.fromkeys(columns)) == (Labels(), {})


def test_empty_sentences_and_documents_go_without_shifting_keys(tmp_path: Path) -> None:
    (example,), report = read(
        tmp_path,
        row(documents_sentences=[[["0a", "  "]], [["1a", " "], ["1b", " Wet clay. "]]])
        | {"all_relevant_sentence_keys": ["1b"], "relevance_score": 1.0},
    )
    assert example.example.contexts == ("Wet clay.",)
    assert example.labels.relevant == (ContextSpan(0, 0, 9),)
    assert report.noted["documents without a sentence"] == 1


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"documents_sentences": []}, "no document holds any text"),
        ({"response_sentences": [["a", " "]]}, "the response is empty"),
        ({"response_sentences": [["a"]]}, "a sentence is not a [key, text] pair"),
        ({"response_sentences": [["a", "x"], ["a.", "y"]]}, "two sentences share one key"),
    ],
)
def test_unusable_rows(tmp_path: Path, others: dict[str, Any], reason: str) -> None:
    examples, report = read(tmp_path, row(), row(id="bad", **others))
    assert len(examples) == 1
    assert report.dropped == {reason: 1}
    assert report.places[reason] == ["pottery/train/bad"]


def test_published_scores_of_other_judges_are_read(tmp_path: Path) -> None:
    nothing = {"ragas_faithfulness": None, "trulens_groundedness": math.nan}
    scores = {
        "gpt3_adherence": 0.0,
        "gpt3_context_relevance": 0.25,
        "gpt35_utilization": 0.125,
        "trulens_context_relevance": 1.5,
    }
    (example,), report = read(tmp_path, row(**nothing, **scores, ragas_context_relevance=0.5))
    assert example.published == (
        PublishedScores("GPT-3.5", 0.0, 0.25, 0.125),
        PublishedScores("RAGAS", None, 0.5, None),
    )
    assert report.noted["trulens_context_relevance lies outside [0, 1]"] == 1
    (example,), _ = read(tmp_path / "without", row())
    assert example.published == ()


def test_two_responses_to_one_question_share_a_group_and_not_an_id(tmp_path: Path) -> None:
    other = [[["0a", "Something else entirely."]]]
    examples, _ = read(
        tmp_path,
        row(),
        row(generation_model_name="potter-2"),
        row(id="q2", question="What sings?"),
        row(id="q3", question="Who throws?", documents_sentences=other),
    )
    groups = [example.group for example in examples]
    assert groups[0] == groups[1] == groups[2] != groups[3]
    assert groups[0].startswith("ragbench/pottery/")
    assert len({example.example.id for example in examples}) == 4


def test_one_folder_of_sets_or_the_folder_of_one_set(tmp_path: Path) -> None:
    write_parquet(tmp_path / "pottery" / "validation-00000-of-00001.parquet", row())
    write_parquet(tmp_path / "pottery" / "test.parquet", row(id="q2"))
    write_parquet(tmp_path / "weaving" / "train-00000-of-00002.parquet", row())
    both, _ = read_ragbench(str(tmp_path))
    assert [(item.source, item.split) for item in both] == [
        ("ragbench/pottery", "test"),
        ("ragbench/pottery", "validation"),
        ("ragbench/weaving", "train"),
    ]
    pottery, _ = read_ragbench(str(tmp_path / "pottery"))
    assert {item.source for item in pottery} == {"ragbench/pottery"}


def test_the_hub_is_read_set_by_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked = []

    def load_dataset(name: str, part: str) -> dict[str, list[dict[str, Any]]]:
        asked.append((name, part))
        return {"train": [row()], "test": [row(id="q2")]}

    monkeypatch.setattr(datasets, "get_dataset_config_names", lambda name: ["pottery", "weaving"])
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    examples, _ = read_ragbench("ragbench")
    assert asked == [("rungalileo/ragbench", part) for part in ("pottery", "weaving")]
    assert [(item.source, item.split) for item in examples][:2] == [
        ("ragbench/pottery", "train"),
        ("ragbench/pottery", "test"),
    ]

    def refuse(name: str) -> list[str]:
        raise ConnectionError("offline")

    monkeypatch.setattr(datasets, "get_dataset_config_names", refuse)
    with pytest.raises(DataError, match=r"no data set 'potters/bench': offline"):
        read_ragbench("potters/bench")


@pytest.mark.network
def test_the_published_set_is_read() -> None:
    examples, report = read_ragbench("rungalileo/ragbench")
    assert len({example.source for example in examples}) == 12
    assert report.kept > 0.99 * report.rows
