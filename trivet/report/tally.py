"""All rows of a judged log, reduced to what the statistics need: a few numbers a row.

A log is read once for its tally, and again for the texts of the few rows that a page shows; so a
million rows need some hundred megabytes and no more.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trivet.records import DataError, FailedEvaluation
from trivet.report.estimates import FloatArray, IntArray, Mean, mean_of
from trivet.report.failure_kinds import KINDS, Limits
from trivet.report.verdict_row import VerdictRow
from trivet.verdict_json import SCORES, read_scores

MOST_VALUES = 20  # of a column that rows are grouped by; more are names, not groups
_NO_QUESTION = 0
_MOST_FAILURES = 100  # told one by one

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Column:
    """A column of the metadata: its values in the order of their frequency.

    Attributes:
        name: As in the input.
        values: As text.
        codes: Which value each row has, -1 where it has none. *Shape:* [n].
    """

    name: str
    values: Sequence[str]
    codes: IntArray


@dataclass(frozen=True)
class Tally:
    """The numbers of all rows; n counts them, failed ones included.

    Attributes:
        rows: The number of each row in the input. *Shape:* [n].
        ids: The name of each, or ``None``.
        failed: Which of them have no verdict. *Shape:* [n].
        scores: Score to values, NaN where a row has none. *Shape:* [n] each.
        kinds: Kind of failure to whether a row shows it. *Shape:* [n] each.
        questions: A number that stands for the text of the question, within this process; 0 where
            it is not at hand. *Shape:* [n].
        groups: Rows of one question have one number, those without have their own. *Shape:* [n].
        columns: What rows can be grouped by.
        wide: Columns of too many values to group by.
        codes: Error code to how many rows failed for it.
        failures: The first failures, with the number of their row.
        with_texts: How many rows brought a response or contexts of their own.
    """

    rows: IntArray
    ids: Sequence[str | None]
    failed: BoolArray
    scores: dict[str, FloatArray]
    kinds: dict[str, BoolArray]
    questions: IntArray
    groups: IntArray
    columns: Sequence[Column]
    wide: Sequence[str]
    codes: Counter[str]
    failures: Sequence[tuple[int, FailedEvaluation]]
    with_texts: int

    def mean(self, score: str, among: BoolArray | None = None) -> Mean:
        """Return the mean of a score over all rows, or over those where ``among`` is true."""
        values = self.scores[score]
        if among is None:
            return mean_of(values, self.groups)
        return mean_of(values[among], self.groups[among])


def tally(rows: Iterable[VerdictRow], limits: Limits, by: Sequence[str] = ()) -> Tally:
    """Count every row.

    Args:
        rows: Read once, in order.
        limits: Of the kinds of failure.
        by: Columns of the metadata to group by; without any, all that have 2 to 20 values.

    Raises:
        DataError: There is no row, or no row has a column of ``by``.
    """
    numbers, ids = array("q"), list[str | None]()
    scores = {name: array("d") for name in SCORES}
    kinds = {kind: array("b") for kind in KINDS}
    questions, draws = array("q"), array("q")
    columns = _Columns(by)
    codes, failures = Counter[str](), list[tuple[int, FailedEvaluation]]()
    failed, with_texts = array("b"), 0
    for row in rows:
        found, error = _judged(row)
        failed.append(error is not None)
        if error is not None:
            codes[error.code] += 1
            if len(failures) < _MOST_FAILURES:
                failures.append((row.row, error))
        adherent = (row.verdict or {}).get("adherent")
        own = limits.kinds(found, adherent if isinstance(adherent, bool) else None)
        for name, values in scores.items():
            value = found[name]
            values.append(float("nan") if value is None else value)
        for kind, shown in kinds.items():
            shown.append(kind in own)
        # A hash in place of the text: a million questions are not to be kept.
        questions.append(_NO_QUESTION if row.question is None else hash(row.question))
        draws.append(hash(("row", row.row)) if row.question is None else questions[-1])
        columns.add(row, len(numbers))
        numbers.append(row.row)
        ids.append(row.id)
        with_texts += row.response is not None or row.contexts is not None
    if not numbers:
        raise DataError("there is no row to report; the file of verdicts is empty")
    return Tally(
        rows=np.array(numbers, dtype=np.int64),
        ids=ids,
        failed=np.array(failed, dtype=bool),
        scores={name: np.array(values) for name, values in scores.items()},
        kinds={kind: np.array(shown, dtype=bool) for kind, shown in kinds.items()},
        questions=np.array(questions, dtype=np.int64),
        groups=np.unique(np.array(draws, dtype=np.int64), return_inverse=True)[1],
        columns=columns.found(len(numbers)),
        wide=columns.wide,
        codes=codes,
        failures=failures,
        with_texts=with_texts,
    )


def _judged(row: VerdictRow) -> tuple[dict[str, float | None], FailedEvaluation | None]:
    """Return a row's scores, and why it has none."""
    nothing: dict[str, float | None] = dict.fromkeys(SCORES)
    if row.error is not None:
        return nothing, row.error
    try:
        return read_scores(row.verdict or {}), None
    except DataError as error:
        return nothing, FailedEvaluation(row.id, "bad_verdict", str(error))


class _Columns:
    """The metadata of the rows so far; a column of too many values is given up.

    Attributes:
        wide: The columns that were given up.
    """

    def __init__(self, by: Sequence[str]) -> None:
        self._by = tuple(by)
        self._names: dict[str, None] = {}
        self._codes: dict[str, array[int]] = {}
        self._values: dict[str, dict[str, int]] = {}
        self.wide: list[str] = []

    def add(self, row: VerdictRow, place: int) -> None:
        """Take the values of one row, which stands at ``place``."""
        self._names.update(dict.fromkeys(row.metadata))
        for name, value in row.metadata.items():
            if name in self.wide or (self._by and name not in self._by):
                continue
            codes = self._codes.setdefault(name, array("q"))
            values = self._values.setdefault(name, {})
            codes.extend([-1] * (place - len(codes)))
            codes.append(values.setdefault(_text(value), len(values)))
            if len(values) > MOST_VALUES:
                self.wide.append(name)
                del self._codes[name], self._values[name]

    def found(self, n: int) -> list[Column]:
        """Return the columns that divide the n rows."""
        asked = [name for name in self._by if name not in self._codes]
        if asked:
            why = f"has more than {MOST_VALUES} values" if asked[0] in self.wide else "is in no row"
            raise DataError(
                f"column {asked[0]!r} {why}; columns of these verdicts: "
                f"{', '.join(self._names) or 'none'}"
            )
        columns = []
        for name, codes in self._codes.items():
            every = np.array([*codes, *[-1] * (n - len(codes))], dtype=np.int64)
            counts = np.bincount(every[every >= 0])
            order = np.argsort(-counts, kind="stable")
            if len(counts) > 1 or self._by:
                values = list(self._values[name])
                columns.append(Column(name, [values[old] for old in order], _recoded(every, order)))
        return columns


def _recoded(codes: IntArray, order: IntArray) -> IntArray:
    new = np.empty(len(order), dtype=np.int64)
    new[order] = np.arange(len(order))
    return np.where(codes >= 0, new[codes], -1)


def _text(value: object) -> str:
    """Write a value as JSON would: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)
