"""Comparison of a run with an earlier one, as a gate: paired by row, in lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trivet.report.comparison_page import Pairing, pair
from trivet.report.estimates import MIN_GROUPS
from trivet.report.tally import tally
from trivet.report.verdict_files import VerdictFile
from trivet.verdict_json import SCORES

_SCORE = "faithfulness"
_FELL = 0.05  # smaller changes are not listed
_MOST_ROWS = 20


@dataclass(frozen=True)
class Regression:
    """Differences of a new run from its baseline."""

    pairs: Pairing  # rows of both

    @property
    def worse(self) -> bool:
        """Whether faithfulness fell by more than chance: its 95 % interval lies below 0."""
        high = self.pairs.mean_difference(_SCORE).high
        return high is not None and high < 0

    def lines(self) -> Iterator[str]:
        """Yield the differences of the scores, and the rows whose faithfulness fell."""
        first, second = self.pairs.first, self.pairs.second
        both = int(self.pairs.evaluated.sum())
        yield f"{both} rows in both runs, paired by {self.pairs.by}"
        if any(self.pairs.alone):
            old, new = self.pairs.alone
            yield f"{old} rows are only in the baseline, {new} only in the new run"
        if other := self.pairs.other_questions():
            yield f"{other} pairs have different questions"
        for score in SCORES:
            mean = self.pairs.mean_difference(score)
            if mean.value is not None:
                text = f"{score} {mean.value:+.3f}"
                if mean.low is not None and mean.high is not None:
                    text += f" (95 % interval {mean.low:+.3f} to {mean.high:+.3f}, n {mean.n})"
                else:
                    text += f" (n {mean.n}; an interval needs {MIN_GROUPS} questions)"
                yield text
        change = self.pairs.difference(_SCORE)
        fell = np.flatnonzero(change < -_FELL)
        yield f"{len(fell)} rows fell in {_SCORE} by more than {_FELL:g}"
        for place in fell[np.argsort(change[fell], kind="stable")][:_MOST_ROWS]:
            before, after = first.scores[_SCORE][place], second.scores[_SCORE][place]
            name = f"row {second.rows[place]}, id {second.ids[place]}"
            yield f"  {name}: {before:.3f} -> {after:.3f}"
        if len(fell) > _MOST_ROWS:
            yield f"  and {len(fell) - _MOST_ROWS} more"


def compare(baseline: Path, verdicts: Path) -> Regression:
    """Compare two verdict files.

    Raises:
        DataError: One has no verdicts, or they have no row in common.
    """
    return Regression(pair(tally(VerdictFile(baseline)), tally(VerdictFile(verdicts))))
