"""Rates of false alarms: thresholds that keep one, their bounds, and data too small for it.

A false alarm is a faithful response that is flagged, because its support is below the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.labelled.grouping import data_set, document
from trivet.measures.curves import FloatArray, tie_ends
from trivet.records import LabelledExample


class Faithful(NamedTuple):
    """The n faithful responses of a data set."""

    name: str  # data set
    support: FloatArray  # in [0, 1] [n]
    documents: Sequence[str]  # source document of each


@dataclass(frozen=True)
class Alarms:
    """The labelled responses of a source or data set that are flagged at a threshold."""

    source: str
    faithful: int
    false_alarms: int
    hallucinated: int
    finds: int

    def words(self) -> str:
        """Return the counts in one line."""
        f1 = 2 * self.finds / max(1, self.finds + self.false_alarms + self.hallucinated)
        return (
            f"{self.source}: {self.false_alarms} false alarms of {self.faithful} faithful "
            f"responses, {self.finds} of {self.hallucinated} hallucinated ones found, F1 {f1:.3f}"
        )


@dataclass(frozen=True)
class AlarmBound:
    """The bound on the rate of false alarms of a threshold that was chosen for such a rate."""

    data: str  # data set
    documents: int  # number n of its source documents with a faithful response
    rate: float  # mean over these documents of the flagged share of their faithful responses
    bound: float  # (n * rate + 1) / (n + 1), which holds on average for a new document

    def words(self) -> str:
        """Return the bound in one sentence."""
        return (
            f"{self.data}: {self.rate:.1%} of the faithful responses are flagged (mean over "
            f"{self.documents} documents); in a new document at most {self.bound:.1%} expected, if "
            "nothing else was fitted on these rows"
        )


@dataclass(frozen=True)
class TooFewDocuments:
    """A data set in which no rate of false alarms can be kept."""

    data: str  # data set
    documents: int  # number of its source documents with a faithful response
    needed: int  # number that the rate needs

    def words(self) -> str:
        """Return the counts in one sentence."""
        return (
            f"{self.data}: the rate of false alarms is not kept here, documents with a faithful "
            f"response: {self.documents}, needed: {self.needed}"
        )


def faithful_responses(rows: Sequence[LabelledExample], support: FloatArray) -> list[Faithful]:
    """Return the faithful responses of each data set, given n labelled rows and their support."""
    data, faithful = np.array([data_set(row) for row in rows]), are_faithful(rows)
    documents = np.array([document(row) for row in rows])
    names = np.unique(data)
    places = [(data == name) & faithful for name in names]
    return [
        Faithful(str(name), support[here], documents[here])
        for name, here in zip(names, places, strict=True)
    ]


def count_alarms(
    names: Sequence[str], rows: Sequence[LabelledExample], support: FloatArray, threshold: float
) -> tuple[Alarms, ...]:
    """Count the alarms under each name, given n labelled rows with their names and support."""
    named, faithful, flagged = np.array(names), are_faithful(rows), support < threshold
    groups = faithful, faithful & flagged, ~faithful, ~faithful & flagged
    return tuple(
        Alarms(str(name), *(int((group & (named == name)).sum()) for group in groups))
        for name in np.unique(named)
    )


def are_faithful(rows: Sequence[LabelledExample]) -> npt.NDArray[np.bool_]:
    """Return whether each of n rows is labelled faithful [n]."""
    return np.array([row.labels.adherent for row in rows], dtype=np.bool_)


def needed_documents(rate: float) -> int:
    """Return the least number of documents that a rate of false alarms in (0, 1) can be kept on."""
    return math.ceil(1 / rate - 1 - 1e-9)  # floating-point slack, so that .1 needs 9


def conformal_threshold(support: FloatArray, document: Sequence[str], rate: float) -> float | None:
    """Return the highest threshold with a rate of false alarms that is bounded for new documents.

    Split conformal risk control (arXiv 2208.02814) with documents as exchangeable units: of n
    documents and the mean share r of their faithful responses that are flagged, the expected share
    in a new document is at most (n * r + 1) / (n + 1), which is kept at ``rate`` or below.
    ``support`` [n] is that of faithful responses. ``None`` with fewer than 1 / rate - 1 documents.
    """
    _, index, counts = np.unique(np.array(document), return_inverse=True, return_counts=True)
    if len(counts) < needed_documents(rate):
        return None
    allowed = rate * (len(counts) + 1) - 1
    order = np.argsort(support, kind="stable")
    ranked = support[order].astype(np.float64)
    ends = tie_ends(ranked)
    flagged = np.cumsum(1 / counts[index[order]])[ends]
    over = np.flatnonzero(flagged > allowed + 1e-9)
    return float(ranked[ends][over[0]]) if len(over) else 1.0


def alarm_bounds(data: Iterable[Faithful], threshold: float, rate: float) -> list[AlarmBound]:
    """Return the bound of a threshold on each data set that it was chosen on for this rate."""
    bounds = []
    for name, support, documents in data:
        _, index, counts = np.unique(documents, return_inverse=True, return_counts=True)
        total = float(((support < threshold) / counts[index]).sum())
        if (n := len(counts)) >= needed_documents(rate):
            bounds.append(AlarmBound(name, n, total / n, (total + 1) / (n + 1)))
    return bounds


def too_small(data: Iterable[Faithful], rate: float | None) -> list[TooFewDocuments]:
    """Return the data sets with fewer documents than a rate needs; none without a rate."""
    if rate is None:
        return []
    needed = needed_documents(rate)
    counts = {faithful.name: len(set(faithful.documents)) for faithful in data}
    return [TooFewDocuments(name, n, needed) for name, n in counts.items() if n < needed]
