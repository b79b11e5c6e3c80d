"""The cache of answers: several processes, kills, damage and a full disk."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trivet.errors import DataError
from trivet.llm.cache import AnswerCache
from trivet.llm.chat import ChatAnswer, TokenLogprob

ANSWER = ChatAnswer(
    "yes", "m", "2026-01-01T00:00:00+00:00", 3, 4, 0.5, logprobs=(TokenLogprob("a", -1.0, {}),)
)
WRITER = """
import sys, time
from pathlib import Path
from tests.llm.test_cache import ANSWER
from trivet.llm.cache import AnswerCache
cache = AnswerCache(Path(sys.argv[1]))
for number in range(10**9):
    cache.put(f"{sys.argv[2]}-{number}", "m", ANSWER)
    print(number, flush=True)
    time.sleep(0.001)  # or the other writer may find the file locked for its whole wait
"""


def test_an_answer_comes_back_as_it_was_and_marked(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "cache") as cache:
        cache.put("key", "m", ANSWER)
        again = cache.get("key")
        assert again is not None
        assert again.cached
        assert (again.text, again.logprobs, again.time) == (
            ANSWER.text,
            ANSWER.logprobs,
            ANSWER.time,
        )
        assert cache.get("other") is None


def test_writers_that_are_killed_lose_nothing_they_put(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name], stdout=subprocess.PIPE, text=True
        )
        for name in ("a", "b")
    ]
    for writer in started:
        assert writer.stdout is not None
        for _ in range(5):
            writer.stdout.readline()
        writer.kill()
    with AnswerCache(path) as cache:
        for name, writer in zip(("a", "b"), started, strict=True):
            said = writer.communicate()[0].split()
            assert all(cache.get(f"{name}-{n}") for n in range(5 + len(said)))


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(DataError, match="cannot be used as a cache"):
        AnswerCache(path)


def test_a_cache_is_not_closed_under_a_thread_that_reads_it(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "cache")
    closer = threading.Thread(target=cache.close)
    with cache._lock:  # as a reader holds it
        closer.start()
        assert cache._connection.execute("SELECT count(*) FROM answers").fetchone() == (0,)
    closer.join()
    with pytest.raises(DataError, match="closed database"):
        cache.get("key")


def test_a_full_disk_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with AnswerCache(tmp_path / "cache") as cache:
        pages = cache._connection.execute("PRAGMA page_count").fetchone()[0]
        cache._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match="No space left") as caught:
            for number in range(200):
                cache.put(f"{number}" * 50, "m", ANSWER)
        assert caught.value.errno == errno.ENOSPC
        assert isinstance(caught.value.__cause__, sqlite3.Error)
