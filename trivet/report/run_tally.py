"""Counts of a run: verdicts, failures by reason, and the mean of each score."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from trivet import verdict_json
from trivet.records import Evaluation, FailedEvaluation

_NAMED = 5  # unsupported answers that the summary names
_MAX_NAME = 60  # characters of a name in it
_COUNTS = (
    *("evaluated", "windows", "answers", "without_response"),
    *("unsupported", "to_check", "abstaining"),
)
SCORES = (verdict_json.SCORES[0], "supported_share", *verdict_json.SCORES[1:])
SHOWN_SCORES = SCORES[:-1]  # completeness is too rough to be read at first sight


@dataclass
class RunTally:
    """Counts and sums over the rows of a run."""

    evaluated: int = 0  # rows with a verdict
    windows: int = 0  # windows of these rows
    answers: int = 0  # rows with a response, if responses are judged
    without_response: int = 0  # rows that have relevance alone
    unsupported: int = 0  # answers with an unsupported sentence
    to_check: int = 0  # other answers with a span to check
    abstaining: int = 0  # answers that say that there is no answer
    # faithfulness and name of the least faithful unsupported answers, the worst first
    worst: list[tuple[float, str]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)  # rows without a verdict, by error code
    # verdicts that have each score; an abstention or no response has no faithfulness
    counts: Counter[str] = field(default_factory=Counter)
    # sum of each score over these verdicts
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SCORES, 0.0))

    @property
    def failed(self) -> int:
        """Rows without a verdict."""
        return self.failures.total()

    @property
    def rows(self) -> int:
        """Rows that were counted."""
        return self.evaluated + self.failed

    def add(self, results: Iterable[Evaluation | FailedEvaluation]) -> None:
        """Count rows."""
        for result in results:
            if isinstance(result, FailedEvaluation):
                self.failures[result.code] += 1
                continue
            self.evaluated += 1
            self.windows += result.windows
            self.answers += result.adherent is not None
            # Without a threshold the bundle judges no response at all.
            self.without_response += result.adherent is None and result.threshold is not None
            self.abstaining += result.abstains
            self.to_check += result.adherent is True and bool(result.to_check)
            if result.adherent is False:
                self.unsupported += 1
                named = result.faithfulness or 0.0, (result.id or "-")[:_MAX_NAME]
                self.worst = heapq.nsmallest(_NAMED, [*self.worst, named])
            for score in SCORES:
                if (value := getattr(result, score)) is not None:
                    self.counts[score] += 1
                    self.sums[score] += value

    def mean(self, score: str) -> float | None:
        """Return the mean of a score over the verdicts that have it, or ``None``."""
        count = self.counts[score]
        return self.sums[score] / count if count else None

    def share(self, kind: str) -> float:
        """Return the share of the answers that are ``abstaining``, and so on."""
        count: int = getattr(self, kind)
        return count / self.answers if self.answers else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as written in a run's record."""
        scores = {
            score: {"mean": self.mean(score), "n": self.counts[score], "sum": self.sums[score]}
            for score in SCORES
        }
        counts = {name: getattr(self, name) for name in ("failed", *_COUNTS)}
        return counts | {"failures": self.failures, "worst": self.worst, "scores": scores}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read the counts of a record; raises ``KeyError``, ``TypeError`` or ``ValueError``."""
        scores = record["scores"]
        return cls(
            **{name: int(record.get(name, 0)) for name in _COUNTS},
            worst=[(float(score), str(name)) for score, name in record["worst"]],
            failures=Counter({str(code): int(n) for code, n in record["failures"].items()}),
            counts=Counter({score: int(scores[score]["n"]) for score in SCORES}),
            sums={score: float(scores[score]["sum"]) for score in SCORES},
        )

    @classmethod
    def total(cls, tallies: Iterable[Self]) -> Self:
        """Return the sum of several tallies."""
        whole = cls()
        for tally in tallies:
            for name in _COUNTS:
                setattr(whole, name, getattr(whole, name) + getattr(tally, name))
            whole.worst = heapq.nsmallest(_NAMED, [*whole.worst, *tally.worst])
            whole.failures += tally.failures
            whole.counts += tally.counts
            whole.sums = {score: whole.sums[score] + tally.sums[score] for score in SCORES}
        return whole

    def lines(self) -> list[str]:
        """Return the summary of a run: kinds of rows, which add up, what to read, and the means."""
        supported = self.answers - self.unsupported - self.to_check - self.abstaining
        kinds = {
            "supported": supported,
            "unsupported": self.unsupported,
            "to check": self.to_check,
            "abstain": self.abstaining,
            "without a response": self.without_response,
            # of a bundle that judges no response
            "evaluated": self.evaluated - self.answers - self.without_response,
            "failed": self.failed,
        }
        lines = [", ".join(f"{n:,} {kind}" for kind, n in kinds.items() if n) or "no row"]
        if self.worst:
            names = ", ".join(name for _, name in self.worst)
            more = " ..." if self.unsupported > len(self.worst) else ""
            lines.append(f"unsupported: {names}{more}")
        if self.failed:
            by_code = ", ".join(f"{code} {n}" for code, n in self.failures.most_common())
            lines.append(f"failed: {by_code}")
        means = [
            f"{name} {mean:.3f}" for name in SHOWN_SCORES if (mean := self.mean(name)) is not None
        ]
        return [*lines, f"means: {', '.join(means)}"] if means else lines
