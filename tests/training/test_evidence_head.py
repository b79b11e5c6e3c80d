"""The evidence head: trained with the others, or added to a bundle that stays as it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.judges import approximately
from tests.test_importing import in_torch
from tests.training.conftest import MILL, PAIRS, ConfigOf, log_of, row
from trivet.bundle.bundle import Bundle, add_files, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.weights import load_rag_model
from trivet.calibrate import calibrate
from trivet.errors import BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.export import export_onnx
from trivet.model.rag_model import RagModel, TokenLogits
from trivet.thresholds.choices import Choices
from trivet.train import train
from trivet.verdict_json import read_evaluation

ALL = "heads=[support,relevance,utilization,evidence]"
QUESTION, RESPONSE = "What of the mill?", "The mill is old. It was built of stone."


@pytest.fixture(scope="module")
def sourced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Write rows whose supported responses have their source as evidence."""
    files = []
    for group, count in (("train", 24), ("dev", 8)):
        lines = []
        for number in range(count):
            line = row(number, *PAIRS[number % 4], group)
            if not line["labels"]["unsupported"]:
                evidence = {"response": [0, len(line["response"])]}
                evidence["contexts"] = line["labels"]["relevant"]
                line["labels"]["evidence"] = [evidence]
            lines.append(json.dumps(line))
        files.append(tmp_path_factory.mktemp("sourced") / f"{group}.jsonl")
        files[-1].write_text("\n".join(lines), encoding="utf-8")
    return files[0], files[1]


def added(
    config_of: ConfigOf, folder: Path, bundle: Path, data: tuple[Path, Path], *settings: str
) -> Bundle:
    """Train an evidence head on a bundle, with its encoder and its other heads frozen."""
    frozen = [f"loss.{name}=0" for name in ("window", "token", "verdict")]
    frozen += [f"loss.{name}=0" for name in ("relevance", "utilization", "share")]
    frozen += ["optim.encoder_lr=0", "optim.head_lr=0.01", "optim.epochs=2"]
    begin = (f"encoder.name={bundle}", "encoder.init=bundle")
    return read_bundle(train(config_of(folder, ALL, *begin, *frozen, *settings, data=data)))


def test_the_similarity_of_question_and_sentence_moves_relevance_in_weights_and_graph(
    tmp_path: Path, config_of: ConfigOf, trained: Path, sourced: tuple[Path, Path]
) -> None:
    bundle = added(config_of, tmp_path / "run", trained, sourced, "run.precision=bf16")
    data, alone = [f"jsonl:{sourced[1]}"], Choices(("relevance",), similarity=True)
    calibrate(bundle.folder, data, "all", alone, out=tmp_path / "alone")
    calibrate(bundle.folder, data, "all", Choices(similarity=True))
    model = load_rag_model(read_bundle(bundle.folder))
    assert model.similarity != 0
    assert load_rag_model(read_bundle(tmp_path / "alone")).similarity == model.similarity
    with pytest.raises(BundleError, match="no evidence head to calibrate"):
        calibrate(trained, data, "all", alone, out=tmp_path / "none")
    assert "similarity" in (bundle.folder / "README.md").read_text(encoding="utf-8")
    export_onnx(bundle.folder, threads=1)
    relevances = [
        evaluator.evaluate(QUESTION, MILL, RESPONSE).relevance
        for evaluator in (
            Evaluator(bundle.folder, 1, backend="onnx", precision="fp32"),
            in_torch(bundle.folder),
            in_torch(Path(shutil.copytree(trained, tmp_path / "without"))),
        )
    ]
    assert relevances[0] == pytest.approx(relevances[1], abs=1e-4)
    assert relevances[1] != pytest.approx(relevances[2], abs=1e-3)


