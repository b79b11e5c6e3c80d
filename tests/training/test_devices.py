"""Two processes that train together (gloo): the steps of one process, and one answer on dev."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from trivet.bundle.bundle import WEIGHTS_NAME
from trivet.configs.schema import TrainConfig, dump_config
from trivet.train import train

pytestmark = [
    # Loading in the main process is meant: items are ready-made, workers would only copy them.
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    # Lightning's own use of something that torch is about to drop.
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.usefixtures("one_thread"),
]
# Each process runs this file; what it reads it writes down beside it.
PROCESS = """
import json, os, sys
from pathlib import Path

import torch

from trivet.configs.schema import load_config
from trivet.training.lightning_module import RagTraining
from trivet.train import train

torch.set_num_threads(1)
seen = []
step = RagTraining.training_step


def watch(self, batch, batch_idx):
    seen.append([example.example.id for example in batch.examples])
    return step(self, batch, batch_idx)


RagTraining.training_step = watch
bundle = train(load_config([Path(sys.argv[1])]))
rank = os.environ.get("LOCAL_RANK", "0")
Path(sys.argv[1]).with_name(f"seen-{rank}.json").write_text(json.dumps(seen))
"""


def dev_scores(folder: Path) -> list[float]:
    (log,) = (folder / "log").rglob("metrics.csv")
    with log.open(encoding="utf-8") as lines:
        return [float(line["dev/score"]) for line in csv.DictReader(lines) if line["dev/score"]]


def test_two_processes_make_the_steps_of_one_and_join_what_they_measure(
    encoder: Path,
    write_rows: Callable[[str, int, str], Path],
    tmp_path: Path,
    config_of: Callable[..., TrainConfig],
) -> None:
    data = write_rows("train.jsonl", 8, "train"), write_rows("dev.jsonl", 12, "dev")
    # Eight rows a step: of one process, or four of each of two. All rows know the same, so the
    # mean over eight is the mean of the two means.
    alone = config_of(encoder, data, tmp_path / "alone", "optim.batch_windows=8")
    shared = config_of(encoder, data, tmp_path / "shared", "optim.batch_windows=4", "run.devices=2")
    one = train(alone)

    (tmp_path / "process.py").write_text(PROCESS, encoding="utf-8")
    (tmp_path / "shared.yaml").write_text(dump_config(shared), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "process.py", str(tmp_path / "shared.yaml")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    both = tmp_path / "shared" / "bundle"

    seen = [json.loads((tmp_path / f"seen-{rank}.json").read_text()) for rank in (0, 1)]
    for epoch in (0, 1):
        ids = [name for rank in seen for name in rank[epoch]]
        assert [len(rank[epoch]) for rank in seen] == [4, 4]
        assert sorted(ids) == sorted(f"train-{n}" for n in range(8)), "each row once an epoch"
    ours, theirs = (load_file(bundle / WEIGHTS_NAME) for bundle in (both, one))
    for name, tensor in theirs.items():
        if name.endswith("key.bias"):
            continue  # softmax knows no shift: its gradient is rounding, and AdamW steps by it
        torch.testing.assert_close(ours[name], tensor, atol=1e-5, rtol=1e-4, msg=name)
    scores = [dev_scores(tmp_path / name) for name in ("shared", "alone")]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
