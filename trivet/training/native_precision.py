"""Precision that a device computes in by itself, where a recipe asks for bf16."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import torch

from trivet.configs.schema import TrainConfig

logger = logging.getLogger(__name__)


def has_bf16(device: torch.device | str) -> bool:
    """Return whether bf16 is native; a CPU emulates it otherwise, ten times slower than fp32.

    A torch without ``torch.cpu.get_capabilities`` cannot tell, and counts as without bf16.
    """
    if torch.device(device).type != "cpu":
        return True
    known: Mapping[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(known.get(f"{name}_bf16", False) for name in ("avx512", "amx", "sve"))


def native_precision(config: TrainConfig) -> TrainConfig:
    """Return the configuration with fp32 in place of a bf16 that a CPU would emulate."""
    on_cpu = config.run.accelerator == "cpu" or not torch.accelerator.is_available()
    if config.run.precision == "fp32" or not on_cpu or has_bf16("cpu"):
        return config
    logger.warning("run.precision: this CPU would emulate bf16, ten times slower; using fp32")
    return replace(config, run=replace(config.run, precision="fp32"))
