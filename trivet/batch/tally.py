"""Counts of a run: rows, failures by reason, and the mean of each score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from trivet.records import Evaluation, FailedEvaluation

SCORES = ("faithfulness", "supported_share", "relevance", "utilization", "completeness")


@dataclass
class Tally:
    """Counts and sums over the rows of a run."""

    evaluated: int = 0  # rows with a verdict
    windows: int = 0  # windows of these rows
    failures: Counter[str] = field(default_factory=Counter)  # rows without a verdict, by error code
    # verdicts that have each score; an empty response has no faithfulness
    counts: Counter[str] = field(default_factory=Counter)
    # sum of each score over these verdicts
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SCORES, 0.0))

    @property
    def failed(self) -> int:
        """Rows without a verdict."""
        return self.failures.total()

    def add(self, results: Iterable[Evaluation | FailedEvaluation]) -> None:
        """Count rows."""
        for result in results:
            if isinstance(result, FailedEvaluation):
                self.failures[result.code] += 1
                continue
            self.evaluated += 1
            self.windows += result.windows
            for score in SCORES:
                if (value := getattr(result, score)) is not None:
                    self.counts[score] += 1
                    self.sums[score] += value

    def mean(self, score: str) -> float | None:
        """Return the mean of a score over the verdicts that have it, or ``None``."""
        count = self.counts[score]
        return self.sums[score] / count if count else None

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as written in a run's record."""
        scores = {
            score: {"mean": self.mean(score), "n": self.counts[score], "sum": self.sums[score]}
            for score in SCORES
        }
        return {
            "evaluated": self.evaluated,
            "failed": self.failed,
            "failures": dict(self.failures),
            "windows": self.windows,
            "scores": scores,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read the counts of a record; raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        scores = record["scores"]
        return cls(
            evaluated=int(record["evaluated"]),
            windows=int(record["windows"]),
            failures=Counter({str(code): int(n) for code, n in record["failures"].items()}),
            counts=Counter({score: int(scores[score]["n"]) for score in SCORES}),
            sums={score: float(scores[score]["sum"]) for score in SCORES},
        )

    @classmethod
    def total(cls, tallies: Iterable[Self]) -> Self:
        """Return the sum of several tallies."""
        whole = cls()
        for tally in tallies:
            whole.evaluated += tally.evaluated
            whole.windows += tally.windows
            whole.failures += tally.failures
            whole.counts += tally.counts
            whole.sums = {score: whole.sums[score] + tally.sums[score] for score in SCORES}
        return whole

    def lines(self) -> list[str]:
        """Return the summary of a run; every mean is shown with n and the failures."""
        by_code = ", ".join(f"{code} {count}" for code, count in self.failures.most_common())
        why = f" ({by_code})" if by_code else ""
        means = [
            f"{score} {mean:.3f} (n {self.counts[score]}, {self.failed} failed)"
            for score in SCORES
            if (mean := self.mean(score)) is not None
        ]
        return [f"{self.evaluated} evaluated, {self.failed} failed{why}", *means]
