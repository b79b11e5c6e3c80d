"""Rows of a log reduced to numbers: scores, verdicts, groups.

A page needs one pass for the tally and one for the texts of the rows it shows, so a million rows
take a few hundred megabytes.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from trivet.errors import DataError
from trivet.measures.curves import BoolArray, FloatArray, IntArray
from trivet.records import FailedEvaluation
from trivet.report.verdict_files import VerdictRow
from trivet.report.wording import ABSTAINS, NO_RESPONSE, SUPPORTED, TO_CHECK, UNSUPPORTED
from trivet.verdict_json import SCORES, read_scores

MAX_VALUES = 20  # of a column to group by
KINDS = (UNSUPPORTED, TO_CHECK, SUPPORTED, ABSTAINS, NO_RESPONSE)
"""Kinds of rows; each row with a verdict on its response is of one kind."""
_MAX_FAILURES = 100  # listed one by one
_NO_QUESTION = 0
_DEFAULT_THRESHOLD = 0.5  # for verdicts with neither ``adherent`` nor ``threshold``

_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Column:
    """A metadata column."""

    name: str
    values: Sequence[str]  # as text: numbers and versions rising, else the most frequent first
    codes: IntArray  # index of each row's value, -1 for none, [n]


@dataclass(frozen=True)
class Tally:
    """Numbers of all n rows, failed ones included."""

    rows: IntArray  # row numbers in the input, [n]
    ids: Sequence[str | None]
    failed: BoolArray  # rows without a verdict, [n]
    scores: dict[str, FloatArray]  # NaN for none, [n] each
    kinds: dict[str, BoolArray]  # membership in each kind, [n] each
    sentences: IntArray  # sentences of each response, 0 if not available, [n]
    cites: BoolArray  # responses with citation marks, [n]
    questions: IntArray  # hash of the question within this process, 0 if not available, [n]
    groups: IntArray  # rows of one question share a group, [n]
    columns: Sequence[Column]  # columns to group by
    wide: Sequence[str]  # names of columns with too many values
    codes: Counter[str]  # number of failures for each error code
    failures: Sequence[tuple[int, FailedEvaluation]]  # the first ones, with their row numbers
    with_texts: int  # number of rows with a response or contexts
    thresholds: frozenset[float]  # of the verdicts

    def take(self, places: IntArray) -> Tally:
        """Return the tally of some rows, for figures of each row."""
        return replace(
            self,
            rows=self.rows[places],
            ids=[self.ids[index] for index in places],
            failed=self.failed[places],
            scores={name: values[places] for name, values in self.scores.items()},
            kinds={kind: shown[places] for kind, shown in self.kinds.items()},
            sentences=self.sentences[places],
            cites=self.cites[places],
            questions=self.questions[places],
            groups=self.groups[places],
            columns=[replace(column, codes=column.codes[places]) for column in self.columns],
        )

    @property
    def judged(self) -> BoolArray:
        """True for rows whose response claims something and has a verdict, [n]."""
        return self.kinds[UNSUPPORTED] | self.kinds[TO_CHECK] | self.kinds[SUPPORTED]

    def mean(self, score: str, among: BoolArray | slice = slice(None)) -> Mean:
        """Return the mean of a score over all rows, or over those where ``among`` is true."""
        return mean_of(self.scores[score][among], self.groups[among])


def tally(rows: Iterable[VerdictRow], by: Sequence[str] = ()) -> Tally:
    """Count all rows.

    Args:
        rows: The rows.
        by: Columns to group by; by default all with 2 to `MAX_VALUES` values.

    Raises:
        DataError: There is no row, no row has a column of ``by``, or it has too many values.
    """
    numbers, ids = array("q"), list[str | None]()
    scores, kinds, questions, groups = array("d"), array("b"), array("q"), array("q")
    columns = _Columns(by)
    codes, failures = Counter[str](), list[tuple[int, FailedEvaluation]]()
    failed, cites, sentences, with_texts = array("b"), array("b"), array("q"), 0
    thresholds = set[float]()
    for row in rows:
        scored, error = _scores(row)
        failed.append(error is not None)
        if error:
            codes[error.code] += 1
            if len(failures) < _MAX_FAILURES:
                failures.append((row.row, error))
        verdict = row.verdict or {}
        row_kind = _kind(verdict, scored["faithfulness"]) if error is None else None
        listed = verdict.get("sentences")
        sentences.append(len(listed) if isinstance(listed, list | tuple) else 0)
        cites.append(verdict.get("citations") is not None)
        scores.extend(float("nan") if value is None else value for value in scored.values())
        kinds.extend(kind == row_kind for kind in KINDS)
        questions.append(_NO_QUESTION if row.question is None else hash(row.question))
        groups.append(hash(("row", row.row)) if row.question is None else questions[-1])
        columns.add(row, len(numbers))
        numbers.append(row.row)
        ids.append(row.id)
        with_texts += row.response is not None or row.contexts is not None
        if isinstance(limit := verdict.get("threshold"), float):
            thresholds.add(limit)
    if not numbers:
        raise DataError("there is no row to report; the file of verdicts is empty")
    return Tally(
        rows=np.array(numbers, dtype=np.int64),
        ids=ids,
        failed=np.array(failed, dtype=bool),
        scores=dict(zip(SCORES, np.array(scores).reshape(-1, len(SCORES)).T, strict=True)),
        kinds=dict(zip(KINDS, np.array(kinds, bool).reshape(-1, len(KINDS)).T, strict=True)),
        sentences=np.array(sentences, dtype=np.int64),
        cites=np.array(cites, dtype=bool),
        questions=np.array(questions, dtype=np.int64),
        groups=np.unique(np.array(groups, dtype=np.int64), return_inverse=True)[1],
        columns=columns.dividing(len(numbers)),
        wide=columns.wide,
        codes=codes,
        failures=failures,
        with_texts=with_texts,
        thresholds=frozenset(thresholds),
    )


def _kind(verdict: Mapping[str, Any], faithfulness: float | None) -> str | None:
    """Return the kind of a row; without ``adherent`` by its faithfulness, None if there is none."""
    adherent, threshold = verdict.get("adherent"), verdict.get("threshold")
    limit = threshold if isinstance(threshold, float) else None
    if faithfulness is not None and not isinstance(adherent, bool):
        adherent = faithfulness >= (_DEFAULT_THRESHOLD if limit is None else limit)
    if verdict.get("abstains") is True:
        return ABSTAINS
    if not isinstance(adherent, bool):
        return None if limit is None else NO_RESPONSE
    if not adherent:
        return UNSUPPORTED
    return TO_CHECK if verdict.get("to_check") else SUPPORTED


def _scores(row: VerdictRow) -> tuple[dict[str, float | None], FailedEvaluation | None]:
    """Return a row's scores, or the reason why it has none."""
    if row.error is not None:
        return dict.fromkeys(SCORES), row.error
    try:
        return read_scores(row.verdict or {}), None
    except DataError as error:
        return dict.fromkeys(SCORES), FailedEvaluation(row.id, "bad_verdict", str(error))


