"""Rows to review, two of them disputed, and a review of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trivet.annotation.review.review import Review, order, read_rows
from trivet.annotation.review.reviewed_file import ReviewedFile
from trivet.annotation.review.server import ReviewServer

TEXTS = {
    "question": "How old is the mill?",
    "contexts": ["The mill is old. Nobody keeps it.", "It was built in 1790."],
    "response": "The mill is old. It was built in 1791.",
}
LABELS = {"unsupported": [[33, 37]], "relevant": [[0, 0, 16]], "utilized": [[0, 0, 16]]}


def row_of(name: str, **others: Any) -> dict[str, Any]:
    return {"id": name, **TEXTS, "labels": LABELS, "source": "mills", "group": name, **others}


def disputed(share: float) -> dict[str, Any]:
    return {"annotation": {"agreement": {"support": share, "relevant": 1.0}}, "weight": share}


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Write four rows; annotators disagree on the second and, most, on the fourth."""
    rows = [row_of("a"), row_of("b", **disputed(0.5)), row_of("c"), row_of("d", **disputed(0.0))]
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "labelled.reviewed.jsonl"


@pytest.fixture
def review(labelled: Path, out: Path) -> Iterator[Review]:
    rows = read_rows(labelled)
    with ReviewedFile(out) as file:
        yield Review(labelled, [rows[n] for n in order(rows)], file, "Ada")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def server(review: Review) -> Iterator[ReviewServer]:
    with ReviewServer(review, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
