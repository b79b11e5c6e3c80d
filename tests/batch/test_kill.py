"""A log of 30,000 rows whose run is killed twenty times: no row is lost or doubled."""

from __future__ import annotations

import filecmp
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.batch.conftest import TOY_RUN, WriteLog

pytestmark = pytest.mark.slow


def start(bundle: Path, log: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(TOY_RUN), str(bundle), str(log), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> int:
    process.communicate()
    return process.returncode


def test_kills_lose_nothing(toy_bundle: Path, write_log: WriteLog, tmp_path: Path) -> None:
    rows = 30_000
    log, whole, out = write_log(range(rows)), tmp_path / "whole.jsonl", tmp_path / "v.jsonl"
    assert finish(start(toy_bundle, log, whole)) == 0
    random_, size = random.Random(0), whole.stat().st_size
    for moment in sorted(random_.uniform(0.0, 0.97) * size for _ in range(20)):
        process = start(toy_bundle, log, out)
        while process.poll() is None and not (out.exists() and out.stat().st_size > moment):
            time.sleep(0.002)
        time.sleep(random_.uniform(0.0, 0.03))
        assert process.poll() is None
        process.kill()  # SIGKILL: nothing of the process runs any more
        assert finish(process) != 0
    assert finish(start(toy_bundle, log, out)) == 0
    assert filecmp.cmp(out, whole, shallow=False)
    with out.open("rb") as lines:
        assert [json.loads(line)["row"] for line in lines] == list(range(1, rows + 1))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_stays_flat(toy_bundle: Path, write_log: WriteLog, tmp_path: Path) -> None:
    log, out = write_log(range(1_000_000)), tmp_path / "v.jsonl"
    process = start(toy_bundle, log, out)
    printed, _ = process.communicate()
    assert process.returncode == 0
    memory = [int(line.split()[1]) for line in printed.splitlines()]
    settled = memory[10:]
    assert len(settled) > 80
    assert (max(settled) - min(settled)) / 1024 < 20, settled
