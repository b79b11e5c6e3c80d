"""Names of peers and the rules of their scores."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from trivet.errors import ConfigError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.peers.peer import PeerScore, PeerSetup, load_peer
from trivet.records import Evaluation, RagExample, Span


@pytest.mark.parametrize(
    "fields",
    [
        {"faithfulness": None},
        {"faithfulness": 0.5, "failed": "unparsable"},
        {"faithfulness": 1.5},
        {"faithfulness": math.nan},
    ],
)
def test_a_score_is_in_range_or_failed_with_a_reason(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="faithfulness"):
        PeerScore(**fields)
    with pytest.raises(ValueError, match=r"\[0, 1\], got 87"):
        PeerScore.at(0.5, 87)


@pytest.mark.parametrize(
    ("value", "faithfulness", "hallucinated", "failed"),
    [
        (0.5, 0.5, False, None),
        (0.49, 0.49, True, None),
        (1 + 1e-7, 1.0, False, None),
        (-1e-7, 0.0, True, None),
        (math.nan, None, None, "not_a_number"),
    ],
)
def test_a_score_is_flagged_below_the_threshold(
    value: float, faithfulness: float | None, hallucinated: bool | None, failed: str | None
) -> None:
    score = PeerScore.at(0.5, value)
    assert (score.faithfulness, score.hallucinated, score.failed) == (
        faithfulness,
        hallucinated,
        failed,
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("overlapp", "unknown peer 'overlapp'; nearest: overlap"),
        ("xyzzy", "unknown peer 'xyzzy'; peers: always-yes, "),
        ("overlap:more", "overlap takes no argument"),
        ("always-yes:no", "always-yes takes no argument"),
        ("trivet:embedded#gpu", "no backend 'gpu'; there are onnx,"),
    ],
)
def test_an_unknown_peer_is_refused(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_peer(name, PeerSetup())


def test_a_judge_without_the_client_of_llms_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ConfigError, match=r"likert needs openai, .*'\.\[research\]'"):
        load_peer("likert:tiny", PeerSetup(open_llm=str))


def test_always_yes_flags_the_whole_response() -> None:
    score = load_peer("always-yes", PeerSetup()).score(RagExample("", ("a",), "four"))
    assert (score.faithfulness, score.hallucinated) == (0.0, True)
    assert score.spans == (Span(0, 4),)


def test_trivet_gives_the_verdict_of_its_bundle(rag_example: RagExample) -> None:
    (verdict,) = Evaluator().evaluate_many([rag_example])
    assert isinstance(verdict, Evaluation)
    score = load_peer("trivet", PeerSetup()).score(rag_example)
    assert score.faithfulness == verdict.faithfulness
    assert score.hallucinated is not verdict.adherent


def test_overlap_is_higher_for_words_of_the_context() -> None:
    overlap = load_peer("overlap", PeerSetup())
    contexts = ("The bridge opened in 1932. It crosses the river.",)
    copied = overlap.score(RagExample("When?", contexts, "The bridge opened in 1932."))
    other = overlap.score(RagExample("When?", contexts, "Ferries stopped long before."))
    assert copied.faithfulness is not None and other.faithfulness is not None
    assert copied.faithfulness > other.faithfulness
    assert copied.hallucinated is None


def test_a_row_that_cannot_be_judged_is_an_example_error() -> None:
    with pytest.raises(ExampleError):
        load_peer("trivet", PeerSetup()).score(RagExample("q", (), "answer"))


def test_a_local_model_runs_on_the_threads_of_the_setup(nli_checkpoint: Path) -> None:
    import torch

    before = torch.get_num_threads()
    try:
        load_peer(f"nli:{nli_checkpoint}", PeerSetup(threads=before + 1))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
