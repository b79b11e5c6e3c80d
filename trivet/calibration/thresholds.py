"""Thresholds of a calibrated bundle: chosen again, or kept if the rows do not justify a new one.

A new threshold needs an AUROC above .5 with confidence, and the requested precision.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trivet.bundle.schema import Thresholds
from trivet.calibration.fit import HeadLogits, Map, probabilities
from trivet.data.labelled.datamodule import Item
from trivet.measures.intervals import Draws, auroc
from trivet.measures.thresholds import (
    Column,
    DevScores,
    best_threshold,
    precise_threshold,
    threshold_columns,
)
from trivet.model.architecture import Reduction
from trivet.records import DataError, Labels

logger = logging.getLogger(__name__)

_RESAMPLES = 500
_UNITS = {"adherence": "responses", "sentence": "sentences", "span": "words"}


@dataclass(frozen=True)
class UseThreshold:
    """The threshold of one use, and its quality on the rows that chose it."""

    use: str  # adherence, sentence or span
    threshold: float | None  # None if none is justified and the bundle's is kept
    why_not: str
    precision: float | None  # unsupported share of what is flagged (characters, for spans)
    recall: float | None
    f1: float | None
    flagged: int  # responses, sentences or words
    n: int
    auroc: float | None  # of support; None with one class
    low: float | None  # lower end of its 95 % interval by groups
    high: float | None

    def words(self) -> str:
        """Return the outcome in one sentence."""
        if self.threshold is None:
            return f"{self.use}: no clean separation, {self.why_not}; the threshold is kept"
        return (
            f"{self.use}: threshold {self.threshold:.4f}, precision {self.precision:.3f}, recall "
            f"{self.recall:.3f}, F1 {self.f1:.3f}, {self.flagged} of {self.n} "
            f"{_UNITS[self.use]} flagged"
        )


def justified_thresholds(
    columns: Mapping[str, Column], scores: Sequence[DevScores], least_precision: float | None
) -> list[UseThreshold]:
    """Choose a threshold for each use, or give the reason for none."""
    groups = [f"{one.example.source}\n{one.example.group}" for one in scores]
    return [_justified(use, column, groups, least_precision) for use, column in columns.items()]


def _justified(
    use: str, column: Column, groups: Sequence[str], least_precision: float | None
) -> UseThreshold:
    support, unsupported, size = column.support, column.unsupported, column.size
    n, wrong = len(support), unsupported > 0
    if not wrong.any() or wrong.all():
        why = f"the labels of {column.examples} examples hold one class or none"
        return UseThreshold(use, None, why, None, None, None, 0, n, None, None, None)
    draws = Draws([groups[place] for place in column.example], use, _RESAMPLES, seed=0)
    area = draws.estimate(auroc(-support, wrong), np.arange(n))
    interval = area.interval()
    low, high = interval or (None, None)
    if least_precision is None:
        found = best_threshold(support, unsupported, size)
    else:
        found = precise_threshold(support, unsupported, least_precision, size)
    why = ""
    if interval is None:
        why = f"AUROC {area.value:.3f} has no interval: too few groups"
    elif interval[0] <= 0.5:
        why = f"AUROC {area.value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}] includes .5 or less"
    elif found is None:
        why = "nothing can be flagged"
        if least_precision is not None:
            why = f"no threshold has a precision of {least_precision:g}"
    if why or found is None:
        return UseThreshold(use, None, why, None, None, None, 0, n, area.value, low, high)
    flagged = support < found.threshold
    hits, amount = unsupported[flagged].sum(), size[flagged].sum()
    precision, recall = float(hits / amount), float(hits / unsupported.sum())
    quality = (precision, recall, found.f1, int(flagged.sum()), n, area.value, low, high)
    return UseThreshold(use, found.threshold, "", *quality)


def same_share(before: Column, threshold: float, after: Column) -> float:
    """Return the threshold that flags as many items as another did before a calibration."""
    flagged = int((before.support < threshold).sum())
    ranked = np.sort(after.support)
    if not flagged:
        return float(min(threshold, ranked[0])) if len(ranked) else threshold
    above = ranked[flagged] if flagged < len(ranked) else 1.0
    middle = (ranked[flagged - 1] + above) / 2
    return float(middle if middle > ranked[flagged - 1] else above)


def dev_scores(
    items: Sequence[Item], support: HeadLogits, found: Map, faithfulness: Reduction
) -> Iterator[DevScores]:
    """Return each example's scores under a map of the support head's logits."""
    joined = probabilities(support, found, faithfulness)
    tokens, sentences = joined.tokens.numpy(), joined.sentences.numpy()
    first_token = first_sentence = 0
    for place, item in enumerate(items):
        read = item.tokenized
        last_token = first_token + len(read.response)
        last_sentence = first_sentence + len(read.response_sentence_spans)
        yield DevScores(
            example=item.labelled,
            faithfulness=float(joined.weakest[place]) if len(read.response) else None,
            sentence_spans=read.response_sentence_spans,
            sentence_support=sentences[first_sentence:last_sentence],
            token_offsets=read.response.offsets,
            token_support=tokens[first_token:last_token],
        )
        first_token, first_sentence = last_token, last_sentence


def choose_or_keep(
    old: Thresholds,
    before: Sequence[DevScores],
    after: Sequence[DevScores],
    sources: Sequence[str],
    least_precision: float | None,
) -> tuple[tuple[UseThreshold, ...], Thresholds]:
    """Return the thresholds that the rows justify, and the new thresholds of the bundle.

    A kept threshold is moved with a changed support, so that it flags as many rows as before.
    ``sources`` are the prefixes of those that choose; all if empty.

    Raises:
        DataError: No row has such a source.
    """
    prefixes = tuple(sources) or ("",)
    places = [i for i, one in enumerate(after) if one.example.source.startswith(prefixes)]
    if not places:
        raise DataError(f"thresholds from {', '.join(prefixes)}: no row has such a source")
    choosing = [after[place] for place in places]
    uses = justified_thresholds(threshold_columns(choosing), choosing, least_precision)
    was, now = (_every_column([scores[i] for i in places]) for scores in (before, after))
    found = {}
    for use in uses:
        value: float = getattr(old, use.use)
        if use.threshold is not None:
            value = use.threshold
        elif not np.array_equal(was[use.use].support, now[use.use].support):
            value = same_share(was[use.use], value, now[use.use])
        found[use.use] = value
        logger.info("%s", use.words())
    return tuple(uses), Thresholds(**found)


def _every_column(scores: Sequence[DevScores]) -> dict[str, Column]:
    """Return the columns of all scores, as if every example had labels."""
    labels = Labels(unsupported=(), adherent=True)
    return threshold_columns(
        replace(one, example=replace(one.example, labels=labels)) for one in scores
    )
