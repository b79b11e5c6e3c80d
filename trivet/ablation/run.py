"""One training run of a grid, from nothing, from a checkpoint or from a bundle to its row scores.

In a run's folder, beside what training writes:

- ``run.json``: the configuration it was begun with, and when it ran: one stretch a try
- ``scores.jsonl``: what it said of each test row
- ``done.json``: written last; a run that has it is finished
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf

from trivet.ablation.grid import MeasuredRows, Run
from trivet.ablation.scores import judge, load_rows, write_scores
from trivet.bundle.bundle import read_bundle
from trivet.configs.schema import TrainConfig, dump_config
from trivet.records import ConfigError, DataError, LabelledExample
from trivet.train import train

logger = logging.getLogger(__name__)

BEGUN, SCORES, DONE = "run.json", "scores.jsonl", "done.json"
# Where a run stands and what it tells of itself change nothing in its weights.
_FREE = ("folder", "checkpoint_minutes", "log_steps", "loggers")

State = Literal["new", "begun", "finished"]
Rows = dict[str, list[LabelledExample]]


@dataclass(frozen=True)
class Finished:
    """What a finished run cost; its row scores stand in ``scores.jsonl``.

    Attributes:
        cell: The cell's name.
        seed: Its seed.
        config_hash: SHA-256 of the effective configuration.
        tests: What it was measured on.
        parameters: Of the whole model.
        steps: Of the optimiser.
        training_seconds: Wall clock of ``train``, checks of dev included, summed over tries.
        tries: How often it was begun; more than 1 where it was broken off.
        inference_seconds: In the model, over all test rows.
        inference_windows: How many windows those rows made.
        inference_device: Where it ran.
        jobs: How many runs shared the machine; more than 1 makes every second longer.
    """

    cell: str
    seed: int
    config_hash: str
    tests: list[dict[str, Any]]
    parameters: int
    steps: int | None
    training_seconds: float
    tries: int
    inference_seconds: float
    inference_windows: int
    inference_device: str
    jobs: int


def state_of(run: Run, tests: tuple[MeasuredRows, ...]) -> State:
    """Return how far a run has come; one that was measured on other rows is not finished.

    Raises:
        ConfigError: Its folder holds a run of another configuration, or one that no grid began; the
            message names what differs.
    """
    recorded = _read(run.folder / BEGUN)
    if recorded is None:
        if (run.folder / "checkpoints").exists():
            raise ConfigError(f"{run.folder} holds checkpoints of a run that no grid began")
        return "new"
    differ = _differences(recorded["config"], effective(run.config))
    if differ:
        raise ConfigError(
            f"{run.name}: was begun with another configuration: {'; '.join(differ)}. Give another "
            "output folder, or let changed runs be replaced (--replace-changed)"
        )
    done = read_done(run)
    if done is None:
        return "begun"
    # What a run measured before a key was there was measured with that key's default.
    if [MeasuredRows(**test) for test in done.tests] != list(tests):
        logger.info("%s: the test rows changed, it must be measured anew", run.name)
        return "begun"
    return "finished"


def read_done(run: Run) -> Finished | None:
    """Return what a finished run cost, or None where it is not finished.

    Raises:
        DataError: ``done.json`` is damaged.
    """
    record = _read(run.folder / DONE)
    try:
        return None if record is None else Finished(**record)
    except TypeError as error:
        raise DataError(f"{run.folder / DONE}: not what a run writes: {error}") from error


def finish(
    run: Run,
    tests: tuple[MeasuredRows, ...],
    rows: Rows | None = None,
    keep_checkpoints: bool = False,
    jobs: int = 1,
    command: str = "trivet ablate",
) -> Finished:
    """Train a run, from its last checkpoint where there is one, and measure it.

    Args:
        run: New or begun.
        tests: What it is measured on.
        rows: Their rows, where they were read already.
        keep_checkpoints: Whether to keep the checkpoints of the finished run.
        jobs: How many runs share the machine.
        command: What was typed; stands in the bundle.

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
        logger.info("%s: %s", run.name, "goes on from its checkpoint" if resume else "begins")
        bundle = train(run.config, resume=resume, command=command)
        this["ended"] = time.time()
        begun["trained"] = True
        _write(run.folder / BEGUN, begun)
    judged = judge(bundle, load_rows(tests) if rows is None else rows, run.config.run.accelerator)
    write_scores(run.folder / SCORES, judged.rows)
    done = Finished(
        cell=run.cell,
        seed=run.seed,
        config_hash=hashlib.sha256(begun["config"].encode()).hexdigest(),
        tests=_described(tests),
        parameters=judged.parameters,
        steps=_steps(bundle, run.folder / "log"),
        training_seconds=sum(one["ended"] - one["started"] for one in begun["tries"]),
        tries=len(begun["tries"]),
        inference_seconds=judged.seconds,
        inference_windows=judged.windows,
        inference_device=judged.device,
        jobs=jobs,
    )
    _write(run.folder / DONE, dataclasses.asdict(done))
    if not keep_checkpoints:
        shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
    logger.info("%s: finished after %.0f s of training", run.name, done.training_seconds)
    return done


def is_of_a_grid(run: Run) -> bool:
    """Return whether a grid began what stands in the run's folder."""
    return (run.folder / BEGUN).exists()


def effective(config: TrainConfig) -> str:
    """Return as YAML all of a configuration that its weights depend on."""
    tree = _tree(dump_config(config))
    tree["run"] = {key: value for key, value in tree["run"].items() if key not in _FREE}
    return str(OmegaConf.to_yaml(OmegaConf.create(tree)))


def _differences(before: str, now: str) -> list[str]:
    """Return the keys that differ; one that a newer version brought counts by its default."""
    defaults = _flat(_tree(OmegaConf.to_yaml(OmegaConf.structured(TrainConfig))))
    old, new = defaults | _flat(_tree(before)), defaults | _flat(_tree(now))
    for key in (f"run.{name}" for name in _FREE):
        old.pop(key, None)
        new.pop(key, None)
    return [
        f"{key} was {old.get(key)!r}, is {new.get(key)!r}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def _tree(text: str) -> Any:
    return OmegaConf.to_container(OmegaConf.create(text))


def _flat(tree: Any, key: str = "") -> dict[str, Any]:
    """Return one value a dotted key; a list is one value."""
    if not isinstance(tree, dict):
        return {key: tree}
    flat: dict[str, Any] = {}
    for name, child in tree.items():
        flat |= _flat(child, f"{key}.{name}" if key else str(name))
    return flat


def _described(tests: tuple[MeasuredRows, ...]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(test) for test in tests]


def _close_broken_tries(folder: Path, tries: list[dict[str, Any]]) -> None:
    """Let a try that was killed end when it last wrote something."""
    for one in tries:
        if one["ended"] is None:
            written = [
                file.stat().st_mtime
                for part in ("checkpoints", "log")
                for file in (folder / part).rglob("*")
            ]
            one["ended"] = max([one["started"], *written])


def _steps(bundle: Path, log: Path) -> int | None:
    """Return how many steps training took: as the bundle says, else by the log's last line."""
    said = read_bundle(bundle).info.training.settings.get("steps")
    if said is not None:
        return int(said)
    steps = []
    for file in log.rglob("metrics.csv"):
        with file.open(encoding="utf-8", newline="") as lines:
            steps += [int(line["step"]) for line in csv.DictReader(lines) if line.get("loss/total")]
    return max(steps) + 1 if steps else None


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
    """Write by way of a file of another name: a run that is killed leaves the old one whole."""
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    beside.replace(path)
