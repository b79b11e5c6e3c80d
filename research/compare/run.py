"""A system over rows: each score is kept as soon as it is there, and a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from research.compare.systems import Score, System
from trivet.batch.progress import Say
from trivet.batch.resumable_jsonl import ResumableJsonl
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.evaluation.streams import work_in_order
from trivet.llm.chat import LlmError
from trivet.records import LabelledExample, RagExample

_SCORE = TypeAdapter(Score)


def run_system(
    name: str,
    system: System,
    rows: Sequence[LabelledExample],
    folder: Path,
    restart: bool,
    concurrency: int,
    say: Say,
) -> list[Score]:
    """Score the rows that have no score of this system yet, and return those of all rows."""
    file = "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in name)
    made_of = {"system": name, "about": system.about, "rows": digest_rows(rows)}
    with ResumableJsonl.of(folder / f"{file}.jsonl", made_of, restart=restart) as kept:
        scores = [_SCORE.validate_python(row["score"]) for row in kept.rows()]
        work = partial(_score, system)
        examples = (row.example for row in rows[len(scores) :])
        for example, score in work_in_order(examples, work, concurrency if system.model else 1):
            scores.append(score)
            kept.append({"id": example.id, "score": asdict(score)})
            say(lambda: f"{name}: {len(scores):,} of {len(rows):,} rows")
    return scores


def digest_rows(rows: Sequence[LabelledExample]) -> str:
    """Return a digest of texts, ids and order of rows; labels may change."""
    examples = (row.example for row in rows)
    texts = [
        [example.id, example.question, example.contexts, example.response] for example in examples
    ]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def _score(system: System, example: RagExample) -> Score:
    """Score a row; a failure that concerns this row alone becomes a score without a value."""
    began = time.perf_counter()
    try:
        score = system.score(example)
    except (ExampleError, WindowError, BackendError, LlmError) as error:
        if getattr(error, "fatal", False):
            raise
        score = Score(None, failed=getattr(error, "code", "window"))
    if score.seconds is None and system.timed:
        score = replace(score, seconds=time.perf_counter() - began)
    return score