def test_a_head_is_added_and_all_else_of_the_bundle_stays(
    tmp_path: Path, config_of: ConfigOf, trained: Path, sourced: tuple[Path, Path]
) -> None:
    first = Path(shutil.copytree(trained, tmp_path / "first"))
    calibrate(first, [f"jsonl:{sourced[1]}"], "all", Choices(lexical_overlap=True))
    second = added(config_of, tmp_path / "second", first, sourced)
    old, info = read_bundle(first).info, second.info
    assert info.heads == (*old.heads, "evidence")
    assert (info.thresholds, info.calibration) == (old.thresholds, old.calibration)
    before, after = (load_rag_model(bundle) for bundle in (read_bundle(first), second))
    assert before.lexical_overlap == after.lexical_overlap != {}
    state = after.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in before.state_dict().items())

    export_onnx(second.folder, threads=1)
    of_graph, of_weights, plain = (
        evaluator.evaluate(QUESTION, MILL, RESPONSE)
        for evaluator in (
            Evaluator(second.folder, 1, backend="onnx", precision="fp32"),
            in_torch(second.folder),
            in_torch(first),
        )
    )
    for verdict in (of_graph, of_weights):
        assert all(sentence.evidence is not None for sentence in verdict.sentences)
        assert read_evaluation(verdict.to_dict()) == verdict
    assert of_graph.to_dict() == approximately(of_weights.to_dict(), 1e-3)
    without = tuple(replace(sentence, evidence=None) for sentence in of_weights.sentences)
    assert replace(of_weights, sentences=without).to_json() == plain.to_json()

    calibrate(second.folder, [f"jsonl:{sourced[1]}"], "all")
    assert read_bundle(second.folder).info.evidence is not None


def test_other_windows_are_kept_and_ask_for_calibration(
    tmp_path: Path,
    config_of: ConfigOf,
    trained: Path,
    sourced: tuple[Path, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = Path(shutil.copytree(trained, tmp_path / "first"))
    scores = read_bundle(EMBEDDED_BUNDLE).info.scores
    add_files(first, {}, read_bundle(first).info.model_copy(update={"scores": scores}))
    settings = ["window.evidence_sentences=1", "window.sort_contexts=true"]
    second = added(config_of, tmp_path / "second", first, sourced, *settings)
    window = read_bundle(first).info.window
    assert second.info.window == replace(window, evidence_sentences=1, sort_contexts=True)
    assert second.info.scores == ()
    assert "run `trivet calibrate` on the new bundle" in caplog.text


def test_without_labels_of_evidence_the_map_of_the_first_bundle_stays(
    tmp_path: Path, config_of: ConfigOf, sourced: tuple[Path, Path]
) -> None:
    first = train(config_of(tmp_path / "first", ALL, "optim.epochs=1", data=sourced))
    begin = (f"encoder.name={first}", "encoder.init=bundle")
    second = train(config_of(tmp_path / "second", ALL, *begin, "optim.epochs=1"))
    kept = read_bundle(first).info.evidence
    assert kept is not None and kept.lexical_overlap != 0  # fitted
    assert read_bundle(second).info.evidence == kept


@pytest.mark.parametrize("trunk", ["shared", "separate"])
def test_it_is_trained_with_the_others(
    tmp_path: Path, config_of: ConfigOf, sourced: tuple[Path, Path], trunk: str
) -> None:
    heads = "heads=[evidence,support]"
    config = config_of(tmp_path, heads, f"encoder.trunk={trunk}", "optim.epochs=1", data=sourced)
    info = read_bundle(train(config)).info
    assert info.heads == ("support", "evidence")
    assert info.outputs[-1].name == "evidence_states"
    assert {"dev/evidence_auroc/mean", "loss/evidence"} <= set(log_of(tmp_path)[0])


def long_contexts(sourced: tuple[Path, Path], folder: Path) -> tuple[Path, Path]:
    """Write the rows again with contexts of several windows of 32 tokens."""
    files = []
    for file in sourced:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        more = [" ".join([text] * times) for times in (2, 3) for text in MILL]
        longer = [row | {"contexts": [*row["contexts"], *more]} for row in rows]
        files.append(folder / file.name)
        files[-1].write_text("\n".join(map(json.dumps, longer)), encoding="utf-8")
    return files[0], files[1]


def test_no_reading_of_a_run_or_a_calibration_holds_more_windows_than_a_call(
    tmp_path: Path,
    config_of: ConfigOf,
    sourced: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, held = RagModel.read, list[int]()

    def watch(self: RagModel, ids: Tensor, *others: Tensor, **heads: Any) -> TokenLogits:
        held.append(len(ids))
        return read(self, ids, *others, **heads)

    monkeypatch.setattr(RagModel, "read", watch)
    calls = ("window.size=32", "optim.batch_windows=64", "optim.call_windows=2")
    data = long_contexts(sourced, tmp_path)
    bundle = train(config_of(tmp_path, ALL, *calls, "optim.epochs=1", data=data))
    trained = len(held)
    calibrate(bundle, [f"jsonl:{data[1]}"], "all")
    assert max(held[:trained]) == max(held[trained:]) == 2
