"""One training run of a grid, new or continued, up to its verdicts on the test rows.

Files in its folder, besides those of training:

- ``run.json``: its configuration, and the start and end of each try
- ``verdicts.jsonl.gz``: each test row with its verdict
- ``done.json``: written last, marks a finished run
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf

from trivet.ablation.grid import MeasuredRows, Run
from trivet.ablation.judged_rows import write_rows
from trivet.ablation.score_rows import load_rows, score_rows
from trivet.batch.resumable_jsonl import replace_file
from trivet.bundle.bundle import read_bundle
from trivet.configs.loading import dump_config
from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError, DataError
from trivet.records import LabelledExample
from trivet.train import train

logger = logging.getLogger(__name__)

BEGUN, VERDICTS, DONE = "run.json", "verdicts.jsonl.gz", "done.json"
# Keys under `run` without influence on the weights.
_FREE = ("folder", "checkpoint_minutes", "log_steps", "loggers")

State = Literal["new", "begun", "finished"]
Rows = dict[str, list[LabelledExample]]


@dataclass(frozen=True)
class Finished:
    """The cost of a finished run."""

    cell: str
    seed: int
    tests: list[dict[str, Any]]
    parameters: int
    steps: int | None
    training_seconds: float  # of ``train`` with validation, summed over tries
    tries: int  # more than 1 after an interruption
    inference_seconds: float  # in the model over all test rows
    inference_windows: int
    inference_device: str


def state_of(run: Run, tests: tuple[MeasuredRows, ...]) -> State:
    """Return the state of a run; it is unfinished if it was measured on other rows.

    Raises:
        ConfigError: Its folder has a run of another configuration, or one that is not of a grid;
            the message names the differences.
    """
    recorded = _read(run.folder / BEGUN)
    if recorded is None:
        if (run.folder / "checkpoints").exists():
            raise ConfigError(f"{run.folder} holds checkpoints but no {BEGUN}; use another folder")
        return "new"
    differ = _differences(recorded["config"], effective(run.config))
    if differ:
        raise ConfigError(
            f"{run.name}: was begun with another configuration: {'; '.join(differ)}. Give another "
            f"output folder, or remove {run.folder}"
        )
    if not (run.folder / VERDICTS).exists():  # or an older version measured it
        return "begun"
    done = read_done(run)
    if done is None:
        return "begun"
    if done.tests != [dataclasses.asdict(test) for test in tests]:
        logger.info("%s: the test rows changed, it must be measured anew", run.name)
        return "begun"
    return "finished"


def read_done(run: Run) -> Finished | None:
    """Return the cost of a finished run, or None.

    Raises:
        DataError: ``done.json`` is damaged.
    """
    record = _read(run.folder / DONE)
    try:
        return None if record is None else Finished(**record)
    except TypeError as error:
        raise DataError(
            f"{run.folder / DONE}: not the record of a finished run: {error}"
        ) from error


def finish(
    run: Run,
    tests: tuple[MeasuredRows, ...],
    rows: Rows | None = None,
    command: str = "trivet ablate",
) -> Finished:
    """Train a run, from its last checkpoint if there is one, and measure it.

    The rows of the test entries are read if not given.

    Raises:
        ConfigError: Training refuses the configuration.
        DataError: A source cannot be read.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    begun = _read(run.folder / BEGUN) or {"config": effective(run.config), "tries": []}
    bundle = run.folder / "bundle"
    if not begun.get("trained"):
        _close_broken_tries(run.folder, begun["tries"])
        this = {"started": time.time(), "ended": None}
        begun["tries"].append(this)
        _write(run.folder / BEGUN, begun)
        resume = any((run.folder / "checkpoints").glob("*.ckpt"))
        logger.info("%s: %s", run.name, "continues from its checkpoint" if resume else "starts")
        bundle = _train(run, resume, command)
        this["ended"] = time.time()
        begun["trained"] = True
        _write(run.folder / BEGUN, begun)
    if rows is None:
        rows = load_rows(tests)
    scored = score_rows(bundle, rows, run.config)
    write_rows(run.folder / VERDICTS, scored.rows)
    done = Finished(
        cell=run.cell,
        seed=run.seed,
        tests=[dataclasses.asdict(test) for test in tests],
        parameters=scored.parameters,
        steps=int(read_bundle(bundle).info.training.settings["steps"] or 0),
        training_seconds=sum(attempt["ended"] - attempt["started"] for attempt in begun["tries"]),
        tries=len(begun["tries"]),
        inference_seconds=scored.seconds,
        inference_windows=scored.windows,
        inference_device=scored.device,
    )
    _write(run.folder / DONE, dataclasses.asdict(done))
    shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
    logger.info("%s: finished after %.0f s of training", run.name, done.training_seconds)
    return done


def _train(run: Run, resume: bool, command: str) -> Path:
    """Train in this process, or for several devices by ``trivet train``.

    Lightning starts the processes of further devices by repeating the command of this one, which
    would be the whole grid.

    Raises:
        RuntimeError: ``trivet train`` failed; its output says why.
    """
    if run.config.run.devices == 1:
        return train(run.config, resume=resume, command=command)
    file = run.folder / "train.yaml"
    file.write_text(dump_config(run.config), encoding="utf-8")
    words = [sys.executable, "-m", "trivet", "train", str(file), *(["--resume"] if resume else [])]
    code = subprocess.run(words, check=False).returncode
    if code != 0:
        raise RuntimeError(f"{run.name}: trivet train ended with {code}")
    return run.folder / "bundle"


def effective(config: TrainConfig) -> str:
    """Return the part of a configuration that determines the weights, as YAML."""
    tree = _tree(dump_config(config))
    tree["run"] = {key: value for key, value in tree["run"].items() if key not in _FREE}
    return str(OmegaConf.to_yaml(OmegaConf.create(tree)))


def _differences(before: str, now: str) -> list[str]:
    """Return the differing keys; a missing key counts with its default."""
    defaults = _flat(_tree(OmegaConf.to_yaml(OmegaConf.structured(TrainConfig))))
    old, new = defaults | _flat(_tree(before)), defaults | _flat(_tree(now))
    return [
        f"{key} was {old.get(key)!r}, is {new.get(key)!r}"
        for key in sorted((old.keys() | new.keys()) - {f"run.{name}" for name in _FREE})
        if old.get(key) != new.get(key)
    ]


def _tree(text: str) -> Any:
    return OmegaConf.to_container(OmegaConf.create(text))


def _flat(tree: Any, key: str = "") -> dict[str, Any]:
    """Return the values by dotted key; a list is one value."""
    if not isinstance(tree, dict):
        return {key: tree}
    flat: dict[str, Any] = {}
    for name, child in tree.items():
        flat |= _flat(child, f"{key}.{name}" if key else str(name))
    return flat


def _close_broken_tries(folder: Path, tries: list[dict[str, Any]]) -> None:
    """Set the end of each try that was killed to the time of its last write."""
    for attempt in tries:
        if attempt["ended"] is None:
            written = [
                file.stat().st_mtime
                for part in ("checkpoints", "log")
                for file in (folder / part).rglob("*")
            ]
            attempt["ended"] = max([attempt["started"], *written])


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}; remove the run's folder") from error
    if not isinstance(record, dict):
        raise DataError(f"{path}: must hold one object; remove the run's folder")
    return record


def _write(path: Path, record: dict[str, Any]) -> None:
    replace_file(path, json.dumps(record, indent=2, allow_nan=False) + "\n")
