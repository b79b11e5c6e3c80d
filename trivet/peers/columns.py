"""Scores of peers as columns over the rows whose verdict is labelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from trivet.errors import DataError
from trivet.labelled.grouping import data_set, digest, document
from trivet.measures.curves import BoolArray, FloatArray, IntArray
from trivet.measures.predictions import marked_characters
from trivet.measures.thresholds import best_threshold
from trivet.peers.peer import PeerScore
from trivet.peers.predictions import Predictions
from trivet.records import LabelledExample

_FOLDS = 5


@dataclass(frozen=True)
class Column:
    """One peer; NaN where unknown. *Shape of each:* [n].

    Attributes:
        name: Name of the peer.
        suspicion: 1 - faithfulness.
        own: 1 if flagged at the peer's own threshold, else 0.
        fitted: 1 if flagged at the fitted threshold, else 0.
        decided: ``own``, or ``fitted`` for a peer without a threshold.
        flips: 1 if a repeat decides otherwise, else 0.
        marked: Unsupported characters that are marked.
        hits: Those of them that are unsupported by the labels.
        gold: Characters that are unsupported by the labels, where the peer marks any.
    """

    name: str
    suspicion: FloatArray
    own: FloatArray
    fitted: FloatArray
    decided: FloatArray
    flips: FloatArray
    marked: FloatArray
    hits: FloatArray
    gold: FloatArray

    def at(self, places: IntArray) -> Column:
        """Return the column of some rows."""
        values = {one.name: getattr(self, one.name)[places] for one in fields(self)[1:]}
        return replace(self, **values)


@dataclass(frozen=True)
class Part:
    """Labelled rows [n], whether each is hallucinated, and the columns of all peers."""

    rows: Sequence[LabelledExample]
    positive: BoolArray
    columns: Sequence[Column]

    def at(self, places: IntArray) -> Part:
        """Return the part with some of the rows."""
        rows = [self.rows[place] for place in places]
        return Part(rows, self.positive[places], [one.at(places) for one in self.columns])

    def split(self, key: Callable[[LabelledExample], str]) -> dict[str, Part]:
        """Return the parts with equal keys, by key."""
        keys = np.array([key(row) for row in self.rows])
        return {str(name): self.at(np.flatnonzero(keys == name)) for name in np.unique(keys)}


def texts(row: LabelledExample) -> tuple[str, tuple[str, ...]]:
    """Return the question and the contexts of a row."""
    return row.example.question, tuple(row.example.contexts)


def read_columns(rows: Sequence[LabelledExample], peers: Mapping[str, Predictions]) -> Part:
    """Return the columns of all peers over the rows whose verdict is labelled.

    Raises:
        DataError: There is no such row.
    """
    known = [place for place, row in enumerate(rows) if row.labels.adherent is not None]
    if not known:
        raise DataError(f"none of the {len(rows)} rows says whether its response is supported")
    kept = [rows[place] for place in known]
    columns = [
        _column(name, kept, [[scores[place] for place in known] for scores in found.repeats])
        for name, found in peers.items()
    ]
    return Part(kept, np.array([not row.labels.adherent for row in kept]), columns)


def _column(
    name: str, rows: Sequence[LabelledExample], repeats: Sequence[Sequence[PeerScore]]
) -> Column:
    faithfulness = np.array([[one.faithfulness for one in each] for each in repeats], dtype=float)
    own = np.array([[one.hallucinated for one in each] for each in repeats], dtype=float)
    threshold = _cross_fitted(faithfulness[0], rows)
    fitted = np.where(np.isnan(faithfulness + threshold), np.nan, faithfulness < threshold)
    decided = fitted if np.isnan(own).all() else own
    flips = np.where(np.isnan(decided).any(axis=0), np.nan, (decided != decided[0]).any(axis=0))
    spans = np.full((3, len(rows)), np.nan)
    for place, (row, one) in enumerate(zip(rows, repeats[0], strict=True)):
        if one.spans is not None and row.labels.unsupported is not None:
            size = len(row.example.response)
            marked = marked_characters(size, one.spans)
            gold = marked_characters(size, row.labels.unsupported)
            spans[:, place] = marked.sum(), (gold & marked).sum(), gold.sum()
    return Column(name, 1 - faithfulness[0], own[0], fitted[0], decided[0], flips, *spans)


def _cross_fitted(faithfulness: FloatArray, rows: Sequence[LabelledExample]) -> FloatArray:
    """Return for each row the threshold of best F1 on the other documents of its data set."""
    fold = np.array([int(digest(document(row)), 16) % _FOLDS for row in rows])
    families = np.array([data_set(row) for row in rows])
    wrong = np.array([not row.labels.adherent for row in rows], dtype=float)
    thresholds = np.full(len(rows), np.nan)
    for name in np.unique(families):
        for number in range(_FOLDS):
            here, held_out = families == name, fold == number
            others = here & ~held_out & np.isfinite(faithfulness)
            if (best := best_threshold(faithfulness[others], wrong[others])) is not None:
                thresholds[here & held_out] = best.threshold
    return thresholds
