"""Calibration end to end on a tiny bundle: the rewritten model answers with the fitted maps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from tests.models import initial_model
from trivet.__main__ import app
from trivet.bundle.bundle import add_files, read_bundle, write_bundle
from trivet.bundle.info import BundleInfo, GraphInfo
from trivet.bundle.weights import load_rag_model
from trivet.calibrate import Calibrated, calibrate
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import BundleError, DataError
from trivet.exporting.graph import trace
from trivet.heads import DEFAULT_HEADS, HeadName
from trivet.labelled.datamodule import Item, collate_items, prepare
from trivet.labelled.labelled_jsonl import read_jsonl
from trivet.model.aggregate import Outputs
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel
from trivet.thresholds import report as calibration_report
from trivet.thresholds.apply import choose_thresholds, load_rows
from trivet.thresholds.choices import Choices
from trivet.thresholds.fit import LinearMap, probabilities
from trivet.thresholds.head_logits import read_heads
from trivet.thresholds.joining import HeadLogits

CONTEXT_HEADS: tuple[HeadName, ...] = ("relevance", "utilization")
PASSAGES = (
    "The mill grinds flour. The ferry is red. The lamp is lit at dusk.",
    "A bridge opened in 1817. The boat was blue. It has ten oars.",
)
RESPONSES = (
    "The mill is old. It was built of stone.",
    "The lamp was red. No boat crosses the river. The baker made bread.",
)


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory,
    bert_checkpoint: Path,
    tiny_info: Callable[[SegmentTokenizer], BundleInfo],
) -> Path:
    """Write a bundle of a two-layer model with random heads and a stale graph."""
    folder = tmp_path_factory.mktemp("calibration") / "bundle"
    torch.manual_seed(0)
    model, tokenizer = initial_model(str(bert_checkpoint), "plain", "weakest_sentence")
    with torch.no_grad():
        for name, weight in model.heads.named_parameters():
            weight.mul_(8 if name.endswith("classifier.weight") else 1)  # large logits
    graph = GraphInfo(file="model.onnx", precision="fp32", opset=20, portable=True)
    write_bundle(
        folder,
        tiny_info(tokenizer).model_copy(update={"graphs": (graph,), "prefix_attention": True}),
        tokenizer.to_json(),
        weights=model.state_dict(),
        architecture=model.architecture(),
        extra={"model.onnx": b"of the old weights"},
    )
    return folder


@pytest.fixture
def bundle(written: Path, tmp_path: Path) -> Path:
    """Copy the bundle, since calibration changes it in place."""
    return shutil.copytree(written, tmp_path / "bundle")


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def row_of(question: str, contexts: list[str], response: str, group: str) -> dict[str, Any]:
    labels: dict[str, Any] = {"unsupported": [], "relevant": [], "utilized": []}
    texts = {"question": question, "contexts": contexts, "response": response}
    return {**texts, "group": group, "labels": labels}


def spans_of(item: Item) -> dict[str, list[list[int]]]:
    """Return every sentence that each label may name, in the order of the heads."""
    texts = item.tokenized
    contexts = [[s.context, s.start, s.end] for s in texts.context_sentence_spans]
    answers = [[s.start, s.end] for s in texts.response_sentence_spans]
    return {"unsupported": answers, "relevant": contexts, "utilized": contexts}


def read(bundle: Path, data: Path) -> tuple[RagModel, list[Item], dict[Any, HeadLogits]]:
    loaded = read_bundle(bundle)
    model = load_rag_model(loaded)
    tokenizer = SegmentTokenizer.from_file(bundle / "tokenizer.json")
    items = prepare(read_jsonl(data)[0], tokenizer, loaded.info.window)
    return model, items, read_heads(model, items, tokenizer.special.pad, 2)


@pytest.fixture(scope="module")
def data(written: Path) -> Path:
    """Write rows whose labels follow the model's scores with noise, so that a fit exists."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(24):
        contexts = [PASSAGES[index] * (1 + number % 3) for index in random.permutation(2)]
        response = RESPONSES[number % 2] if number else ""
        rows.append(row_of(f"What of {number}?", contexts, response, f"group {number // 2}"))
    path = written.with_name("rows.jsonl")
    write_rows(path, rows)
    _, items, logits = read(written, path)
    places: dict[str, int] = dict.fromkeys(logits, 0)
    middles = {name: probabilities(head, LinearMap()).sentences for name, head in logits.items()}
    for row, item in zip(rows, items, strict=True):
        for name, (key, spans) in zip(DEFAULT_HEADS, spans_of(item).items(), strict=True):
            scores = middles[name]
            here = scores[places[name] : places[name] + len(spans)]
            places[name] += len(spans)
            above = (here > np.median(scores)) ^ (random.random(len(here)) < 0.15)
            marked = ~above if name == "support" else above
            row["labels"][key] = [span for span, mark in zip(spans, marked, strict=True) if mark]
        row["labels"]["adherent"] = not row["labels"]["unsupported"]
    write_rows(path, rows)
    return path


