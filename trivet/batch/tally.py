"""What a run found so far: how many rows, how many failed and why, and the mean of each score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from trivet.records import Evaluation, FailedEvaluation

SCORES = ("faithfulness", "supported_share", "relevance", "utilization", "completeness")


@dataclass
class Tally:
    """Counts and sums over the rows of a run.

    Attributes:
        judged: Rows with a verdict.
        windows: Windows that were read for them.
        failures: Rows without, by the code of their error.
        counts: For each score, the verdicts that have it: an empty response has no faithfulness.
        sums: For each score, its sum over them.
    """

    judged: int = 0
    windows: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SCORES, 0.0))

    @property
    def failed(self) -> int:
        """Rows without a verdict."""
        return self.failures.total()

    def add(self, result: Evaluation | FailedEvaluation) -> None:
        """Count one row."""
        if isinstance(result, FailedEvaluation):
            self.failures[result.code] += 1
            return
        self.judged += 1
        self.windows += result.windows
        for score in SCORES:
            value = getattr(result, score)
            if value is not None:
                self.counts[score] += 1
                self.sums[score] += value

    def mean(self, score: str) -> float | None:
        """Return the mean of a score over the verdicts that have it; ``None`` where none has."""
        count = self.counts[score]
        return self.sums[score] / count if count else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as it stands in a run's record."""
        scores = {
            score: {"mean": self.mean(score), "n": self.counts[score], "sum": self.sums[score]}
            for score in SCORES
        }
        return {
            "judged": self.judged,
            "failed": self.failed,
            "failures": dict(self.failures),
            "windows": self.windows,
            "scores": scores,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read it back; ``KeyError``, ``TypeError`` or ``ValueError`` where it is none."""
        scores = record["scores"]
        return cls(
            judged=int(record["judged"]),
            windows=int(record["windows"]),
            failures=Counter({str(code): int(n) for code, n in record["failures"].items()}),
            counts=Counter({score: int(scores[score]["n"]) for score in SCORES}),
            sums={score: float(scores[score]["sum"]) for score in SCORES},
        )

    @classmethod
    def total(cls, tallies: Iterable[Self]) -> Self:
        """Return the tally of several shards together."""
        whole = cls()
        for tally in tallies:
            whole.judged += tally.judged
            whole.windows += tally.windows
            whole.failures += tally.failures
            whole.counts += tally.counts
            whole.sums = {score: whole.sums[score] + tally.sums[score] for score in SCORES}
        return whole

    def lines(self) -> list[str]:
        """Return what a person is told at the end; n and failures stand beside every mean."""
        by_code = ", ".join(f"{code} {count}" for code, count in self.failures.most_common())
        why = f" ({by_code})" if by_code else ""
        means = [
            f"{score} {mean:.3f} (n {self.counts[score]}, {self.failed} failed)"
            for score in SCORES
            if (mean := self.mean(score)) is not None
        ]
        return [f"{self.judged} judged, {self.failed} failed{why}", *means]
