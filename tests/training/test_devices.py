"""Two processes that train together: the steps of one process, joined figures and divergence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.training.conftest import ConfigOf, log_of
from trivet.bundle.bundle import WEIGHTS_NAME
from trivet.configs.loading import dump_config
from trivet.train import train
from trivet.training.validation import ValidationMeasures

Rows = tuple[list[str], dict[str, tuple[list[float], list[float]]]]
Answers = tuple[Path, tuple[Path, Path], list[dict[str, Any]]]  # folder, data, answer of each rank
# Each process trains, joins its rows of validation and then diverges on rank 1.
PROCESS = """
import json, os, sys
from pathlib import Path

import torch

from trivet.configs.loading import load_config
from trivet.errors import DivergedError
from trivet.records import LabelledExample, Labels, RagExample
from trivet.train import train
from trivet.training.checkpoints import stop_if_diverged
from trivet.training.lightning_module import RagTraining
from trivet.training.validation import ValidationMeasures

torch.set_num_threads(1)
folder, answer = Path(sys.argv[1]), {"seen": []}
step = RagTraining.training_step


def watch(self, batch, batch_idx):
    answer["seen"].append([example.example.id for example in batch.examples])
    return step(self, batch, batch_idx)


RagTraining.training_step = watch
train(load_config([folder / "shared.yaml"]))

rank = int(os.environ.get("LOCAL_RANK", "0"))
measures = ValidationMeasures()
for sources, columns in json.loads((folder / "rows.json").read_text())[rank]:
    measures.update(sources, {name: torch.tensor(pair).unbind() for name, pair in columns.items()})
answer["figures"] = measures.compute()
row = LabelledExample(RagExample("?", (), "", id=f"row-{rank}"), Labels(), "tiny", f"group-{rank}")
loss = torch.tensor(1.0)
stop_if_diverged({"total": loss}, [row], 3, folder / "diverged.json")
try:
    stop_if_diverged({"total": loss / (1 - rank)}, [row], 4, folder / "diverged.json")
except DivergedError as error:
    answer["message"] = str(error)
(folder / f"answer-{rank}.json").write_text(json.dumps(answer))
"""


def batch(sources: list[str], faithfulness: list[float], true: list[float]) -> Rows:
    half = [0.5] * len(sources)
    scores = {"faithfulness": (faithfulness, true), "relevance": (half, faithfulness)}
    return sources, scores | {"utilization": (half, true)}


# Validation rows of each rank: no rank has both classes of source a, and only rank 1 has source c.
ROWS = [
    [batch(["a", "b"], [0.9, 0.3], [1.0, 0.0]), batch(["a", "b"], [0.2, 0.4], [1.0, 1.0])],
    [batch(["a", "c"], [0.3, 0.8], [0.0, 1.0]), batch(["c"], [0.1], [0.0])],
]


@pytest.fixture(scope="module")
def answers(
    write_rows: Callable[[str, int, str], Path],
    config_of: ConfigOf,
    tmp_path_factory: pytest.TempPathFactory,
) -> Answers:
    """Run two processes."""
    folder = tmp_path_factory.mktemp("devices")
    data = write_rows("train.jsonl", 8, "train"), write_rows("dev.jsonl", 12, "dev")
    two = ("optim.batch_windows=4", "run.devices=2")
    shared = config_of(folder / "shared", *two, data=data)
    (folder / "process.py").write_text(PROCESS, encoding="utf-8")
    (folder / "shared.yaml").write_text(dump_config(shared), encoding="utf-8")
    (folder / "rows.json").write_text(json.dumps(ROWS), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "process.py", str(folder)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    return folder, data, [json.loads((folder / f"answer-{rank}.json").read_text()) for rank in "01"]


def test_two_processes_make_the_steps_of_one(
    answers: Answers, tmp_path: Path, config_of: ConfigOf
) -> None:
    folder, data, both = answers
    # Eight rows per step: of one process, or four of each of two. All rows have the same labels, so
    # the mean over eight is the mean of the two means.
    alone = train(config_of(tmp_path / "alone", "optim.batch_windows=8", data=data))
    for epoch in (0, 1):
        ids = [name for rank in both for name in rank["seen"][epoch]]
        assert [len(rank["seen"][epoch]) for rank in both] == [4, 4]
        assert sorted(ids) == sorted(f"train-{n}" for n in range(8)), "each row once per epoch"
    shared = load_file(folder / "shared" / "bundle" / WEIGHTS_NAME)
    for name, tensor in load_file(alone / WEIGHTS_NAME).items():
        if not name.endswith("key.bias"):  # its gradient is only rounding, and AdamW scales it up
            torch.testing.assert_close(shared[name], tensor, atol=1e-5, rtol=1e-4, msg=name)
    scores, expected = (
        [float(line["dev/score"]) for line in log_of(run) if line["dev/score"]]
        for run in (folder / "shared", tmp_path / "alone")
    )
    assert scores == pytest.approx(expected, abs=1e-4)


def test_every_rank_has_the_figures_of_all_rows(answers: Answers) -> None:
    alone = ValidationMeasures()
    for sources, columns in ROWS[0] + ROWS[1]:
        scores = {name: (torch.tensor(a), torch.tensor(b)) for name, (a, b) in columns.items()}
        alone.update(sources, scores)
    expected = alone.compute()
    assert {name.partition("/")[2] for name in expected} == {"a", "b", "c", "mean"}
    assert expected["hallucination_auroc/a"] == 0.5
    for answer in answers[2]:
        assert answer["figures"] == pytest.approx(expected)


def test_one_diverged_device_stops_all_and_every_batch_is_named(answers: Answers) -> None:
    (message,) = {answer["message"] for answer in answers[2]}
    assert "diverged at step 4: total is inf; the 2 examples" in message
    written = json.loads((answers[0] / "diverged.json").read_text(encoding="utf-8"))
    read = [example["id"] for batch in written["batches"] for example in batch["examples"]]
    assert read == ["row-0", "row-1"]
