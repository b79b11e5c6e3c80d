"""Rows of a log reduced to numbers: scores, kinds of failure, groups.

A page needs one pass for the tally and one for the texts of the rows it shows, so a million rows
take a few hundred megabytes.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from trivet.errors import ConfigError, DataError
from trivet.records import FailedEvaluation
from trivet.report.estimates import FloatArray, IntArray, Mean, mean_of
from trivet.report.verdict_files import VerdictRow
from trivet.verdict_json import SCORES, read_scores

MAX_VALUES = 20  # of a column to group by
MADE_UP, RETRIEVAL_POOR, CONTEXT_IGNORED = "made up", "retrieval poor", "context ignored"
KINDS = (MADE_UP, RETRIEVAL_POOR, CONTEXT_IGNORED)
_MAX_FAILURES = 100  # listed one by one
_NO_QUESTION = 0
_DEFAULT_ADHERENCE = 0.5  # for verdicts without ``adherent``

_DIGITS = re.compile(r"(\d+)")
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Limits:
    """Scores below which an answer has a kind of failure; in [0, 1]."""

    faithfulness: float | None = None  # None uses the verdict's ``adherent``
    relevance: float = 0.1  # low, for relevance is a share of all sentences
    utilization: float = 0.05
    completeness: float = 0.5

    @classmethod
    def from_words(cls, words: Mapping[str, float]) -> Limits:
        """Return the default limits with some replaced.

        Raises:
            ConfigError: A name is not a score, or a limit is not in [0, 1].
        """
        for name, limit in words.items():
            if name not in cls.__slots__:
                raise ConfigError(f"no score {name!r}; the scores are {', '.join(cls.__slots__)}")
            if not 0 <= limit <= 1:
                raise ConfigError(f"the limit of {name} is {limit:g}; it must lie in [0, 1]")
        return cls(**words)

    def meanings(self) -> dict[str, str]:
        """Return a description of each kind of failure."""
        limit = "a sentence is unsupported"
        if self.faithfulness is not None:
            limit = f"faithfulness below {self.faithfulness:g}"
        return {
            MADE_UP: f"{limit}: no context supports part of the response",
            RETRIEVAL_POOR: f"relevance below {self.relevance:g}: few sentences of the contexts "
            "help to answer the question",
            CONTEXT_IGNORED: f"utilization below {self.utilization:g} or completeness below "
            f"{self.completeness:g}, relevance not low: the response does not use helpful contexts",
        }

    def kinds(
        self, scores: Mapping[str, float | None], adherent: bool | None = None
    ) -> tuple[str, ...]:
        """Return the kinds of failure of an answer; ``adherent`` is the verdict's own."""
        poor = _below(scores["relevance"], self.relevance)
        ignored = _below(scores["utilization"], self.utilization) or _below(
            scores["completeness"], self.completeness
        )
        if self.faithfulness is None and adherent is not None:
            made_up = not adherent
        else:
            limit = _DEFAULT_ADHERENCE if self.faithfulness is None else self.faithfulness
            made_up = _below(scores["faithfulness"], limit)
        shown = {MADE_UP: made_up, RETRIEVAL_POOR: poor, CONTEXT_IGNORED: ignored and not poor}
        return tuple(kind for kind, found in shown.items() if found)


def _below(score: float | None, limit: float) -> bool:
    return score is not None and score < limit


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
    kinds: dict[str, BoolArray]  # membership in each kind of failure, [n] each
    questions: IntArray  # hash of the question within this process, 0 if not available, [n]
    groups: IntArray  # rows of one question share a group, [n]
    columns: Sequence[Column]  # columns to group by
    wide: Sequence[str]  # names of columns with too many values
    codes: Counter[str]  # number of failures for each error code
    failures: Sequence[tuple[int, FailedEvaluation]]  # the first ones, with their row numbers
    with_texts: int  # number of rows with a response or contexts

    def take(self, places: IntArray) -> Tally:
        """Return the tally of some rows, for figures of each row."""
        return replace(
            self,
            rows=self.rows[places],
            ids=[self.ids[place] for place in places],
            failed=self.failed[places],
            scores={name: values[places] for name, values in self.scores.items()},
            kinds={kind: shown[places] for kind, shown in self.kinds.items()},
            questions=self.questions[places],
            groups=self.groups[places],
            columns=[replace(column, codes=column.codes[places]) for column in self.columns],
        )

    def mean(self, score: str, among: BoolArray | slice = slice(None)) -> Mean:
        """Return the mean of a score over all rows, or over those where ``among`` is true."""
        return mean_of(self.scores[score][among], self.groups[among])


