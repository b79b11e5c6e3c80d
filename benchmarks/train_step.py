"""Windows a second in training, by precision and attention dropout, on a MiniLM-L6-shaped encoder.

python benchmarks/train_step.py [--length 384] [--windows 12] [--steps 5]

Random weights: forward, backward and one AdamW step of the encoder alone. Best of the steps after
the first; glibc is told to keep its memory, as training does.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time

import torch
from transformers import BertConfig, BertModel

from trivet.model.trunk import MASKED
from trivet.train import keep_freed_memory


def windows_a_second(
    length: int, windows: int, steps: int, bf16: bool, attention_dropout: float
) -> float:
    """Time training steps and return the rate of the fastest."""
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        attention_probs_dropout_prob=attention_dropout,
    )
    encoder = BertModel(config, add_pooling_layer=False).train()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-5)
    ids = torch.randint(1000, 20_000, (windows, length))
    mask = torch.zeros(windows, 1, 1, length)
    mask[::2, ..., length - 20 :] = MASKED  # every second window is padded
    best = float("inf")
    for step in range(steps + 1):
        start = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            typed = mask.bfloat16() if bf16 else mask
            hidden = encoder(input_ids=ids, attention_mask=typed).last_hidden_state
        hidden.float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step:
            best = min(best, time.perf_counter() - start)
    return windows / best


def main() -> None:
    """Print one row a setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--length", type=int, default=384)
    parser.add_argument("--windows", type=int, default=12)
    parser.add_argument("--steps", type=int, default=5)
    given = parser.parse_args()
    keep_freed_memory()
    print(
        f"{datetime.date.today()}, {os.cpu_count()} cores, {given.windows} x {given.length} tokens"
    )
    print("| precision | attention dropout | windows/s |\n|---|---:|---:|")
    for bf16, dropout in ((False, 0.1), (True, 0.1), (True, 0.0)):
        rate = windows_a_second(given.length, given.windows, given.steps, bf16, dropout)
        print(f"| {'bf16' if bf16 else 'fp32'} | {dropout} | {rate:.1f} |")


if __name__ == "__main__":
    main()
