"""Training, end to end on a tiny encoder and a file of eight lines that the tests write."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from trivet.configs import schema
from trivet.configs.schema import TrainConfig, load_config
from trivet.data.module import Batch
from trivet.data.reading import read_examples
from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import WindowSettings, collate, lay_out
from trivet.model.bundle import WEIGHTS_NAME, read_bundle
from trivet.model.bundle_weights import load_rag_model
from trivet.model.rag_model import as_tensors
from trivet.objective import RagTraining
from trivet.records import ConfigError, RagExample
from trivet.train import train

pytestmark = [
    # Loading in the main process is meant: items are ready-made, workers would only copy them.
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    # Lightning's own use of something that torch is about to drop.
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.usefixtures("one_thread"),
]
TINY = Path(schema.__file__).parent / "tiny.yaml"

MILL = ["The mill is old. It was built of stone.", "The ferry is red."]
PAIRS = [("The mill is old.", True), ("The mill is new.", False)]
PAIRS += [("It was built of stone.", True), ("It was built of wood.", False)]


def row(number: int, response: str, supported: bool, group: str) -> dict[str, Any]:
    """Return a labelled row; the last word of an unsupported response is what is wrong with it."""
    start = response.rindex(" ") + 1
    first = MILL[0].index("It was")
    relevant = [[0, first, len(MILL[0])]] if "built" in response else [[0, 0, first - 1]]
    return {
        "id": f"{group}-{number}",
        "question": "What of the mill?",
        "contexts": MILL,
        "response": response,
        "labels": {
            "unsupported": [] if supported else [[start, len(response) - 1]],
            "relevant": relevant,
            "utilized": relevant,
            "relevance": 1 / 3,
            "utilization": 1 / 3,
        },
        "source": "tiny",
        "group": group,
    }


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> tuple[Path, Path]:
    """Write four responses six times over to train on, and the same four as another group."""
    return (
        write(tmp_path / "train.jsonl", [row(n, *PAIRS[n % 4], "train") for n in range(24)]),
        write(tmp_path / "dev.jsonl", [row(n, *PAIRS[n], "dev") for n in range(4)]),
    )


@pytest.fixture
def encoder(bert_checkpoint: Path, tmp_path: Path) -> Path:
    """Copy the tiny checkpoint without dropout: nothing but the data is drawn at random."""
    folder = tmp_path / "encoder"
    shutil.copytree(bert_checkpoint, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def config_of(encoder: Path, data: tuple[Path, Path], folder: Path, *overrides: str) -> TrainConfig:
    return load_config(
        [TINY],
        [
            f"encoder.name={encoder}",
            "encoder.head_dropout=0",
            f"data.train=[{{spec: 'jsonl:{data[0]}', split: all}}]",
            f"data.dev=[{{spec: 'jsonl:{data[1]}', split: all}}]",
            f"run.folder={folder}",
            *overrides,
        ],
    )


def weights_of(bundle: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = load_file(bundle / WEIGHTS_NAME)
    return state


# End to end -----------------------------------------------------------------------------------


def test_a_run_ends_in_a_bundle_that_has_learnt_its_four_examples(
    encoder: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    rates = ("optim.encoder_lr=5e-3", "optim.head_lr=5e-3", "optim.epochs=10")
    folder = train(config_of(encoder, data, tmp_path / "run", *rates))

    bundle = read_bundle(folder)
    info = bundle.info
    assert (info.window.size, info.window.overlap) == (64, 0)
    assert info.heads == ("support", "relevance", "utilization")
    assert {name: 0 < value < 1 for name, value in vars(info.thresholds).items()} == {
        "adherence": True,
        "sentence": True,
        "span": True,
    }
    assert [(item.name, item.rows) for item in info.training.data] == [("tiny", 24)]
    assert str(tmp_path) not in (folder / "encoder.json").read_text(encoding="utf-8")

    model = load_rag_model(bundle)
    tokenizer = SegmentTokenizer.from_file(bundle.path("tokenizer.json"))
    examples = [RagExample("What of the mill?", tuple(MILL), response) for response, _ in PAIRS]
    layouts = [
        lay_out(read, WindowSettings(64), tokenizer.special)
        for read in read_examples(examples, tokenizer)
    ]
    with torch.inference_mode():
        outputs = model(*as_tensors(collate(layouts, tokenizer.special.pad)))
    judged = (outputs.faithfulness >= info.thresholds.adherence).tolist()
    assert judged == [supported for _, supported in PAIRS]
    assert outputs.relevance.tolist() == pytest.approx([1 / 3] * 4, abs=0.1)

    (log,) = (tmp_path / "run" / "log").rglob("metrics.csv")
    with log.open(encoding="utf-8") as lines:
        totals = [float(line["loss/total"]) for line in csv.DictReader(lines) if line["loss/total"]]
    assert totals[-1] < 0.5 * totals[0]


# A resumed run finds its own log and its own checkpoints, and is meant to.
@pytest.mark.filterwarnings("ignore:Experiment logs directory .* exists and is not empty")
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
@pytest.mark.parametrize("stop", [6, 8], ids=["between-epochs", "within-an-epoch"])
def test_a_resumed_run_ends_where_one_that_never_stopped_does(
    encoder: Path,
    data: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: int,
) -> None:
    every_step = "run.checkpoint_minutes=1e-6"
    whole = train(config_of(encoder, data, tmp_path / "whole", every_step))

    config = config_of(encoder, data, tmp_path / "stopped", every_step)
    seen: list[list[str | None]] = []
    step = RagTraining.training_step

    def break_off(self: RagTraining, batch: Batch, batch_idx: int) -> Tensor:
        if self.global_step == stop:
            raise BrokenOff
        seen.append([example.example.id for example in batch.examples])
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(RagTraining, "training_step", break_off)
        with pytest.raises(BrokenOff):
            train(config)

    def watch(self: RagTraining, batch: Batch, batch_idx: int) -> Tensor:
        seen.append([example.example.id for example in batch.examples])
        return step(self, batch, batch_idx)

    monkeypatch.setattr(RagTraining, "training_step", watch)
    resumed = train(config, resume=True)

    # Two epochs of six batches: every example twice, none lost or repeated around the stop.
    assert len(seen) == 12
    every = sorted(f"train-{n}" for n in range(24))
    for epoch in (seen[:6], seen[6:]):
        assert sorted(str(name) for batch in epoch for name in batch) == every
    assert _as_sets(seen[:6]) != _as_sets(seen[6:]), "each epoch is shuffled anew"
    ours, theirs = weights_of(resumed), weights_of(whole)
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], atol=1e-5, rtol=1e-4, msg=name)


def _as_sets(batches: list[list[str | None]]) -> set[frozenset[str | None]]:
    return {frozenset(batch) for batch in batches}


class BrokenOff(Exception):
    """What stops a run here."""


def test_the_same_seed_gives_the_same_weights_and_a_bundle_can_be_trained_on(
    encoder: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    short = ("optim.batch_windows=8", "optim.epochs=1")
    first = train(config_of(encoder, data, tmp_path / "first", *short))
    again = train(config_of(encoder, data, tmp_path / "again", *short))
    for name, tensor in weights_of(first).items():
        torch.testing.assert_close(tensor, weights_of(again)[name], atol=1e-6, rtol=1e-5, msg=name)

    config = config_of(first, data, tmp_path / "second", *short, "encoder.init=bundle")
    second = read_bundle(train(config)).info
    assert [(item.name, item.rows) for item in second.training.data] == [("tiny", 24)]
    assert " && " in second.training.command


# Refusals -------------------------------------------------------------------------------------


def test_a_group_on_both_sides_is_refused_by_name(
    encoder: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    config = config_of(encoder, (data[0], data[0]), tmp_path / "run")
    with pytest.raises(
        ConfigError, match=r"1 groups? stand.* in both train and dev, .*'train' of tiny"
    ):
        train(config)
    assert not (tmp_path / "run" / "bundle").exists()


def test_a_split_without_rows_is_refused_by_name(
    encoder: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    train_on = f"data.train=[{{spec: 'jsonl:{data[0]}', split: all, only: [other]}}]"
    with pytest.raises(ConfigError, match=r"train\.jsonl has no rows in split 'all' from other"):
        train(config_of(encoder, data, tmp_path / "run", train_on))


def test_a_new_run_refuses_the_checkpoints_of_another(
    encoder: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    stale = tmp_path / "run" / "checkpoints" / "last.ckpt"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of another run")
    with pytest.raises(ConfigError, match=r"run\.folder: .* holds the checkpoints of a run"):
        train(config_of(encoder, data, tmp_path / "run"))


def test_a_bundle_names_the_data_and_the_commands_of_every_step(
    encoder: Path, data: tuple[Path, Path], tmp_path: Path
) -> None:
    short = ["optim.batch_windows=8", "optim.epochs=1"]
    first = train(config_of(encoder, data, tmp_path / "a", *short), command="trivet train a")
    fewer = write(tmp_path / "fewer.jsonl", [row(n, *PAIRS[n % 4], "train") for n in range(8)])
    again = config_of(first, (fewer, data[1]), tmp_path / "b", "encoder.init=bundle", *short)
    info = read_bundle(train(again, command="trivet train b")).info.training
    assert info.command == "trivet train a && trivet train b"
    # The second step saw eight of the rows that the first had seen: they are no new data.
    assert [(each.name, each.rows) for each in info.data] == [("tiny", 24)]
