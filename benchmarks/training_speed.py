"""Rows per second of the loader, prepared anew and from the cache, and seconds of a training step.

python -m benchmarks.training_speed --data ragbench:data/ragbench [--split dev] [--steps 3]

Times are processor seconds, since other work may share the machine. A step reads 4 windows of 512
tokens in bf16 with a BERT of MiniLM's size and random weights; with --compile also compiled.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from transformers import BertConfig

from benchmarks.report import Table
from trivet.backends.loading import load_tokenizer
from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.data.windows import WindowSettings
from trivet.labelled.datamodule import Item, RagData, prepare
from trivet.labelled.prepared_rows import prepare_cached
from trivet.labelled.sources import load_source
from trivet.model.architecture import Architecture
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk, compile_layers
from trivet.training.memory import keep_freed_memory

_WINDOWS, _LENGTH = 4, 512
_MINILM = BertConfig(
    hidden_size=384,
    num_hidden_layers=6,
    num_attention_heads=12,
    intermediate_size=1536,
    attention_probs_dropout_prob=0.0,
)


def seconds(run: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


def loader_table(spec: str, split: str) -> Table:
    """Return rows per second until all batches of an epoch are made, by the source of the rows."""
    tokenizer = load_tokenizer(read_bundle(EMBEDDED_BUNDLE))
    examples, _ = load_source(spec, split)
    settings = WindowSettings(_LENGTH)

    def epoch(rows: Callable[[], Sequence[Item]]) -> None:
        data = RagData(rows, (), tokenizer.special.pad, _WINDOWS, seed=0)
        for _ in data.train_dataloader():
            pass

    with tempfile.TemporaryDirectory() as folder:
        anew = partial(prepare, examples, tokenizer, settings)
        cached = partial(prepare_cached, examples, tokenizer, settings, True, Path(folder))
        times = {
            "prepared anew": seconds(partial(epoch, anew)),
            "cache, first run": seconds(partial(epoch, cached)),
            "cache, later runs": seconds(partial(epoch, cached)),
        }
        size = sum(file.stat().st_size for file in Path(folder).glob("*.arrow"))
    rows = [(name, f"{took:.2f}", f"{len(examples) / took:.0f}") for name, took in times.items()]
    title = f"{len(examples)} rows of {spec} ({split}); the file has {size / 1e6:.1f} MB"
    return Table(title, ("rows", "seconds", "rows/s"), rows)


def _step(model: RagModel, optimizer: torch.optim.Optimizer) -> None:
    inputs = [torch.ones(_WINDOWS, _LENGTH, dtype=torch.long)] * 3
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.read(*inputs)
    torch.stack([values.float().sum() for values in logits.values()]).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def step_table(steps: int, compiled: bool) -> Table:
    """Return the processor seconds of a training step, after one that is not counted."""
    keep_freed_memory()
    rows = []
    for name in ("as it is", "compiled") if compiled else ("as it is",):
        trunk = Trunk.from_encoder_config({**_MINILM.to_dict(), "model_type": "bert"})
        model = RagModel(trunk, Architecture(dropout=0.1)).train()
        if name == "compiled":
            compile_layers(model.trunk)
        run = partial(_step, model, torch.optim.AdamW(model.parameters()))
        first = seconds(run)
        least = min(seconds(run) for _ in range(steps))
        rows.append((name, f"{first:.2f}", f"{least:.2f}", f"{_WINDOWS / least:.1f}"))
    title = f"MiniLM-L6, {_WINDOWS} windows of {_LENGTH} tokens, bf16, on this CPU"
    return Table(title, ("layers", "first step", "least of the others", "windows/s"), rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--data", help="such as ragbench:DIR; without it only steps are measured")
    flags.add_argument("--split", default="dev")
    flags.add_argument("--steps", type=int, default=3)
    flags.add_argument("--compile", action="store_true")
    options = flags.parse_args(arguments)
    if options.data:
        print(loader_table(options.data, options.split).to_markdown(), end="\n\n")
    print(step_table(options.steps, options.compile).to_markdown())


if __name__ == "__main__":
    main()