def check_answers(bundle: Path, data: Path, logits: dict[Any, HeadLogits], maps: Any) -> None:
    """Check that the rewritten bundle answers what the old logits mean under the new maps."""
    model, items, _ = read(bundle, data)
    joined = {name: probabilities(head, maps[name]) for name, head in logits.items()}
    for index, item in enumerate(items):
        with torch.no_grad():
            batch = collate_items([item], 0)
            read_logits = model.read(*batch.windows[:3])
            outputs = model.join(read_logits, *batch.windows[1:], batch.is_evidence)
        example_rows = {name: head.row == index for name, head in logits.items()}
        means = [joined[name].sentences[example_rows[name]].mean() for name in CONTEXT_HEADS]
        wanted = [*means, joined["support"].faithfulness[index]]
        scores = (outputs.relevance, outputs.utilization, outputs.faithfulness)
        assert list(map(float, scores)) == pytest.approx(list(map(float, wanted)), abs=2e-5)
        support = joined["support"].sentences[example_rows["support"]].tolist()
        answered = outputs.sentence_support[0, : len(support)].tolist()
        assert answered == pytest.approx(support, abs=2e-5)


@pytest.mark.parametrize("evidence_sentences", [0, 1])
def test_calibration_removes_the_old_graph(
    bundle: Path, data: Path, evidence_sentences: int
) -> None:
    before_it = read_bundle(bundle).info
    window = replace(before_it.window, evidence_sentences=evidence_sentences)
    add_files(bundle, {}, before_it.model_copy(update={"window": window}))
    model, _, logits = read(bundle, data)
    assert logits["support"].token is not None, "no response token stands in several windows"
    assert (logits["support"].is_evidence is not None) == bool(evidence_sentences)

    calibrated = calibrate(bundle, [f"jsonl:{data}"], "all")

    info = read_bundle(bundle).info
    assert info.calibration == calibrated.info
    assert not info.graphs and not (bundle / "model.onnx").exists()
    by_name = {report.name: report for report in calibrated.reports}
    fitted = {name for name in logits if by_name[name].fitted is not None}
    assert fitted == set(info.calibration.errors) == set(DEFAULT_HEADS)
    check_answers(bundle, data, logits, {n: by_name[n].fitted or LinearMap() for n in logits})
    state, before = load_rag_model(read_bundle(bundle)).state_dict(), model.state_dict()
    for name in fitted:
        weight = f"heads.{name}.classifier.weight"
        scale = dict(info.calibration.heads)[cast(Any, name)].scale
        assert torch.allclose(state[weight], before[weight] * scale)
    assert "calibration error" in (bundle / "README.md").read_text(encoding="utf-8")


def check_report(result: Calibrated, out: Path) -> None:
    """Check that a report shows errors and curves."""
    shown = calibration_report.lines(result.reports, result.chosen)
    assert any(line.startswith("support: scale") for line in shown)
    page = calibration_report.write_report(out, result.info, result.reports, result.chosen)
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 4 and "ECE after" in text and "0-5k tokens" in text
    record = json.loads((out / "calibration.json").read_text(encoding="utf-8"))
    assert [head["name"] for head in record["heads"]][:2] == ["support", "faithfulness"]
    assert (out / "reliability_support.svg").exists()
    with pytest.raises(DataError, match="there is no folder"):
        calibration_report.check_path(out / "no" / "page.html")
    with pytest.raises(DataError, match="is not a folder"):
        calibration_report.check_path(out / "calibration.json")


def test_a_second_calibration_comes_after_the_first(
    bundle: Path, data: Path, tmp_path: Path
) -> None:
    _, _, raw = read(bundle, data)
    spec = [f"jsonl:{data}"]
    reported = calibrate(bundle, spec, "all")
    check_report(reported, tmp_path / "report")
    first = reported.info.heads["relevance"]
    assert first.scale != pytest.approx(1, abs=0.05)
    second = calibrate(bundle, spec, "all").info.heads["relevance"]
    # The rows are counted twice, against a prior that holds the map where it was.
    assert second.scale == pytest.approx(first.scale, rel=0.2)
    assert second.shift == pytest.approx(first.shift, abs=0.3)
    again = calibrate(bundle, spec, "all", Choices(heads=("relevance",))).info
    assert set(again.heads) == {"support", "relevance", "utilization"}
    assert again.heads["relevance"].scale == pytest.approx(first.scale, rel=0.3)
    assert raw["relevance"].token is None


@pytest.fixture(scope="module")
def shared(written: Path) -> Path:
    """Write rows whose labels follow lexical overlap with noise."""
    random = np.random.default_rng(1)
    questions = ("Is the ferry red?", "Has the boat ten oars?", "")
    responses = (*RESPONSES, "The ferry is red.")
    pairs = list(zip(questions, responses, strict=True)) * 8
    rows = [row_of(q, list(PASSAGES), r, f"group {n}") for n, (q, r) in enumerate(pairs)]
    path = written.with_name("shared.jsonl")
    write_rows(path, rows)
    for row, item in zip(rows, read(written, path)[1], strict=True):
        layout, sentences = item.layout, item.tokenized.context_sentence
        by_label = {
            "relevant": (layout.question_overlap, sentences),
            "utilized": (layout.response_overlap, sentences),
            "unsupported": (
                0.7 - layout.sentence_features[:, 0][item.tokenized.response_sentence],
                item.tokenized.response_sentence,
            ),
        }
        for key, (overlap, of) in by_label.items():
            spans, (_, first) = spans_of(item)[key], np.unique(of, return_index=True)
            marks = (overlap[first] > 0.3) ^ (random.random(len(spans)) < 0.15)
            row["labels"][key] = [s for s, mark in zip(spans, marks, strict=True) if mark]
    write_rows(path, rows)
    return path


