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

from trivet.configs.loading import dump_config
from trivet.configs.schema import TrainConfig

# The inner states of one layer take 200 MB for 200 windows, and 4 MB for a call of four.
# 80,000 to 360,000 were seen, as glibc keeps freed memory; 1,470,000 without slices.
MOST = 500_000  # kB
PROCESS = """
import re, sys
from pathlib import Path

import torch

from trivet.calibrate import calibrate
from trivet.configs.loading import load_config
from trivet.train import train


def memory(name):
    return int(re.search(rf"{name}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])


torch.set_num_threads(1)
short, long = (load_config([Path(file)]) for file in sys.argv[1:3])
calibrate(train(short), [short.data.dev[0].spec], split="all")
before = memory("VmHWM")
bundle = train(long)
trained = memory("VmHWM")
calibrate(bundle, [long.data.dev[0].spec], split="all")
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
    for name, repeats in (("short", 1), ("long", 4100)):
        files = []
        for part in ("train", "dev"):
            file = write_rows(f"{part}.jsonl", 4, part)
            rows: list[dict[str, Any]] = [json.loads(row) for row in file.read_text().splitlines()]
            rows[0]["contexts"] = ["The ferry is red. " * repeats]
            rows[0]["labels"]["relevant"] = rows[0]["labels"]["utilized"] = []
            # A row without labels of evidence is not read for the head's calibration.
            evidence = {"response": [0, len(rows[0]["response"])], "contexts": [[0, 0, 17]]}
            rows[0]["labels"]["evidence"] = [evidence]
            file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
            files.append(file)
        sliced = (f"encoder.name={encoder}", "window.size=128", "optim.call_windows=4")
        heads = "heads=[support,relevance,utilization,evidence]"
        settings = (*sliced, heads, "optim.batch_windows=256", "optim.epochs=1")
        folder = tmp_path / name
        config = config_of(folder, *settings, data=(files[0], files[1]))
        folder.with_suffix(".yaml").write_text(dump_config(config), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", PROCESS, *map(str, sorted(tmp_path.glob("*.yaml"), reverse=True))],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("PEAKS")]
    peaks = [int(word) for word in line.split()[1:]]
    assert max(peaks) < MOST, f"kB more in training, and with calibration: {peaks}"
