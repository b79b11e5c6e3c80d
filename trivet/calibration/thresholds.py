"""Thresholds of a bundle whose support was calibrated: chosen anew, or kept in their meaning."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from trivet.bundle.schema import Thresholds
from trivet.calibration.fit import HeadLogits, Map, probabilities
from trivet.calibration.separation import UseThreshold, justified_thresholds, same_share
from trivet.data.labelled.datamodule import Item
from trivet.measures.thresholds import DevScores, threshold_columns
from trivet.model.architecture import Reduction
from trivet.records import DataError, Labels

logger = logging.getLogger(__name__)


def dev_scores(
    items: Sequence[Item], support: HeadLogits, found: Map, faithfulness: Reduction
) -> Iterator[DevScores]:
    """Say of each example what the thresholds need, under a map of the support head's logits."""
    joined = probabilities(support, found, faithfulness)
    tokens, sentences, weakest = (
        part.numpy() for part in (joined.tokens, joined.sentences, joined.weakest)
    )
    first_token = first_sentence = 0
    for place, item in enumerate(items):
        read = item.tokenized
        last_token = first_token + len(read.response)
        last_sentence = first_sentence + len(read.response_sentence_spans)
        yield DevScores(
            example=item.labelled,
            faithfulness=float(weakest[place]) if len(read.response) else None,
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
    """Return what the rows say of each use, and the bundle's thresholds from now on.

    A threshold that is kept on a support whose scale has changed is moved along, so that it flags
    as many of these rows as before.

    Args:
        old: The bundle's until now.
        before: The scores until now.
        after: The scores from now on, of the same examples.
        sources: Prefixes of the sources that choose; all if empty.
        least_precision: Of what is flagged; None for the best F1.

    Raises:
        DataError: No row has such a source.
    """
    prefixes = tuple(sources)
    places = [
        place
        for place, one in enumerate(after)
        if not prefixes or one.example.source.startswith(prefixes)
    ]
    if not places:
        raise DataError(f"thresholds from {', '.join(prefixes)}: no row has such a source")
    choosing = [after[place] for place in places]
    uses = justified_thresholds(threshold_columns(choosing), choosing, least_precision)
    was, now = (
        threshold_columns(_unlabelled([scores[place] for place in places]))
        for scores in (before, after)
    )
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


def _unlabelled(scores: Sequence[DevScores]) -> list[DevScores]:
    """Give every example some labels, so that all count whose scores are compared."""
    labels = Labels(unsupported=(), adherent=True)
    return [replace(one, example=replace(one.example, labels=labels)) for one in scores]
