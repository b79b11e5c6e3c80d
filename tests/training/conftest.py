"""A tiny encoder, a few labelled rows and the configuration of a tiny run."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trivet.configs.loading import load_config
from trivet.configs.schema import TrainConfig
from trivet.train import train

MILL = ["The mill is old. It was built of stone.", "The ferry is red."]
PAIRS = [("The mill is old.", True), ("The mill is new.", False)]
PAIRS += [("It was built of stone.", True), ("It was built of wood.", False)]

ConfigOf = Callable[..., TrainConfig]


def row(number: int, response: str, supported: bool, group: str) -> dict[str, Any]:
    """Return a labelled row; the last word of an unsupported response is wrong."""
    start = response.rindex(" ") + 1
    first = MILL[0].index("It was")
    relevant = [[0, first, len(MILL[0])]] if "built" in response else [[0, 0, first - 1]]
    unsupported = [] if supported else [[start, len(response) - 1]]
    labels = {"unsupported": unsupported, "relevant": relevant, "utilized": relevant}
    return {
        "id": f"{group}-{number}",
        "question": "What of the mill?",
        "contexts": MILL,
        "response": response,
        "labels": labels | {"relevance": 1 / 3, "utilization": 1 / 3},
        "source": "tiny",
        "group": group,
    }


def log_of(run: Path) -> list[dict[str, str]]:
    """Return the lines of a run's CSV log."""
    (log,) = (run / "log").rglob("metrics.csv")
    with log.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="session")
def write_rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, str], Path]:
    """Return a function that writes a number of rows of one group."""

    def make(name: str, rows: int, group: str) -> Path:
        file = tmp_path_factory.mktemp("rows") / name
        lines = [json.dumps(row(n, *PAIRS[n % 4], group)) for n in range(rows)]
        file.write_text("\n".join(lines), encoding="utf-8")
        return file

    return make


@pytest.fixture(scope="session")
def data(write_rows: Callable[[str, int, str], Path]) -> tuple[Path, Path]:
    """Write four responses six times to train on, and the same four as another group."""
    return write_rows("train.jsonl", 24, "train"), write_rows("dev.jsonl", 4, "dev")


@pytest.fixture(scope="session")
def encoder(bert_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the tiny checkpoint without dropout, so that only the data is random."""
    folder = shutil.copytree(bert_checkpoint, tmp_path_factory.mktemp("checkpoint") / "encoder")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def config_of(encoder: Path, data: tuple[Path, Path]) -> ConfigOf:
    """Return a function that makes the configuration of a tiny run in a folder."""

    def make(folder: Path, *overrides: str, data: tuple[Path, Path] = data) -> TrainConfig:
        settings = [f"encoder.name={encoder}", "encoder.head_dropout=0", f"run.folder={folder}"]
        for name, rows in zip(("train", "dev"), data, strict=True):
            settings.append(f"data.{name}=[{{spec: 'jsonl:{rows}', split: all}}]")
        return load_config([Path("tiny.yaml")], [*settings, *overrides])

    return make


@pytest.fixture(scope="session")
def trained(config_of: ConfigOf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a bundle for one epoch; tests must not change it."""
    return train(config_of(tmp_path_factory.mktemp("trained"), "optim.epochs=1"))
