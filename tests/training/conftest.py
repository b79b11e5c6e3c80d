"""A tiny encoder, a few labelled rows and the configuration of a tiny run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from trivet.configs import schema
from trivet.configs.schema import TrainConfig, load_config
from trivet.records import RagExample

TINY = Path(schema.__file__).parent / "tiny.yaml"
MILL = ["The mill is old. It was built of stone.", "The ferry is red."]
PAIRS = [("The mill is old.", True), ("The mill is new.", False)]
PAIRS += [("It was built of stone.", True), ("It was built of wood.", False)]

ConfigOf = Callable[..., TrainConfig]


def row(number: int, response: str, supported: bool, group: str) -> dict[str, Any]:
    """Return a labelled row; the last word of an unsupported response is wrong."""
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
def pairs() -> list[tuple[RagExample, bool]]:
    """Return the four examples, and whether the response of each is supported."""
    return [(RagExample("What of the mill?", tuple(MILL), text), good) for text, good in PAIRS]


@pytest.fixture(scope="session")
def write_rows(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, str], Path]:
    """Return a function that writes a number of rows of one group."""

    def make(name: str, rows: int, group: str) -> Path:
        folder = tmp_path_factory.mktemp("rows")
        return write(folder / name, [row(n, *PAIRS[n % 4], group) for n in range(rows)])

    return make


@pytest.fixture(scope="session")
def data(write_rows: Callable[[str, int, str], Path]) -> tuple[Path, Path]:
    """Write four responses six times to train on, and the same four as another group."""
    return write_rows("train.jsonl", 24, "train"), write_rows("dev.jsonl", 4, "dev")


@pytest.fixture(scope="session")
def encoder(bert_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the tiny checkpoint without dropout, so that only the data is random."""
    folder = tmp_path_factory.mktemp("checkpoint") / "encoder"
    shutil.copytree(bert_checkpoint, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def config_of() -> ConfigOf:
    """Return a function that makes the configuration of a tiny run."""

    def make(encoder: Path, data: tuple[Path, Path], folder: Path, *overrides: str) -> TrainConfig:
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

    return make
