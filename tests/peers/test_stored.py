"""Scores of other judges, from Parquet files of RAGBench's published form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.data.examples import write_parquet
from trivet.labelled.ragbench import read_ragbench
from trivet.peers.peer import PeerScore, PeerSetup, load_peer
from trivet.peers.predictions import read_predictions
from trivet.peers.run import Run, run_peer


def row(name: str, **scores: float | None) -> dict[str, Any]:
    return {
        "id": name,
        "question": "How long does clay rest?",
        "documents": ["Clay rests for a day."],
        "response": "Clay rests a day.",
        "documents_sentences": [[["0a", "Clay rests for a day."]]],
        "response_sentences": [["a", "Clay rests a day."]],
        "sentence_support_information": [],
        "unsupported_response_sentence_keys": [],
        "adherence_score": True,
        "all_relevant_sentence_keys": ["0a"],
        "all_utilized_sentence_keys": ["0a"],
        "relevance_score": 1.0,
        "utilization_score": 1.0,
        "completeness_score": 1.0,
        "generation_model_name": "potter-1",
        "gpt3_adherence": None,
        "gpt3_context_relevance": 0.5,
        "gpt35_utilization": 0.5,
        "ragas_faithfulness": None,
        "ragas_context_relevance": 0.5,
        "trulens_groundedness": None,
        "trulens_context_relevance": 0.5,
    } | scores


PUBLISHED = [
    row("q1", gpt3_adherence=1.0, ragas_faithfulness=0.25, trulens_groundedness=float("nan")),
    row("q2", gpt3_adherence=0.0, ragas_faithfulness=0.75, trulens_groundedness=0.4),
    row("q3"),
]


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        # Only GPT-3.5's yes or no has a threshold.
        ("GPT-3.5", [(1.0, False, None), (0.0, True, None), (None, None, "not_stored")]),
        ("RAGAS", [(0.25, None, None), (0.75, None, None), (None, None, "not_stored")]),
        ("TruLens", [(None, None, "not_stored"), (0.4, None, None), (None, None, "not_stored")]),
    ],
)
def test_published_scores_are_looked_up_and_take_no_time(
    tmp_path: Path, judge: str, expected: list[tuple[float | None, bool | None, str | None]]
) -> None:
    write_parquet(tmp_path / "pottery" / "test-00000-of-00001.parquet", *PUBLISHED)
    rows = read_ragbench(str(tmp_path))[0]
    setup = PeerSetup(rows)
    path = run_peer(judge, lambda repeat: load_peer(f"stored:{judge}", setup), Run(rows, tmp_path))
    (found,) = read_predictions([path], rows, 1).repeats
    assert found == [
        PeerScore(score, flagged, failed=failed, raw=one.raw)
        for (score, flagged, failed), one in zip(expected, found, strict=True)
    ]
    assert [one.seconds for one in found] == [None] * 3
