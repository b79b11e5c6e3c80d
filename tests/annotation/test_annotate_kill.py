"""A run that is killed at random moments loses no answer, and only open calls are made again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.annotation.job_commands import lines, numbered, write_log
from tests.annotation.scripted_annotator import text_of
from tests.llm.scripted_endpoint import ScriptedEndpoint

PROCESS = Path(__file__).with_name("annotate_process.py")
CONCURRENCY = 4


class Bill:
    """Answers by question, and a moment at which the next process is to be killed.

    Some answers are wrong at first, so that rows need several calls.
    """

    def __init__(self) -> None:
        self.paid: Counter[str] = Counter()
        self.until = 0
        self.reached = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> str:
        question = body["messages"][1]["content"].split("?")[0]
        tries = len(body["messages"])
        with self._lock:
            self.paid[f"{question} {tries}"] += 1
            if self.paid.total() >= self.until:
                self.reached.set()
        wrong = tries == 2 and int(question.split()[-1]) % 3 == 0
        return "no JSON" if wrong else text_of(body)

    def expect(self, more: int) -> None:
        """Set the event after this many further answers."""
        with self._lock:
            self.until = self.paid.total() + more
            self.reached.clear()


def start(url: str, out: str) -> subprocess.Popen[str]:
    options = ["--base-url", url, "--model", "scripted", "--concurrency", str(CONCURRENCY), "-q"]
    words = [sys.executable, str(PROCESS), "annotate", "log.jsonl", "--out", out, *options]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_kills_lose_nothing_and_only_open_calls_are_made_again(kills: int) -> None:
    rows = 30 * kills
    write_log(*numbered(rows))
    bill, random_ = Bill(), random.Random(0)
    with ScriptedEndpoint(bill) as endpoint:
        for _ in range(kills):
            bill.expect(random_.randint(1, 30))
            process = start(endpoint.url, "out.jsonl")
            assert bill.reached.wait(60)
            process.kill()  # SIGKILL: nothing of the process runs any more
            process.communicate()
            assert process.returncode != 0
        process = start(endpoint.url, "out.jsonl")
        process.communicate()
        assert process.returncode == 0
        again = sum(bill.paid.values()) - len(bill.paid)
        assert again <= kills * CONCURRENCY  # only what was open at a kill
    assert [row["id"] for row in lines()] == [f"r{n}" for n in range(rows)]
    calls = [row["annotation"]["calls"] for row in lines()]
    assert calls == [2 if n % 3 == 0 else 1 for n in range(rows)]
    assert len(bill.paid) == sum(calls)
