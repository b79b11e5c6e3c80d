"""Verdicts on labelled answers at several thresholds, and the worst errors.

A *find* is an unsupported answer that is flagged, a *false alarm* a supported one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trivet.errors import DataError
from trivet.measures.best_threshold import best_threshold
from trivet.measures.curves import BoolArray, FloatArray
from trivet.measures.false_alarms import conformal_threshold, needed_documents
from trivet.measures.predictions import Prediction
from trivet.records import Evaluation

_MAX_DIGITS = 16


@dataclass(frozen=True)
class AtThreshold:
    """Counts of labelled answers by the verdict at a threshold."""

    name: str  # ``used``, a name of the bundle's, ``rate`` or ``best_f1``
    threshold: float  # an answer is flagged if its deciding support is below
    finds: int  # unsupported answers that are flagged
    missed: int  # unsupported answers that are not
    false_alarms: int  # supported answers that are flagged
    passed: int  # supported answers that are not


@dataclass(frozen=True)
class LabelError:
    """A verdict that differs from its label."""

    row: Prediction
    support: float  # that the threshold is compared with, in [0, 1]
    distance: float  # from the threshold, as a share of the largest possible one


@dataclass(frozen=True)
class LabelCheck:
    """Agreement of the verdicts with the labels of answers."""

    used: AtThreshold  # at the threshold of the verdicts
    rate: AtThreshold | None  # at the highest threshold that keeps the chosen rate of false alarms
    best_f1: AtThreshold | None  # at the threshold with the best F1 of finds
    false_alarms: float  # chosen rate, in (0, 1)
    documents: int  # number of source documents with a supported answer
    no_rate: str | None  # reason for a missing ``rate``
    errors: tuple[LabelError, ...]  # largest distance first
    named: tuple[AtThreshold, ...] = ()  # at the named thresholds of the bundle

    @property
    def thresholds(self) -> list[AtThreshold]:
        """The thresholds that are known, rising; that of the verdicts by its name if it has one."""
        is_named = any(level.threshold == self.used.threshold for level in self.named)
        used = () if is_named else (self.used,)
        known = (*used, *self.named, self.rate, self.best_f1)
        return sorted(filter(None, known), key=lambda level: level.threshold)


@dataclass(frozen=True)
class JudgedAnswers:
    """Answers with a label and a verdict."""

    rows: Sequence[Prediction]
    support: FloatArray  # that the threshold is compared with [n]
    wrong: BoolArray  # labelled unsupported [n]
    threshold: float  # of the verdicts


def judge_answers(rows: Sequence[Prediction]) -> JudgedAnswers:
    """Return the answers that have a label and a verdict.

    Raises:
        DataError: There is none.
    """
    kept: list[Prediction] = []
    values: list[float] = []
    used = None
    for row in rows:
        verdict = row.evaluation
        if row.example.labels.adherent is None or not isinstance(verdict, Evaluation):
            continue
        if verdict.adherent is not None and verdict.threshold is not None:
            kept.append(row)
            values.append(deciding_support(verdict))
            used = verdict.threshold
    if used is None:
        raise DataError(f"none of {len(rows)} rows has a verdict on its answer to compare")
    wrong = np.array([row.example.labels.adherent is False for row in kept])
    return JudgedAnswers(kept, np.array(values), wrong, used)


def check_labels(
    rows: Sequence[Prediction], false_alarms: float, named: Mapping[str, float] | None = None
) -> LabelCheck:
    """Compare verdicts with labels of whole answers; rows without either do not count.

    Args:
        rows: Labelled answers and their verdicts, all at one threshold.
        false_alarms: Rate of false alarms that a threshold is chosen for, in (0, 1). The threshold
            keeps it in expectation for new documents (`conformal_threshold`).
        named: Thresholds of the bundle by name.

    Raises:
        DataError: No row has a label and a verdict.
    """
    judged = judge_answers(rows)
    kept, support, wrong, used = judged.rows, judged.support, judged.wrong, judged.threshold
    documents = [row.example.group for row, bad in zip(kept, wrong, strict=True) if not bad]
    count, needed = len(set(documents)), needed_documents(false_alarms)
    no_rate = None
    highest = conformal_threshold(support[~wrong], documents, false_alarms) if documents else None
    if highest is None:
        no_rate = (
            f"a rate of {false_alarms:.3g} needs {needed} source documents with a supported "
            f"answer, and there are {count}; label more, or ask for a higher rate"
        )
    best = best_threshold(support, wrong.astype(float))
    return LabelCheck(
        used=_counts("used", used, support, wrong),
        rate=None if highest is None else _chosen("rate", highest, support, wrong),
        best_f1=None if best is None else _chosen("best_f1", best.threshold, support, wrong),
        false_alarms=false_alarms,
        documents=count,
        no_rate=no_rate,
        errors=_errors(kept, support, wrong, used),
        named=tuple(_counts(*pair, support, wrong) for pair in (named or {}).items()),
    )


def deciding_support(verdict: Evaluation) -> float:
    """Return the lowest support of a sentence: the response is flagged if a threshold is above it.

    It is 1 without a claim.
    """
    return min((s.support for s in verdict.sentences if s.support is not None), default=1.0)


def shortest_threshold(threshold: float, support: FloatArray) -> float:
    """Return a number of few decimals that flags the same answers as a threshold, in [0, 1]."""
    low = float(support[support < threshold].max(initial=0.0))
    high = float(support[support >= threshold].min(initial=1.0))
    for digits in range(2, _MAX_DIGITS):
        below = math.floor(threshold * 10**digits) / 10**digits
        for short in (below, round(below + 10**-digits, digits)):
            if low < short <= high:
                return float(short)
    return threshold


def _chosen(name: str, threshold: float, support: FloatArray, wrong: BoolArray) -> AtThreshold:
    return _counts(name, shortest_threshold(threshold, support), support, wrong)


def _counts(name: str, threshold: float, support: FloatArray, wrong: BoolArray) -> AtThreshold:
    flagged = support < threshold
    groups = wrong & flagged, wrong & ~flagged, ~wrong & flagged, ~wrong & ~flagged
    return AtThreshold(name, threshold, *(int(group.sum()) for group in groups))


def _errors(
    rows: Sequence[Prediction], support: FloatArray, wrong: BoolArray, threshold: float
) -> tuple[LabelError, ...]:
    """Return the verdicts that differ from their labels, the surest first."""
    flagged = support < threshold
    range_ = np.where(flagged, threshold, 1 - threshold)
    distance = np.abs(support - threshold) / np.maximum(range_, 1e-9)
    places = np.flatnonzero(flagged != wrong)
    order = places[np.argsort(-distance[places], kind="stable")]
    return tuple(LabelError(rows[i], float(support[i]), float(distance[i])) for i in order)