def tally(rows: Iterable[VerdictRow], limits: Limits, by: Sequence[str] = ()) -> Tally:
    """Count all rows, grouped by these columns or by all with 2 to `MAX_VALUES` values.

    Raises:
        DataError: There is no row, no row has a column of ``by``, or it has too many values.
    """
    numbers, ids = array("q"), list[str | None]()
    scores, kinds, questions, groups = array("d"), array("b"), array("q"), array("q")
    columns = _Columns(by)
    codes, failures = Counter[str](), list[tuple[int, FailedEvaluation]]()
    failed, with_texts = array("b"), 0
    for row in rows:
        found, error = _scores(row)
        failed.append(error is not None)
        if error:
            codes[error.code] += 1
            if len(failures) < _MAX_FAILURES:
                failures.append((row.row, error))
        adherent = (row.verdict or {}).get("adherent")
        own = limits.kinds(found, adherent if isinstance(adherent, bool) else None)
        scores.extend(float("nan") if value is None else value for value in found.values())
        kinds.extend(kind in own for kind in KINDS)
        questions.append(_NO_QUESTION if row.question is None else hash(row.question))
        groups.append(hash(("row", row.row)) if row.question is None else questions[-1])
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
        scores=dict(zip(SCORES, np.array(scores).reshape(-1, len(SCORES)).T, strict=True)),
        kinds=dict(zip(KINDS, np.array(kinds, bool).reshape(-1, len(KINDS)).T, strict=True)),
        questions=np.array(questions, dtype=np.int64),
        groups=np.unique(np.array(groups, dtype=np.int64), return_inverse=True)[1],
        columns=columns.found(len(numbers)),
        wide=columns.wide,
        codes=codes,
        failures=failures,
        with_texts=with_texts,
    )


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
        self._found: dict[str, tuple[dict[str, int], array[int]]] = {}
        self.wide: list[str] = []  # columns dropped for too many values

    def add(self, row: VerdictRow, place: int) -> None:
        """Add the values of the row with index ``place``."""
        self._names.update(dict.fromkeys(row.metadata))
        for name, value in row.metadata.items():
            if name in self.wide or (self._by and name not in self._by):
                continue
            values, codes = self._found.setdefault(name, ({}, array("q")))
            codes.extend([-1] * (place - len(codes)))
            text = str(value).lower() if isinstance(value, bool) else str(value)
            codes.append(values.setdefault(text, len(values)))
            if len(values) > MAX_VALUES:
                self.wide.append(name)
                del self._found[name]

    def found(self, n: int) -> list[Column]:
        """Return the columns that divide the n rows."""
        for name in self._by:
            if name not in self._found:
                wide = f"has more than {MAX_VALUES} values"
                names = ", ".join(self._names) or "none"
                raise DataError(
                    f"column {name!r} {wide if name in self.wide else 'is in no row'}; "
                    f"columns of these verdicts: {names}"
                )
        columns = []
        for name, (values, codes) in self._found.items():
            if len(values) > 1 or self._by:
                old = np.array([*codes, *[-1] * (n - len(codes))], dtype=np.int64)
                order = _order(list(values), np.bincount(old[old >= 0]))
                new = np.where(old >= 0, np.argsort(order)[old], -1)
                columns.append(Column(name, [list(values)[place] for place in order], new))
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
    keys = [[int(part) if part.isdecimal() else part for part in own] for own in parts]
    return np.array(sorted(range(len(values)), key=keys.__getitem__), dtype=np.int64)
