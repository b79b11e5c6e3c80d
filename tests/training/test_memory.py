"""A row of two hundred windows is trained on and judged without holding them all at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers

from trivet.configs.schema import TrainConfig, dump_config

# A layer's inner states of 200 windows of 128 tokens take 200 MB, those of a call of four take 4.
MOST = 150_000  # kB
PROCESS = """
import re, sys
from pathlib import Path

import torch

from trivet.calibrate import calibrate
from trivet.configs.schema import load_config
from trivet.train import train


def memory(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])


torch.set_num_threads(1)
before = memory("VmRSS")
bundle = train(load_config([Path(sys.argv[1])]))
trained = memory("VmHWM")
calibrate(bundle, [sys.argv[2]], split="all")
print("PEAKS", trained - before, memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_row_of_two_hundred_windows_takes_the_memory_of_a_few(
    write_rows: Callable[[str, int, str], Path],
    config_of: Callable[..., TrainConfig],
    wordpiece_file: Path,
    tmp_path: Path,
) -> None:
    encoder = tmp_path / "encoder"
    vocabulary = tokenizers.Tokenizer.from_file(str(wordpiece_file)).get_vocab_size()
    transformers.BertModel(
        transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=1,
            intermediate_size=2048,
        )
    ).save_pretrained(encoder)
    (encoder / "tokenizer.json").write_bytes(wordpiece_file.read_bytes())
    files = []
    for name in ("train", "dev"):
        file = write_rows(f"{name}.jsonl", 4, name)
        rows: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines()]
        rows[1]["contexts"] = ["The ferry is red. " * 4100, *rows[1]["contexts"]]
        rows[1]["labels"]["relevant"] = rows[1]["labels"]["utilized"] = []
        file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        files.append(file)
    sliced = (f"encoder.name={encoder}", "window.size=128", "optim.call_windows=4")
    config = config_of(tmp_path / "run", *sliced, "optim.epochs=1", data=(files[0], files[1]))
    (tmp_path / "run.yaml").write_text(dump_config(config), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", PROCESS, str(tmp_path / "run.yaml"), f"jsonl:{files[1]}"],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("PEAKS")]
    peaks = [int(word) for word in line.split()[1:]]
    assert max(peaks) < MOST, f"kB more in training, and with calibration: {peaks}"
