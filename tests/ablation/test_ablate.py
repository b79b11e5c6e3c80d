"""A grid of tiny runs: finished, interrupted, continued, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from tests.command_line import exit_code
from tests.measures.verdicts import predicted, verdict
from tests.training.conftest import PAIRS, row
from trivet import ablate as ablate_module
from trivet.ablate import ablate
from trivet.ablation.grid import Grid, Run, read_grid
from trivet.ablation.grid_run import (
    BEGUN,
    DONE,
    VERDICTS,
    Finished,
    effective,
    finish,
    read_done,
    state_of,
)
from trivet.ablation.judged_rows import JudgedRow, read_rows, write_rows
from trivet.ablation.table import tabulate
from trivet.bundle.bundle import read_bundle
from trivet.configs.loading import load_config
from trivet.errors import ConfigError, DataError
from trivet.labelled.datamodule import Batch
from trivet.records import Labels
from trivet.training.lightning_module import RagTraining

Make = Callable[..., Grid]


def begin(run: Run, config: str | None = None) -> None:
    """Write the record of a begun run."""
    run.folder.mkdir(parents=True)
    record = {"config": config or effective(run.config), "tries": []}
    (run.folder / BEGUN).write_text(json.dumps(record), encoding="utf-8")


def write(path: Path, group: str, count: int) -> Path:
    rows = [row(n, *PAIRS[n % 4], f"{group}{n // 4}") for n in range(count)]
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def make(bert_checkpoint: Path, tmp_path: Path) -> Make:
    """Return a function that writes a grid of two learning rates and two seeds, and reads it."""
    train, dev = write(tmp_path / "train.jsonl", "train", 16), write(tmp_path / "dev.jsonl", "d", 4)
    test = write(tmp_path / "test.jsonl", "test", 8)
    data = {
        "train": [{"spec": f"jsonl:{train}", "split": "all"}],
        "dev": [{"spec": f"jsonl:{dev}", "split": "all"}],
    }
    base = {"encoder": {"name": str(bert_checkpoint)}, "data": data}
    (tmp_path / "base.yaml").write_text(json.dumps(base), encoding="utf-8")
    record = {
        "base": ["tiny.yaml", "base.yaml"],
        "overrides": ["optim.epochs=1", "run.checkpoint_minutes=1e-6"],
        "axes": {"optim.head_lr": [0.001, 0.002]},
        "seeds": [0, 1],
        "test": [{"spec": f"jsonl:{test}", "split": "all", "name": "tiny test"}],
    }

    def read(*overrides: str, **changed: Any) -> Grid:
        path = tmp_path / "rates.yaml"
        path.write_text(json.dumps({**record, **changed}), encoding="utf-8")
        return read_grid(path, tmp_path / "out", overrides)

    return read


class Interrupted(BaseException):
    """An interruption of the whole grid, like a kill."""


def test_a_grid_is_interrupted_continues_and_is_skipped(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = make()
    assert [run.name for run in grid.runs] == [
        f"head_lr={rate}/seed{seed}" for seed in (0, 1) for rate in (0.001, 0.002)
    ]
    step = RagTraining.training_step
    steps: list[int] = []
    stops = [6]  # in the second run: four steps of the first, two of its own

    def watch(self: RagTraining, batch: Batch, batch_idx: int) -> Tensor:
        if len(steps) in stops:
            raise Interrupted
        steps.append(int(self.global_step))
        return step(self, batch, batch_idx)

    monkeypatch.setattr(RagTraining, "training_step", watch)
    with pytest.raises(Interrupted):
        ablate(grid)
    stops.clear()
    states = [state_of(run, grid.test) for run in grid.runs]
    assert states == ["finished", "begun", "new", "new"]
    first = (grid.runs[0].folder / DONE).read_bytes()
    assert ablate(make()) == []
    assert steps == [0, 1, 2, 3] * 4  # none lost and none done twice
    assert (grid.runs[0].folder / DONE).read_bytes() == first
    for run in grid.runs:
        done = read_done(run)
        assert done is not None and state_of(run, grid.test) == "finished"
        assert (done.cell, done.seed, done.steps) == (run.cell, run.seed, 4)
        assert done.tries == (2 if run is grid.runs[1] else 1)
        assert done.training_seconds > 0 and done.inference_windows == 8
        assert read_bundle(run.folder / "bundle").info.training.settings["seed"] == run.seed
        assert not (run.folder / "checkpoints").exists()
        rows = read_rows(run.folder / VERDICTS)
        names = [row.prediction.example.example.id for row in rows]
        assert names == [f"test{n // 4}-{n}" for n in range(8)]
    ablate(grid)
    assert len(steps) == 16
    with pytest.raises(ConfigError, match=r"head_lr=0\.001/seed0: .* optim\.epochs was 1, is 2"):
        ablate(make("optim.epochs=2"))
    ablate(make("run.log_steps=3"))  # has no influence on the weights
    table = tabulate(make("seeds=[0, 1, 2]"), "trivet ablate")
    assert table.missing == ("head_lr=0.001/seed2", "head_lr=0.002/seed2")


def test_several_devices_train_by_a_command_of_their_own(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make("run.devices=2").runs[0]
    begin(run)
    asked: list[list[str]] = []

    def call(words: list[str], check: bool) -> subprocess.CompletedProcess[bytes]:
        asked.append(words)
        return subprocess.CompletedProcess(words, 1)

    monkeypatch.setattr("trivet.ablation.grid_run.subprocess.run", call)
    with pytest.raises(RuntimeError, match="trivet train ended with 1"):
        finish(run, ())
    (words,) = asked
    assert words[:4] == [sys.executable, "-m", "trivet", "train"] and len(words) == 5
    assert load_config([Path(words[4])]) == run.config


def test_a_run_that_fails_leaves_the_others_alone(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = make()
    done: list[str] = []

    def fail_first(run: Run, *_: object, **__: object) -> None:
        if run is grid.runs[0]:
            raise ConfigError("encoder.name: is nowhere")
        done.append(run.name)

    monkeypatch.setattr(ablate_module, "finish", fail_first)
    (failure,) = ablate(grid)
    assert failure.run is grid.runs[0]
    assert failure.reason == "ConfigError: encoder.name: is nowhere"
    assert done == [run.name for run in grid.runs[1:]]


def test_test_rows_that_are_trained_on_are_refused(make: Make, tmp_path: Path) -> None:
    taught = {"spec": f"jsonl:{tmp_path / 'train.jsonl'}", "split": "all"}
    message = r"4 groups of the test rows are trained on, first 'train0' of tiny; name the test"
    with pytest.raises(ConfigError, match=message):
        ablate(make(test=[taught]))


def test_a_published_test_split_is_left_out_of_training_and_measured(
    make: Make, tmp_path: Path
) -> None:
    def published(number: int) -> dict[str, Any]:
        # Four rows a group: the first three groups have passages of their own, the last shares
        # its passage with the test rows.
        group = number // 4
        split = "test" if group in (0, 3) else "train"
        kind = 9 if group in (2, 3) else group
        contexts = [f"The mill number {kind} is old. It was built of stone.", "It is red."]
        labelled = row(number, *PAIRS[number % 4], f"g{group}")
        labelled["labels"]["relevant"] = labelled["labels"]["utilized"] = []
        question = f"What of mill {number}?"
        return labelled | {"contexts": contexts, "question": question, "split": split}

    rows = tmp_path / "published.jsonl"
    rows.write_text("\n".join(json.dumps(published(n)) for n in range(16)), encoding="utf-8")
    spec = f"jsonl:{rows}"
    grid = make(
        f"data.train=[{{spec: '{spec}', split: train}}]",
        f"data.test=[{{spec: '{spec}'}}]",
        test=[{"spec": spec, "split": "test", "name": "published test"}],
        axes={"optim.head_lr": [0.001]},
        seeds=[0],
    )
    assert ablate(grid) == []
    training = read_bundle(grid.runs[0].folder / "bundle").info.training
    assert [(source.name, source.rows) for source in training.data] == [("tiny", 4)]
    assert training.left_out is not None
    assert (training.left_out.rows, training.left_out.passage_groups) == (4, 1)
    assert [r.leaked for r in read_rows(grid.runs[0].folder / VERDICTS)] == [False] * 8


def test_changed_and_foreign_runs_are_refused_together(make: Make) -> None:
    for run in make().runs:
        begin(run)
    changed = make("optim.epochs=3")
    (changed.runs[1].folder / BEGUN).unlink()
    (changed.runs[1].folder / "checkpoints").mkdir()
    with pytest.raises(ConfigError, match="holds checkpoints but no") as refused:
        ablate(changed)
    others = (run for run in changed.runs if run is not changed.runs[1])
    assert all(f"{run.name}: was begun" in str(refused.value) for run in others)
    assert all(run.folder.exists() for run in changed.runs)


def test_a_key_that_a_newer_version_brings_is_no_change(make: Make) -> None:
    run = make().runs[0]
    older = effective(run.config).replace("  warmup_share: 0.06\n", "")
    assert older != effective(run.config)
    begin(run, older)
    assert state_of(run, ()) == "begun"


def test_the_command_makes_the_table_again_without_a_run(
    make: Make, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    grid = make()
    tests = [vars(test) for test in grid.test]
    for number, run in enumerate(grid.runs[:3]):
        begin(run)
        result = verdict(None, relevance=number / 10)
        groups = [predicted(Labels(relevance=0.0), result, "tiny", f"g{n}") for n in range(3)]
        write_rows(run.folder / VERDICTS, [JudgedRow("t", row, None) for row in groups])
        spent = 60.0 + number
        done = Finished(run.cell, run.seed, tests, 1000, 7, spent, 1, 2.0, 500, "cpu")
        (run.folder / DONE).write_text(json.dumps(vars(done)), encoding="utf-8")
    words = ["ablate", str(grid.folder.parent / "rates.yaml"), "--out", str(grid.folder)]
    assert exit_code(monkeypatch, *words, "--table-only") == 0
    printed = capfd.readouterr().out
    assert "Not finished, and not included: head_lr=0.002/seed1." in printed
    assert "| relevance_rmse ↓ | 3 | - | 3 | 0.100 (-1.171 to 1.371) | 0.100 |" in printed
    assert "| relevance_rmse ↓ | head_lr=0.002 | +0.100 | +0.100 to +0.100 | - |" in printed
    assert "| 1,000 | 7 | 61 (48 to 74) | 4.00 (4.00 to 4.00) |" in printed
    assert (grid.folder / "table.md").read_text(encoding="utf-8").strip() == printed.strip()
    values = json.loads((grid.folder / "table.json").read_bytes())["values"]
    assert [value["difference"] for value in values] == [None, pytest.approx(0.1)]
    with pytest.raises(DataError, match="no run is finished"):  # they were measured on others
        tabulate(replace(grid, test=()))
    # An older version wrote no verdicts and had more to say: such runs are measured anew.
    for run in grid.runs[:3]:
        (run.folder / VERDICTS).unlink()
        (run.folder / DONE).write_text('{"config_hash": ""}', encoding="utf-8")
    assert {state_of(run, grid.test) for run in grid.runs[:3]} == {"begun"}
    grid.runs[0].config.optim.epochs = 9
    with pytest.raises(ConfigError, match=r"optim\.epochs was 1, is 9"):
        tabulate(grid)
