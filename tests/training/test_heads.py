"""Models of some heads alone: trained, exported, and explicit about what they do not judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.training.conftest import MILL, ConfigOf
from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.calibrate import calibrate
from trivet.errors import BackendError, BundleError, ConfigError
from trivet.evaluation.evaluator import Evaluator
from trivet.export import export_onnx
from trivet.heads import HEAD_NAMES
from trivet.thresholds.choices import Choices
from trivet.train import train
from trivet.verdict_json import read_evaluation

SCORES = {
    "support": {"faithfulness", "supported_share", "adherent", "threshold"},
    "relevance": {"relevance"},
    "utilization": {"utilization"},
}


@pytest.mark.parametrize(
    ("heads", "trunk"), [(("support",), "shared"), (("relevance", "utilization"), "separate")]
)
def test_some_heads_are_trained_exported_and_alone_in_the_verdict(
    tmp_path: Path, config_of: ConfigOf, heads: tuple[str, ...], trunk: str
) -> None:
    named = f"heads=[{','.join(reversed(heads))}]"
    overrides = (named, f"encoder.trunk={trunk}", "optim.epochs=1")
    bundle = train(config_of(tmp_path / "run", *overrides))
    assert export_onnx(bundle, threads=1).worst["model.onnx"] < 1e-4
    info = read_bundle(bundle).info
    assert info.heads == heads
    assert (info.thresholds is None) == ("support" not in heads)
    known = set().union(*(SCORES[head] for head in heads))
    known |= {"completeness"} if {"relevance", "utilization"} <= set(heads) else set()
    for backend in ("onnx", "torch"):
        evaluator = Evaluator(bundle, 1, backend=backend)
        verdict = evaluator.evaluate("What of the mill?", MILL, "The mill is new. It is red.")
        every = SCORES["support"] | {"relevance", "utilization", "completeness"}
        assert {name for name in every if getattr(verdict, name) is not None} == known
        assert len(verdict.sentences) == (2 if "support" in heads else 0)
        assert bool(verdict.unsupported) == (verdict.adherent is False)
        for sentence in (s for context in verdict.contexts for s in context.sentences):
            assert (sentence.relevance is None) == ("relevance" not in heads)
            assert (sentence.utilization is None) == ("utilization" not in heads)
        assert read_evaluation(verdict.to_dict()) == verdict
    if "support" not in heads:
        with pytest.raises(BackendError, match="no support head"):
            evaluator.evaluate_tokens("What of the mill?", MILL, "The mill is new.")
    with pytest.raises(BundleError, match="to calibrate"):
        calibrate(
            bundle,
            ["unread"],
            choices=Choices(heads=tuple(n for n in HEAD_NAMES if n not in heads)),
        )


def test_a_bundle_gives_some_of_its_heads_and_no_others(
    tmp_path: Path, config_of: ConfigOf, trained: Path
) -> None:
    begin = (f"encoder.name={trained}", "encoder.init=bundle", "optim.epochs=1")
    second = train(config_of(tmp_path / "two", "heads=[support,relevance]", *begin))
    model = load_rag_model(read_bundle(second))
    assert list(model.heads) == ["support", "relevance"]
    assert not [name for name in model.state_dict() if "utilization" in name]
    begin = (f"encoder.name={second}", *begin[1:])
    with pytest.raises(ConfigError, match="has no utilization head"):
        train(config_of(tmp_path / "three", *begin))


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["heads=[]"], "at least one of support, relevance, utilization"),
        (["heads=[support,support]"], "evidence, once"),
        (["heads=[relevance]", "loss.relevance=0"], "loss .* above 0"),
    ],
)
def test_heads_that_nothing_trains_are_refused(
    tmp_path: Path, config_of: ConfigOf, overrides: list[str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        config_of(tmp_path, *overrides)


def test_nli_weights_without_a_support_head_are_refused(
    tmp_path: Path, config_of: ConfigOf
) -> None:
    with pytest.raises(ConfigError, match=r"init: nli .*\(relevance\)"):
        train(config_of(tmp_path, "heads=[relevance]", "encoder.init=nli"))