def overlaps(bundle: Path) -> dict[str, float]:
    """Return the weights that the model has, and bundle.json names."""
    held = load_rag_model(loaded := read_bundle(bundle)).lexical_overlap
    recorded = {name: head.lexical_overlap for name, head in loaded.info.calibration.heads.items()}
    assert held.items() <= recorded.items() or not any(held.values())
    return held


def test_overlap_is_in_bundle_and_graph(bundle: Path, shared: Path) -> None:
    _, items, logits = read(bundle, shared)
    calibrated = calibrate(bundle, [f"jsonl:{shared}"], "all", Choices(lexical_overlap=True))
    assert min(overlaps(bundle).values()) > 1
    maps = {report.name: report.fitted or LinearMap() for report in calibrated.reports}
    check_answers(bundle, shared, logits, maps)
    assert ", lexical overlap " in (bundle / "README.md").read_text(encoding="utf-8")

    model = load_rag_model(read_bundle(bundle))
    import onnxruntime

    traced = trace(inference_model(model, 64), vocab=int(model.trunk.config.vocab_size))
    session = onnxruntime.InferenceSession(traced.SerializeToString())
    windows = {k: v.numpy() for k, v in collate_items(items[:4], 0).windows._asdict().items()}
    answer = Outputs(*session.run(None, windows))
    wanted = model(*collate_items(items[:4], 0).windows)
    for name, value in answer.present().items():
        assert np.allclose(value, getattr(wanted, name).detach().numpy(), atol=1e-5)
    texts = {"relevance": "question", "utilization": "response"}
    for name, field in ((name, f"{text}_overlap") for name, text in texts.items()):
        nothing = windows | {field: np.zeros_like(windows[field])}
        without = Outputs(*session.run(None, nothing))
        gained = np.reshape(getattr(answer, name) - getattr(without, name), (4, -1)).mean(axis=1)
        shares = windows[field].any(axis=1)
        assert shares.any() and (gained[shares] > 0.02).all() and not gained[~shares].any()


def test_chosen_thresholds_are_stored(bundle: Path, data: Path) -> None:
    old = read_bundle(bundle).info.thresholds
    best_f1 = Choices(heads=("relevance",), false_alarms=None)
    calibrated = calibrate(bundle, [f"jsonl:{data}"], "all", best_f1)
    (sentence,) = (use.threshold for use in calibrated.chosen.uses if use.use == "sentence")
    stored = read_bundle(bundle).info.thresholds
    assert stored is not None and sentence == stored.sentence and stored != old


def test_thresholds_alone_change_no_graph(tiny_bundle: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    command = ["calibrate", str(tiny_bundle), "--thresholds-only", "--out", str(out)]
    command += ["--data", f"jsonl:{data}", "--split", "all"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code in (0, 4), result.output
    assert "false alarms of" in result.output
    before, after = (read_bundle(folder).manifest.files for folder in (tiny_bundle, out))
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"bundle.json", "README.md"}
    assert before.keys() == after.keys()
    with pytest.raises(BundleError, match="mine: exists"):  # before the bundle is read
        choose_thresholds(tmp_path / "none", [f"jsonl:{data}"], "all", out=out)


def test_a_sheet_is_read_by_its_column_of_labels() -> None:
    specs, key = ["sheet:examples/check_sheet.csv"], Choices(label="key")
    assert [row.labels.adherent for row in load_rows(specs, "all", key)].count(True) == 18
    with pytest.raises(DataError, match="--label key names a column of sheet:FILE"):
        load_rows(["jsonl:rows.jsonl"], "all", key)


def test_heads_without_labels_are_named_or_refused(bundle: Path, tmp_path: Path) -> None:
    row = row_of("q", [PASSAGES[0]], "The mill.", "g") | {"labels": {"relevant": [[0, 0, 22]]}}
    write_rows(tmp_path / "one.jsonl", [row])
    write_rows(tmp_path / "empty.jsonl", [])
    for name, choices, message in (
        ("one", Choices(heads=("utilization",)), "utilization: needs labels of both kinds"),
        ("empty", Choices(), "no row in split 'all' to calibrate on"),
        ("one", Choices(only=("elsewhere",)), "from elsewhere to calibrate on"),
        ("one", Choices(thresholds_from=("elsewhere",)), "thresholds from elsewhere: no row"),
    ):
        with pytest.raises(DataError, match=message):
            calibrate(bundle, [f"jsonl:{tmp_path / name}.jsonl"], "all", choices)
