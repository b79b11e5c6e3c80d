"""Every kind of trunk trains end to end, and its bundle holds what was trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.configs import schema
from trivet.configs.schema import TrainConfig, load_config
from trivet.train import train

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.usefixtures("one_thread"),
]
TINY = Path(schema.__file__).parent / "tiny.yaml"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Write four labelled rows, each a group of its own."""
    rows = [
        {
            "id": f"row-{number}",
            "question": "What of the mill?",
            "contexts": ["The mill is old. It was built of stone.", "The ferry is red."],
            "response": f"It was built of {what}.",
            "labels": {
                "unsupported": [] if what == "stone" else [[16, 16 + len(what)]],
                "relevant": [[0, 17, 39]],
                "utilized": [[0, 17, 39]],
            },
            "source": "tiny",
            "group": f"group-{number}",
        }
        for number, what in enumerate(("stone", "wood") * 2)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def config_of(encoder: Path, data: Path, folder: Path, *overrides: str) -> TrainConfig:
    rows = data.read_text(encoding="utf-8").splitlines()
    for name, kept in (("train", rows[:2]), ("dev", rows[2:])):
        data.with_name(f"{name}.jsonl").write_text("\n".join(kept), encoding="utf-8")
    return load_config(
        [TINY],
        [
            f"encoder.name={encoder}",
            f"data.train=[{{spec: 'jsonl:{data.with_name('train.jsonl')}', split: all}}]",
            f"data.dev=[{{spec: 'jsonl:{data.with_name('dev.jsonl')}', split: all}}]",
            f"run.folder={folder}",
            "optim.epochs=1",
            *overrides,
        ],
    )


@pytest.mark.parametrize(
    ("overrides", "trunk", "layers", "granularity"),
    [
        (["encoder.trunk=separate"], "separate", None, "token"),
        (["encoder.trunk=partial", "encoder.shared_layers=1"], "partial", 1, "token"),
        (["granularity=example", "encoder.shared_layers=1"], "shared", None, "example"),
    ],
)
def test_a_run_ends_in_a_bundle_of_its_kind_and_goes_on_from_it(
    bert_checkpoint: Path,
    data: Path,
    tmp_path: Path,
    overrides: list[str],
    trunk: str,
    layers: int | None,
    granularity: str,
) -> None:
    first = train(config_of(bert_checkpoint, data, tmp_path / "first", *overrides))
    info = read_bundle(first).info
    assert (info.trunk, info.shared_layers, info.granularity) == (trunk, layers, granularity)
    model = load_rag_model(read_bundle(first))
    assert model.trunk.kind == trunk and model.granularity == granularity
    further = ["encoder.init=bundle", "optim.encoder_lr=1e-9", "optim.head_lr=1e-9", *overrides]
    second = train(config_of(first, data, tmp_path / "second", *further))
    state = load_rag_model(read_bundle(second)).state_dict()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(state[name], tensor, atol=1e-6, rtol=1e-6, msg=name)


def test_separate_encoders_learn_apart(bert_checkpoint: Path, data: Path, tmp_path: Path) -> None:
    off = ["loss.window=0", "loss.token=0", "loss.verdict=0", "loss.relevance=0"]
    config = config_of(
        bert_checkpoint,
        data,
        tmp_path / "run",
        "encoder.trunk=separate",
        *off,
        "optim.weight_decay=0",
    )
    state = load_rag_model(read_bundle(train(config))).state_dict()
    key = "encoder.encoder.layer.0.output.dense.weight"
    support, relevance, utilization = (
        state[f"trunk.trunks.{name}.{key}"] for name in ("support", "relevance", "utilization")
    )
    assert torch.equal(support, relevance)
    assert not torch.equal(support, utilization)
