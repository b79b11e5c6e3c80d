"""Stop a diverged run and record the examples of its last batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

from trivet.errors import DivergedError
from trivet.records import LabelledExample


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
    own = {
        "figures": {name: str(value.item()) for name, value in figures.items()},  # JSON has no NaN
        "examples": [
            {"id": each.example.id, "group": each.group, "source": each.source} for each in examples
        ],
    }
    batches: list[Any] = [own]
    if joined:
        batches = [None] * distributed.get_world_size()
        distributed.all_gather_object(batches, own)
    if not joined or distributed.get_rank() == 0:
        text = json.dumps({"step": step, "batches": batches}, indent=1)
        file.write_text(text + "\n", encoding="utf-8")
    found = {f"{name} is {value}" for batch in batches for name, value in batch["figures"].items()}
    wrong = sorted(each for each in found if each.endswith((" nan", " inf", " -inf")))
    count = sum(len(batch["examples"]) for batch in batches)
    raise DivergedError(
        f"training diverged at step {step}: {', '.join(wrong)}; the {count} examples of "
        f"this step are named in {file}; lower the learning rates or check these examples, and "
        "resume from the last checkpoint or start again"
    )
