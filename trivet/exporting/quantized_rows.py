"""What products in eight bits cost on labelled rows, and how much they may.

A static scale of eight bits rounds so that single probabilities move by more than 16 bits would
move them, and a verdict near its threshold flips; whether that matters is a question to labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from trivet.bundle.openvino_info import MOST_LOSS
from trivet.exporting.openvino_candidates import Result, losses, overall
from trivet.records import BackendError, Evaluation, LabelledExample


class RowLosses(NamedTuple):
    """One engine beside fp32.

    Attributes:
        auroc: Most that a hallucination AUROC fell by; below 0 where it rose.
        rmse: Most that an RMSE of relevance, utilization or completeness rose by.
        flipped: Rows whose verdict changed.
        rows: How many rows there are.
    """

    auroc: float
    rmse: float
    flipped: int
    rows: int

    def __str__(self) -> str:
        """Return the figures for a person."""
        return (
            f"AUROC {-self.auroc:+.4f}, RMSE {self.rmse:+.4f}, {self.flipped} of {self.rows} "
            "verdicts changed"
        )


def measure_losses(
    rows: Sequence[LabelledExample],
    expected: Sequence[Result],
    found: Sequence[Result],
    data: str,
) -> RowLosses:
    """Compare what two engines say of labelled rows.

    Args:
        rows: What was judged.
        expected: What fp32 says.
        found: What the other engine says.
        data: How messages name the rows.

    Raises:
        DataError: No AUROC or no RMSE can be measured on these rows.
        BackendError: A measure is defined with one engine alone.
    """
    auroc, rmse = losses(overall(rows, expected, data), overall(rows, found, data))
    flipped = count_changed(expected, found)
    return RowLosses(round(auroc, 5), round(rmse, 5), flipped, len(rows))


def count_changed(expected: Sequence[Result], found: Sequence[Result]) -> int:
    """Count rows that one engine calls adherent and the other does not, or cannot judge."""
    return sum(_verdict(one) != _verdict(other) for one, other in zip(expected, found, strict=True))


def check_losses(lost: RowLosses, what: str) -> None:
    """Refuse what loses too much.

    Args:
        lost: As ``measure_losses`` found.
        what: How the message names it.

    Raises:
        BackendError: More than ``MOST_LOSS`` of AUROC or RMSE.
    """
    if max(lost.auroc, lost.rmse) > MOST_LOSS:
        raise BackendError(
            f"{what}: {lost}; AUROC and RMSE may lose at most {MOST_LOSS} against fp32, and "
            "nothing was kept. Try the other of int8 and fp8, give more rows, or stay with 16 bits"
        )


def _verdict(result: Result) -> Any:
    return result.adherent if isinstance(result, Evaluation) else type(result).__name__
