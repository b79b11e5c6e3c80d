"""Bundles are read as they were written; altered or incomplete ones are refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
import pytest
import transformers

from tests.conftest import bundle_info
from tests.judges import write_model
from trivet.bundle import bundle as bundle_module
from trivet.bundle.bundle import add_files, parse_info, read_bundle, write_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.info import (
    BundleInfo,
    DataInfo,
    EvidenceInfo,
    GraphInfo,
    ScoreInfo,
    Thresholds,
    TrainingInfo,
)
from trivet.bundle.manifest import PARTIAL_NAME, check_name, write_manifest
from trivet.bundle.model_card import render_card
from trivet.bundle.weights import load_rag_model
from trivet.errors import BundleError
from trivet.model.architecture import Architecture
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk


@pytest.fixture
def info() -> BundleInfo:
    score = ScoreInfo(
        measure="hallucination AUROC",
        data="mills",
        split="dev",
        value=0.75,
        low=0.7,
        high=0.8,
        n=100,
        positives=30,
        date="2026-01-31",
        command="trivet test --data jsonl:mills.jsonl",
        precision="int8",
    )
    training = TrainingInfo(
        command="trivet train tiny.yaml && trivet train more.yaml",
        date="2026-01-31",
        data=(DataInfo(name="mills | ferries", licence="CC0-1.0", rows=1200),),
        settings={"epochs": 3, "learning_rate": 1e-5},
    )
    thresholds = Thresholds(sentence=0.4, span=0.3)
    return bundle_info(training=training, thresholds=thresholds, scores=(score,))


@pytest.fixture
def model(tiny_bert: transformers.BertModel) -> RagModel:
    return RagModel(Trunk(tiny_bert)).eval()


@pytest.fixture
def folder(tmp_path: Path, info: BundleInfo, model: RagModel) -> Path:
    """A written bundle with weights."""
    return write_model(tmp_path / "bundle", info, '{"tokens": []}', model)


def test_what_is_read_is_what_was_written(folder: Path, info: BundleInfo, model: RagModel) -> None:
    bundle = read_bundle(folder)
    assert bundle.info == info
    assert bundle.path("tokenizer.json").read_text() == '{"tokens": []}'
    loaded = load_rag_model(bundle)
    assert not loaded.training
    for name, tensor in model.state_dict().items():
        assert loaded.state_dict()[name].equal(tensor), name


# Damage ---------------------------------------------------------------------------------------


def replace(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Return a function that changes the contents of one file."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def link(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder.parent / "elsewhere.json")
    (folder / "tokenizer.json").symlink_to(folder.parent / "elsewhere.json")


CUT = replace("model.safetensors", lambda content: content[:-1])
FLIP = replace("model.safetensors", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
EDIT = replace("bundle.json", lambda content: content.replace(b"0.4", b"0.9"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (CUT, r"model\.safetensors: \d+ bytes instead of \d+"),
        (EDIT, r"bundle\.json: SHA-256"),
        (lambda f: (f / "tokenizer.json").unlink(), r"tokenizer\.json is named in .* but missing"),
        (link, r"tokenizer\.json: not a regular file"),
        (lambda f: (f / "deep").mkdir(), r"deep: not a regular file"),
        (shutil.rmtree, "no such folder"),
    ],
)
def test_damage_is_refused_by_name(
    folder: Path, damage: Callable[[Path], object], message: str
) -> None:
    damage(folder)
    with pytest.raises(BundleError, match=message):
        read_bundle(folder)


def test_the_embedded_bundle_is_read_by_its_name() -> None:
    named, embedded = read_bundle(Path("embedded")), read_bundle(EMBEDDED_BUNDLE)
    assert (named.folder, named.manifest) == (embedded.folder, embedded.manifest)


@pytest.mark.parametrize(
    "name",
    ["../up.json", "/etc/hosts.txt", "a/b.json", ".hidden.json", "a..json", "..", "", "a\\b.json"],
)
def test_a_manifest_cannot_name_a_path(folder: Path, name: str) -> None:
    file = folder / "MANIFEST.json"
    manifest = json.loads(file.read_text())
    manifest["files"][name] = manifest["files"]["tokenizer.json"]
    file.write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="is refused"):
        read_bundle(folder)


@pytest.mark.parametrize("name", ["model.bin", "model.pt", "weights.pkl", "run.py", "model"])
def test_only_plain_data_is_held(name: str) -> None:
    with pytest.raises(BundleError, match="store weights as safetensors"):
        check_name(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "use a newer trivet"),
        ({"more": 1}, "more: unknown"),
        ({"files": {"a.json": {"size": "1", "sha256": "0" * 64}}}, "whole number"),
        ({"files": {"a.json": {"size": 1, "sha256": "x"}}}, "sha256"),
    ],
)
def test_an_invalid_manifest_is_refused(folder: Path, change: dict[str, Any], message: str) -> None:
    file = folder / "MANIFEST.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(BundleError, match=message):
        read_bundle(folder)


# bundle.json ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("schema_version",), 2, r"schema_version 2, this trivet reads 1; use a newer trivet"),
        (("window", "stride"), 1, r"window\.stride: unknown"),
        (
            ("window", "stride_overlap"),
            48,
            r"window\.stride_overlap \(48 tokens\) must be between 0 and",
        ),
        (("heads",), ["support", "mood"], r"heads\.1"),
        (("inputs",), [], "inputs or outputs differ"),
        (("name",), "", "name"),
    ],
)
def test_an_invalid_description_is_refused(
    info: BundleInfo, path: tuple[str, ...], value: Any, message: str
) -> None:
    raw = json.loads(info.to_json())
    part = raw
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    with pytest.raises(BundleError, match=message):
        parse_info(json.dumps(raw).encode(), "bundle.json")


def test_the_description_never_holds_nan(info: BundleInfo) -> None:
    score = info.scores[0].model_dump() | {"value": float("nan")}
    with pytest.raises(pydantic.ValidationError, match="finite"):
        ScoreInfo(**score)


def test_a_graph_that_is_named_must_be_there(folder: Path, info: BundleInfo) -> None:
    graph = GraphInfo(file="model.onnx", precision="fp32", opset=20, portable=True)
    changed = info.model_copy(update={"graphs": (graph,)})
    (folder / "bundle.json").write_text(changed.to_json())
    write_manifest(folder)
    with pytest.raises(BundleError, match=r"names the graph model\.onnx"):
        read_bundle(folder)


def test_a_bundle_needs_weights_or_a_graph(tmp_path: Path, info: BundleInfo) -> None:
    write_bundle(tmp_path, info, "{}")
    with pytest.raises(BundleError, match="there is no model"):
        read_bundle(tmp_path)


# Writing --------------------------------------------------------------------------------------


def test_a_new_bundle_leaves_nothing_of_the_old(
    folder: Path, info: BundleInfo, model: RagModel
) -> None:
    add_files(folder, {"model.onnx": b"old graph", "curve.json": b"[]"})
    assert read_bundle(folder).has("curve.json")
    write_model(folder, info, "{}", model)
    bundle = read_bundle(folder)
    assert not bundle.has("model.onnx") and not bundle.has("curve.json")
    with pytest.raises(BundleError, match=r"no model\.onnx; the bundle holds README\.md"):
        bundle.path("model.onnx")


@pytest.mark.parametrize("write", ["new", "add"])
def test_a_write_that_fails_or_is_killed_leaves_the_bundle_as_it_was(
    folder: Path, info: BundleInfo, model: RagModel, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_: object) -> str:
        raise OSError("No space left on device")

    def write_again() -> None:
        if write == "new":
            write_model(folder, info, "{}", model)
        else:
            add_files(folder, {"model.onnx": b"graph"}, without={"self_test.json"})

    monkeypatch.setattr(bundle_module, "render_card", fail)  # the last but one of the files
    with pytest.raises(OSError, match="No space left"):
        write_again()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    monkeypatch.undo()
    # A killed process cannot clean up.
    (folder / PARTIAL_NAME).mkdir()
    (folder / PARTIAL_NAME / "model.onnx").write_bytes(b"half a gra")
    assert not read_bundle(folder).has("model.onnx")
    write_again()
    assert not (folder / PARTIAL_NAME).exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, info: BundleInfo) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(BundleError, match=r"thesis\.txt, which is not part of a bundle"):
        write_bundle(tmp_path, info, "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_bundle_is_not_added_to(folder: Path) -> None:
    FLIP(folder)
    with pytest.raises(BundleError, match=r"model\.safetensors"):
        add_files(folder, {"parity.json": b"{}"})


def test_the_card_shows_the_description(info: BundleInfo) -> None:
    window = dataclasses.replace(info.window, evidence_sentences=2, sort_contexts=True)
    evidence = EvidenceInfo(scale=1.5, shift=-1, threshold=0.25)
    card = render_card(info.model_copy(update={"window": window, "evidence": evidence}))
    for text in ("# tiny", "CC0-1.0", r"mills \| ferries", "1,200", "0.700 to 0.800", "below 0.4"):
        assert text in card, text
        assert text in render_card(info), text
    for text in ("2 context sentences that share most words", "read first", "reaches 0.25"):
        assert text in card, text
        assert text not in render_card(info), text
    assert "None measured yet" in render_card(info.model_copy(update={"scores": ()}))


# Weights --------------------------------------------------------------------------------------


def load_again(folder: Path, info: BundleInfo, state: Any, config: Architecture) -> None:
    write_bundle(folder, info, "{}", weights=state, architecture=config)
    load_rag_model(read_bundle(folder))


def test_weights_that_do_not_fit_are_named(
    tmp_path: Path, info: BundleInfo, model: RagModel
) -> None:
    state, config = model.state_dict(), model.architecture()
    classifier = "heads.support.classifier.weight"

    def without(part: str) -> dict[str, Any]:
        return {key: value for key, value in state.items() if part not in key}

    for changed, message in (
        (without("utilization"), r"weights of the head utilization are missing"),
        (without("word_embeddings"), "1 parameters are missing, first trunk"),
        (
            state | {"heads.mood.weight": state[classifier]},
            r"belong to no part of the model.*heads\.mood",
        ),
        (
            state | {classifier: state[classifier][:2].clone()},
            r"classifier\.weight has shape \(2, 16\)",
        ),
        (
            state | {classifier: state[classifier] * float("nan")},
            r"classifier\.weight is not finite",
        ),
    ):
        with pytest.raises(BundleError, match=message):
            load_again(tmp_path, info, changed, config)


@pytest.mark.parametrize("key", ["auto_map", "_attn_implementation", "quantization_config"])
def test_an_encoder_brings_no_code(
    tmp_path: Path, info: BundleInfo, model: RagModel, key: str
) -> None:
    held = model.architecture()
    config = dataclasses.replace(held, encoder={**held.encoder, key: "somewhere/else"})
    with pytest.raises(BundleError, match=rf"encoder\.{key} is refused"):
        load_again(tmp_path, info, model.state_dict(), config)


def test_a_file_that_is_no_safetensors(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x80\x04pickle")
    write_manifest(folder)
    with pytest.raises(BundleError, match="not a safetensors file"):
        load_rag_model(read_bundle(folder))
