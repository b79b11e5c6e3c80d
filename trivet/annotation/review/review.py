"""The rows of a review, the most useful first, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from trivet.annotation.review.marks import Marks, Sheet
from trivet.annotation.review.reviewed_file import ReviewedFile, file_state, key_of
from trivet.batch.output import RunChangedError
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.labelled_jsonl import parse_row, read_pairs, to_row
from trivet.labelled.source_report import SourceReport
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, Labels

_LABELS = frozenset(Labels.__dataclass_fields__)


@dataclass(frozen=True)
class ReviewRow:
    """A row of the file as it was read."""

    key: str
    raw: Mapping[str, Any]
    labelled: LabelledExample
    agreement: Mapping[str, float]  # share of equal decisions of two annotators; may be empty

    @property
    def disputed(self) -> bool:
        """Whether two annotators disagree on the support of a sentence."""
        return self.agreement.get("support", 1.0) < 1.0


def read_rows(file: Path) -> list[ReviewRow]:
    """Read the rows of a labelled file; of equal rows only the first.

    Raises:
        DataError: The file cannot be read, or no row has a label.
    """
    pairs, report = read_pairs(file)
    report.log()
    if not pairs:
        raise DataError(f"{file}: none of its {report.rows} rows can be used")
    if all(labelled.labels == Labels() for _, labelled in pairs):
        raise DataError(
            f"{file}: none of its {len(pairs)} rows has a label to review; trivet annotate "
            "proposes labels"
        )
    found: dict[str, ReviewRow] = {}
    for raw, labelled in pairs:
        annotation = raw.get("annotation")
        shares = annotation.get("agreement") if isinstance(annotation, Mapping) else None
        known = shares if isinstance(shares, Mapping) else {}
        agreement = {name: float(one) for name, one in known.items() if type(one) in (int, float)}
        key = key_of(raw)
        found.setdefault(key, ReviewRow(key, raw, labelled, agreement))
    return list(found.values())


def order(rows: Sequence[ReviewRow], uncertainty: Sequence[float] | None = None) -> list[int]:
    """Return the places of the rows in the order of their review.

    Disputed rows come first, those with the least agreement before others; then the rows of which
    the judge is least sure, or else those of the file in order.
    """

    def rank(place: int) -> tuple[bool, float, float, int]:
        row = rows[place]
        doubt = 0.0 if uncertainty is None else -uncertainty[place]
        shares = row.agreement.values() if row.disputed else ()
        return not row.disputed, sum(shares) / max(1, len(shares)), doubt, place

    return sorted(range(len(rows)), key=rank)


class Review:
    """A review of rows by one person; its methods may be called by several threads."""

    def __init__(
        self, file: Path, rows: Sequence[ReviewRow], out: ReviewedFile, reviewer: str
    ) -> None:
        """Begin or continue a review.

        Args:
            file: File that the rows were read from.
            rows: Rows in the order of their review.
            out: File for the reviewed rows.
            reviewer: Name of the person.
        """
        self.rows = rows
        self._file, self._out, self._reviewer = file, out, reviewer
        self._state = file_state(file)
        self._lock = threading.Lock()

    def current(self, place: int) -> tuple[LabelledExample, Mapping[str, Any] | None]:
        """Return a row with its present labels, and who reviewed it and when."""
        kept = self._out.rows.get(self.rows[place].key)
        if kept is None:
            return self.rows[place].labelled, None
        source = self.rows[place].labelled.source
        return parse_row(kept, source, "", SourceReport(source)), kept["review"]

    def left(self) -> list[int]:
        """Return the places of the rows that no one has reviewed."""
        return [place for place, row in enumerate(self.rows) if row.key not in self._out.rows]

    def save(self, place: int, seen: str, marks: Marks) -> None:
        """Write a row with the marks of the person.

        Args:
            place: Place of the row.
            seen: Time of the review that the person saw; empty for none.
            marks: Marks.

        Raises:
            ValueError: A mark is on no word or sentence.
            RunChangedError: A file, or the row in another window, was changed meanwhile.
            OutputFullError: The disk is full.
        """
        with self._lock:
            if file_state(self._file) != self._state:
                raise RunChangedError(
                    f"{self._file}: another program changed it; nothing was saved: start trivet "
                    "review again"
                )
            labelled, review = self.current(place)
            if (review["at"] if review else "") != seen:
                raise RunChangedError(
                    "this row was reviewed in another window; nothing was saved: reload the page"
                )
            row = self.rows[place]
            new, changed = Sheet(labelled.example).apply(labelled, marks)
            given = row.raw.get("labels") or {}
            others = {name: value for name, value in given.items() if name not in _LABELS}
            about = {
                "by": self._reviewer,
                "at": datetime.now(UTC).isoformat(timespec="microseconds"),
                "changed": sorted({*changed, *(review["changed"] if review else ())}),
            }
            written = {**row.raw, "labels": others | to_row(new)["labels"], "review": about}
            if row.agreement:
                written["weight"] = 1.0  # a person has decided
            self._out.save(written)


def measure_uncertainty(evaluator: Evaluator, rows: Sequence[LabelledExample]) -> Iterator[float]:
    """Yield the doubt of a judge on each row, in [0, 1]; 1 for a row that it cannot evaluate.

    Of a response, it is how near what decides on it is to the threshold: its faithfulness, or the
    support of its weakest sentence where that is higher. Of a row without a response, it is the
    mean doubt on the relevance of the context sentences.
    """
    info = evaluator.bundle.info.thresholds
    threshold = 0.5 if info is None else info.sentence
    for result in evaluator.evaluate_many(row.example for row in rows):
        yield _doubt(result, threshold)


def _doubt(result: Evaluation | FailedEvaluation, threshold: float) -> float:
    if isinstance(result, FailedEvaluation):
        return 1.0
    if result.faithfulness is not None:
        supports = [one.support for one in result.sentences if one.support is not None]
        whole = max(result.faithfulness, min(supports, default=1.0))
        room = 1 - threshold if whole > threshold else threshold
        return 1 - abs(whole - threshold) / max(room, 1e-9)
    sentences = [one for context in result.contexts for one in context.sentences]
    known = [one.relevance for one in sentences if one.relevance is not None]
    return float(np.mean(1 - np.abs(2 * np.array(known) - 1))) if known else 1.0