class _Columns:
    """Metadata of the rows read so far."""

    def __init__(self, by: Sequence[str]) -> None:
        self._by = tuple(by)
        self._names: dict[str, None] = {}
        self._values: dict[str, tuple[dict[str, int], array[int]]] = {}
        self.wide: list[str] = []  # columns dropped for too many values

    def add(self, row: VerdictRow, index: int) -> None:
        """Add the values of the row ``index``."""
        self._names.update(dict.fromkeys(row.metadata))
        for name, value in row.metadata.items():
            if name in self.wide or (self._by and name not in self._by):
                continue
            values, codes = self._values.setdefault(name, ({}, array("q")))
            codes.extend([-1] * (index - len(codes)))
            text = str(value).lower() if isinstance(value, bool) else str(value)
            codes.append(values.setdefault(text, len(values)))
            if len(values) > MAX_VALUES:
                self.wide.append(name)
                del self._values[name]

    def dividing(self, n: int) -> list[Column]:
        """Return the columns that divide the n rows."""
        for name in self._by:
            if name not in self._values:
                wide = f"has more than {MAX_VALUES} values"
                names = ", ".join(self._names) or "none"
                raise DataError(
                    f"column {name!r} {wide if name in self.wide else 'is in no row'}; "
                    f"columns of these verdicts: {names}"
                )
        columns = []
        for name, (values, codes) in self._values.items():
            if len(values) > 1 or self._by:
                old = np.array([*codes, *[-1] * (n - len(codes))], dtype=np.int64)
                order = _order(list(values), np.bincount(old[old >= 0]))
                new = np.where(old >= 0, np.argsort(order)[old], -1)
                columns.append(Column(name, [list(values)[index] for index in order], new))
        return columns


def _order(values: Sequence[str], counts: IntArray) -> IntArray:
    """Return the indices of a column's values in the order to show them."""
    try:
        return np.argsort([float(value) for value in values], kind="stable")
    except ValueError:
        if not all(map(_DIGITS.search, values)):
            return np.argsort(-counts, kind="stable")
    # Texts with numbers, such as v2 and v10: the numbers in them rise.
    parts = [_DIGITS.split(value) for value in values]
    keys = [[int(part) if part.isdecimal() else part for part in pieces] for pieces in parts]
    return np.array(sorted(range(len(values)), key=keys.__getitem__), dtype=np.int64)


MIN_GROUPS = 6  # below, the series for Student's distribution is inaccurate


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its 95 % interval, robust to several answers to one question.

    The interval is Student's, from the cluster-robust variance: errors are summed within each group
    of rows.
    """

    value: float | None  # None without values
    low: float | None  # None with fewer than MIN_GROUPS groups
    high: float | None
    n: int  # number of values


def mean_of(values: FloatArray, groups: IntArray, bounds: tuple[float, float] = (0.0, 1.0)) -> Mean:
    """Return the mean of the values [n] that are not NaN, with its interval clipped to ``bounds``.

    Rows of one group [n], numbered from 0, are dependent.
    """
    known = np.isfinite(values)
    present, members = values[known], groups[known]
    if not len(present):
        return Mean(None, None, None, 0)
    value = float(present.mean())
    errors = np.bincount(members, present - value)
    count = len(np.unique(members))
    if count < MIN_GROUPS:
        return Mean(value, None, None, len(present))
    error = math.sqrt(count / (count - 1) * float(errors @ errors)) / len(present)
    half_width = student(count - 1) * error
    low, high = max(bounds[0], value - half_width), min(bounds[1], value + half_width)
    return Mean(value, low, high, len(present))


def student(degrees: int) -> float:
    """Return the 97.5th percentile of Student's distribution for 5 degrees or more, to 0.2 %."""
    z = NormalDist().inv_cdf(0.975)
    # Cornish-Fisher series; Abramowitz and Stegun, 26.7.5.
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / degrees + second / degrees**2 + third / degrees**3
