"""Checkpoints: atomic writes, checks before one is read, and the stop of a run that diverged."""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.io import AsyncCheckpointIO
from torch import Tensor, distributed
from torch.utils._pytree import tree_map_only

from trivet.errors import ConfigError, DivergedError
from trivet.records import LabelledExample

logger = logging.getLogger(__name__)

_LAST, _BEFORE = "last.ckpt", "last-before.ckpt"


class WholeCheckpoints(TorchCheckpointIO):
    """Atomic checkpoint writes that keep the previous ``last``: a killed run leaves a whole one."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        """Write to ``path``.half, flush it to disk, and rename it."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(target.name + ".half")
        with half.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        if target.name == _LAST and target.exists():
            target.replace(target.with_name(_BEFORE))
        half.replace(target)


class BackgroundCheckpoints(AsyncCheckpointIO):
    """``WholeCheckpoints`` written by a thread while training goes on.

    Lightning copies the tensors where they are. On a GPU the copies, twelve bytes for each weight,
    would exceed the estimate of memory until they are written, so they go to the CPU first.
    """

    def __init__(self) -> None:
        super().__init__(WholeCheckpoints())

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        """Copy the tensors, and write them to ``path`` later."""
        super().save_checkpoint(
            tree_map_only(Tensor, Tensor.cpu, checkpoint), path, storage_options
        )


def checkpoint_callbacks(folder: Path, minutes: float, averaged: bool) -> list[ModelCheckpoint]:
    """Return callbacks: ``best``, weights alone, then ``last`` after validation and by the clock.

    The optimizer's state, twice as large as the weights, is in ``last`` only. With ``averaged``
    weights it is in both: Lightning leaves the average out of a checkpoint of weights alone.
    """
    plain = partial(ModelCheckpoint, folder, enable_version_counter=False)
    checked = partial(plain, save_on_train_epoch_end=False)  # after validation
    return [
        checked(filename="best", monitor="dev/score", mode="max", save_weights_only=not averaged),
        checked(filename="last"),
        plain(filename="last", train_time_interval=timedelta(minutes=minutes)),
    ]


def newest_whole(folder: Path) -> Path | None:
    """Return the newest readable ``last`` checkpoint, or None; warn of damaged ones.

    Raises:
        ConfigError: There are checkpoints, and none of them can be read.
    """
    checkpoints = sorted(
        folder.glob("last*.ckpt"), key=lambda at: (at.stat().st_mtime_ns, at.name == _LAST)
    )
    for path in reversed(checkpoints):
        damage = damage_of(path)
        if damage is None:
            return path
        logger.warning("%s is damaged (%s); trying the checkpoint before it", path, damage)
    if checkpoints:
        raise ConfigError(
            f"run.folder: none of the {len(checkpoints)} checkpoints in {folder} can be read; "
            "give another folder to start over"
        )
    return None


def damage_of(path: Path) -> str | None:
    """Return a description of a checkpoint's damage, or None; torch itself checks no sums."""
    try:
        with zipfile.ZipFile(path) as archive:
            part = archive.testzip()
        if part is not None:
            return f"the bytes of {part} do not have their checksum"
        # The pickled description has no checksum; the tensors are not read here.
        torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # damaged bytes can raise almost anything
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def refuse_another_architecture(
    path: Path, architecture: Mapping[str, Any], state: Mapping[str, Tensor]
) -> None:
    """Refuse a checkpoint of another model.

    Raises:
        ConfigError: They differ; the message names both.
    """
    checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    there, here = _flat(checkpoint.get("architecture", {})), _flat(architecture)
    there |= {name: tuple(value.shape) for name, value in checkpoint["state_dict"].items()}
    here |= {name: tuple(value.shape) for name, value in state.items()}
    different = [name for name in here | there if here.get(name) != there.get(name)]
    if different:
        differences = "; ".join(
            f"{name} is {there.get(name, 'absent')} there and {here.get(name, 'absent')} here"
            for name in different[:4]
        )
        more = f" and {len(different) - 4} more" if len(different) > 4 else ""
        raise ConfigError(
            f"run.folder: {path} is the checkpoint of another architecture: {differences}{more}; "
            "give another folder, or the configuration it was made with"
        )


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


def stop_if_diverged(
    figures: Mapping[str, Tensor], examples: Sequence[LabelledExample], step: int, file: Path
) -> None:
    """Raise on all devices if a figure of any is not finite, after writing the batch to a file.

    Raises:
        DivergedError: A figure is NaN or infinite; the message names the file.
    """
    bad = torch.stack([~value.detach().isfinite() for value in figures.values()]).any()
    joined = distributed.is_available() and distributed.is_initialized()
    if joined:
        flag = bad.float()
        distributed.all_reduce(flag, distributed.ReduceOp.MAX)
        bad = flag > 0
    if not bad:
        return
    local_batch = {
        "figures": {name: str(value.item()) for name, value in figures.items()},  # JSON has no NaN
        "examples": [
            {"id": row.example.id, "group": row.group, "source": row.source} for row in examples
        ],
    }
    batches: list[Any] = [local_batch]
    if joined:
        batches = [None] * distributed.get_world_size()
        distributed.all_gather_object(batches, local_batch)
    if not joined or distributed.get_rank() == 0:
        text = json.dumps({"step": step, "batches": batches}, indent=1)
        file.write_text(text + "\n", encoding="utf-8")
    named = {f"{name} is {value}" for batch in batches for name, value in batch["figures"].items()}
    wrong = sorted(figure for figure in named if figure.endswith((" nan", " inf", " -inf")))
    count = sum(len(batch["examples"]) for batch in batches)
    raise DivergedError(
        f"training diverged at step {step}: {', '.join(wrong)}; the {count} examples of "
        f"this step are named in {file}; lower the learning rates or check these examples, and "
        "resume from the last checkpoint or start again"
    )
