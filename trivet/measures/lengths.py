"""Measures by input length.

The length is the number of tokens of contexts, question and response, by the bundle's tokenizer.
The buckets are those of Luna (arXiv 2406.00975, table 4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from trivet.data.tokenization import SegmentTokenizer
from trivet.measures.figures import Figure
from trivet.measures.intervals import Estimate
from trivet.measures.metrics import Measured, by_family, draws_of, measured_rows, to_figure
from trivet.measures.predictions import Prediction
from trivet.records import RagExample

BUCKETS = (("0-5k", 5_000), ("5k-16k", 16_000), ("over 16k", float("inf")))
"""Name and largest number of tokens of each bucket, rising."""

BY_LENGTH = (
    "hallucination_auroc",
    "hallucination_accuracy",
    "hallucination_f1",
    "span_f1",
    "relevance_rmse",
    "utilization_rmse",
    "completeness_rmse",
)
"""The measures taken by length."""

_READ_AT_ONCE = 64  # examples tokenized in one batch


def bucket_of(tokens: int) -> str:
    """Return the name of the bucket of a length."""
    return next(name for name, most in BUCKETS if tokens <= most)


def count_tokens(examples: Iterable[RagExample], tokenizer: SegmentTokenizer) -> list[int]:
    """Return the length of each example, in order."""
    counts = []
    waiting = iter(examples)
    while block := list(islice(waiting, _READ_AT_ONCE)):
        texts = [(*example.contexts, example.question, example.response) for example in block]
        segments = iter(
            tokenizer.encode([text for example_texts in texts for text in example_texts])
        )
        counts += [sum(len(next(segments)) for _ in example_texts) for example_texts in texts]
    return counts


def count_buckets(tokens: Iterable[int]) -> dict[str, int]:
    """Return the number of examples in each bucket, empty ones included."""
    counts = Counter(map(bucket_of, tokens))
    return {name: counts[name] for name, _ in BUCKETS}


def measure_by_length(
    rows: Sequence[Prediction], tokens: Sequence[int], *, resamples: int = 1000
) -> list[Figure]:
    """Return the measures of each bucket, and their changes against the shortest bucket.

    A change is relative: -0.1 for a value a tenth below that of the shortest bucket with rows. Its
    interval uses the same resamples for both values.

    Returns:
        For each source by name, then for each family of several sources (``FAMILY/pooled``): the
        figures of each bucket that has rows, followed by their changes (``MEASURE_change``).

    Raises:
        ValueError: There is not one length per row, or a verdict holds a number that is not finite.
    """
    places: dict[str, list[int]] = {}
    for family in by_family(rows):
        places |= family.sources
        if len(family.sources) > 1:
            places[f"{family.name}/pooled"] = family.places(family.sources)
    buckets = [bucket_of(count) for _, count in zip(rows, tokens, strict=True)]
    figures: list[Figure] = []
    for source, here in places.items():
        source_rows = [rows[index] for index in here]
        draws = draws_of(source_rows, source, resamples)
        shortest: tuple[str, dict[str, Measured]] | None = None
        for bucket, _ in BUCKETS:
            positions = np.flatnonzero([buckets[index] == bucket for index in here])
            if not len(positions):
                continue
            measured = measured_rows([source_rows[i] for i in positions], draws, positions)
            kept = {name: measured[name] for name in BY_LENGTH if name in measured}
            figures += [to_figure(source, figure, length=bucket) for figure in kept.values()]
            if shortest is None:
                shortest = bucket, kept
                continue
            figures += [
                _change(source, bucket, figure, shortest[0], shortest[1].get(name))
                for name, figure in kept.items()
            ]
    return figures


def _change(
    source: str, bucket: str, measured: Measured, shortest: str, base: Measured | None
) -> Figure:
    """Return the relative change of a measure against the shortest bucket."""
    value = None
    resampled = np.full_like(measured.estimate.resampled, np.nan)
    if base is not None and base.estimate.value and measured.estimate.value is not None:
        value = measured.estimate.value / base.estimate.value - 1
        under = np.where(base.estimate.resampled > 0, base.estimate.resampled, np.nan)
        resampled = measured.estimate.resampled / under - 1
    low, high = Estimate(value, resampled).interval() or (None, None)
    note = f"share of the value at {shortest}"
    if value is None:
        note = f"undefined: no value here or none above 0 at {shortest}"
    elif low is None:
        note += "; no interval: too few resamples are defined"
    name = f"{measured.sample.measure}_change"
    same = to_figure(source, measured, length=bucket)
    return replace(same, measure=name, value=value, low=low, high=high, note=note)
