"""Peak memory of a training step: the estimate for known encoders, and its error on this CPU.

python -m benchmarks.training_memory [--measure] [--windows 4]

Encoders are made from their configuration with random weights, and nothing is downloaded. With
--measure a BERT of MiniLM's size makes two real steps per line, each line in its own process, and
the rise of the resident memory is compared with the estimate.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from benchmarks.report import Table
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk, checkpoint_layers
from trivet.training.memory import GIB, GPUS, MemoryEstimate, estimate_memory, keep_freed_memory

_DEBERTA = {
    "model_type": "deberta-v2",
    "vocab_size": 128100,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
_MODERN = {"model_type": "modernbert"}
_WIDE = {"hidden_size": 1024, "num_attention_heads": 16}
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "model_type": "bert",
        "vocab_size": 100,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    },
    "MiniLM-L6": {
        "model_type": "bert",
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
        "attention_probs_dropout_prob": 0.0,
    },
    "DeBERTa-v3-large": _DEBERTA | _WIDE | {"num_hidden_layers": 24, "intermediate_size": 4096},
    "ModernBERT-base": _MODERN,
    "ModernBERT-large": _MODERN | _WIDE | {"num_hidden_layers": 28, "intermediate_size": 2624},
}
# Encoder, tokens of a window, windows of a call, and whether layers are checkpointed.
PLANS = (
    ("DeBERTa-v3-large", 512, 16, False),
    ("DeBERTa-v3-large", 512, 8, False),
    ("DeBERTa-v3-large", 512, 4, False),
    ("DeBERTa-v3-large", 512, 16, True),
    ("ModernBERT-base", 1024, 16, False),
    ("ModernBERT-base", 8192, 1, True),
    ("ModernBERT-large", 1024, 16, False),
    ("ModernBERT-large", 1024, 8, False),
    ("ModernBERT-large", 2048, 4, False),
    ("ModernBERT-large", 2048, 4, True),
)


def build(name: str, checkpointed: bool) -> RagModel:
    """Return a model with random weights."""
    values = dict(SHAPES[name])
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    model = RagModel(Trunk.from_encoder_config(config.to_dict()), dropout=0.1)
    if checkpointed:
        checkpoint_layers(model.trunk)
    return model


def estimate(
    name: str, size: int, windows: int, checkpointed: bool, bf16: bool = True, gpu: bool = True
) -> MemoryEstimate:
    """Return the estimate of a step."""
    return estimate_memory(partial(build, name, checkpointed), windows, size, bf16, gpu)


def plan_table() -> Table:
    """Return the estimates for GPUs."""
    rows = []
    for name, size, windows, checkpointed in PLANS:
        found = estimate(name, size, windows, checkpointed)
        fits = next((gpu for gpu, most in GPUS.items() if found.on_gpu <= most), "none")
        steps = "yes" if checkpointed else "no"
        rows.append((name, size, windows, steps, f"{found.on_gpu:.1f}", fits))
    head = ("encoder", "window", "call_windows", "checkpoint_layers", "GiB", "smallest GPU")
    return Table("Estimated peak memory of training in bf16", head, rows)


def rise_of_steps(windows: int, size: int, bf16: bool, checkpointed: bool) -> int:
    """Return the bytes by which the resident memory rises in two training steps."""
    keep_freed_memory()
    _two_steps(build("tiny", checkpointed), 1, 8, bf16)  # loads what torch loads on first use
    before = _resident("VmRSS")
    _two_steps(build("MiniLM-L6", checkpointed), windows, size, bf16)
    return _resident("VmHWM") - before


def _two_steps(model: RagModel, windows: int, size: int, bf16: bool) -> None:
    optimizer = torch.optim.AdamW(model.train().parameters())
    inputs = [torch.ones(windows, size, dtype=torch.long) for _ in range(3)]
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model.read(*inputs)
        torch.stack([each.float().sum() for each in logits.values()]).sum().backward()
        del logits
        optimizer.step()
        optimizer.zero_grad()


def _resident(name: str) -> int:
    return 1024 * int(
        re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))[0]
    )


def measured_table(windows: int) -> Table:
    """Return the estimate beside the measured rise, for several settings."""
    rows = []
    for size, bf16, checkpointed in (
        (512, False, False),
        (512, True, False),
        (512, True, True),
    ):
        words = [str(each) for each in (windows, size, int(bf16), int(checkpointed))]
        command = [sys.executable, "-m", "benchmarks.training_memory", "--steps", *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        measured = int(ran.stdout.split()[-1]) / GIB
        said = estimate("MiniLM-L6", size, windows, checkpointed, bf16, gpu=False).on_cpu
        name = f"{'bf16' if bf16 else 'fp32'}{', checkpointed layers' if checkpointed else ''}"
        rows.append((name, size, f"{said:.2f}", f"{measured:.2f}", f"{said / measured - 1:+.0%}"))
    head = ("setting", "window", "estimate, GiB", "measured, GiB", "error")
    return Table(f"MiniLM-L6 on this CPU, {windows} windows a call", head, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--measure", action="store_true", help="measure on this CPU as well")
    flags.add_argument("--windows", type=int, default=4, help="windows per call when measured")
    flags.add_argument("--steps", nargs=4, type=int, help=argparse.SUPPRESS)
    given = flags.parse_args(arguments)
    if given.steps:
        windows, size, bf16, checkpointed = given.steps
        print(rise_of_steps(windows, size, bool(bf16), bool(checkpointed)))
        return
    if given.measure:
        print(measured_table(given.windows).to_markdown(), end="\n\n")
    print(plan_table().to_markdown())


if __name__ == "__main__":
    main()
