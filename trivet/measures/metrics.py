"""From judged rows to figures, each with its interval: the front of everything that is measured.

Measures, each taken wherever its truth is known:

- ``hallucination_auroc``: positive = not adherent, score = 1 - faithfulness.
- ``hallucination_accuracy``, ``_precision``, ``_recall``, ``_f1``: of responses, by the verdict's
  own ``adherent``, that is at the bundle's own threshold.
- ``hallucination_f1_best_threshold``: at the threshold that is best on these very rows, as some
  published figures are; resamples choose again. Never the figure to promise.
- ``span_precision``, ``_recall``, ``_f1``: of unsupported characters, sums over all rows.
- ``relevance_rmse``, ``utilization_rmse``, ``completeness_rmse``: of the example scores.
- ``hallucination_ece``, ``support_ece``, ``relevance_ece``, ``utilization_ece``: expected
  calibration error, 15 bins, of responses, of response sentences and of context sentences. It is
  biased upwards in small samples, and its interval more so.

Intervals are the 2.5th to 97.5th percentile of 1000 resamples of **groups** (source documents). A
row without a verdict is counted in ``failed`` and in no mean. What is undefined is None with the
reason, never NaN. Torch stays outside: the training loop's figures are in `training.validation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from trivet.measures.figures import HEADER, Figure, to_json, to_markdown
from trivet.measures.intervals import Draws, average
from trivet.measures.measured import Measured, draws_of, measured_rows, to_figure
from trivet.measures.predictions import Judged
from trivet.measures.thresholds import (
    ChosenThresholds,
    DevScores,
    best_threshold,
    choose_thresholds,
)

__all__ = [
    "HEADER",
    "PROTOCOLS",
    "ChosenThresholds",
    "DevScores",
    "Figure",
    "Judged",
    "Protocol",
    "best_threshold",
    "choose_thresholds",
    "measure",
    "to_json",
    "to_markdown",
]


@dataclass(frozen=True)
class Protocol:
    """How the sources of one family (``FAMILY/SET``) become one figure.

    Attributes:
        overall: ``mean`` of the sets' figures, or one figure of all rows ``pooled``, or both.
        by_generator: Whether the hallucination and span measures are also taken within the rows of
            each generator, where style alone cannot tell right from wrong.
    """

    overall: Literal["mean", "pooled", "both"]
    by_generator: bool


DEFAULT_PROTOCOL = Protocol(overall="mean", by_generator=False)
PROTOCOLS = {
    "ragbench": DEFAULT_PROTOCOL,
    "ragtruth": Protocol(overall="pooled", by_generator=True),
    "halubench": Protocol(overall="both", by_generator=False),
}


def measure(rows: Iterable[Judged], *, resamples: int = 1000, seed: int = 0) -> list[Figure]:
    """Return every figure that the labels of some rows allow: per source, then per family.

    The order of the rows changes nothing. Two models measured on the same rows with the same seed
    meet the same resamples.

    Args:
        rows: Examples and verdicts, of any mix of sources; failures included.
        resamples: How many resamples make an interval.
        seed: Of the resamples.

    Returns:
        For each family its sources in order of name, each followed by its generators where the
        protocol asks for them; then ``FAMILY/pooled``, ``FAMILY/mean`` or both where the family
        has several sources. Empty where no label is known.

    Raises:
        ValueError: A verdict holds a number that is not finite.
    """
    families: dict[str, dict[str, list[Judged]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        source = row.example.source
        families[source.split("/")[0]][source].append(row)
    figures: list[Figure] = []
    for family, sources in sorted(families.items()):
        protocol = PROTOCOLS.get(family, DEFAULT_PROTOCOL)
        measured: dict[str, dict[str, Measured]] = {}
        for source in sorted(sources):
            draws = draws_of(sources[source], source, resamples, seed)
            measured[source] = measured_rows(sources[source], draws)
            figures += _figures(source, sources[source], draws, measured[source], protocol)
        if len(sources) < 2:
            continue
        if protocol.overall != "mean":
            pooled = [row for source in sorted(sources) for row in sources[source]]
            name = f"{family}/pooled"
            draws = draws_of(pooled, name, resamples, seed)
            figures += _figures(name, pooled, draws, measured_rows(pooled, draws), protocol)
        if protocol.overall != "pooled":
            figures += _means(f"{family}/mean", measured)
    return figures


def _figures(
    source: str,
    rows: Sequence[Judged],
    draws: Draws,
    measured: dict[str, Measured],
    protocol: Protocol,
) -> list[Figure]:
    """Return the figures of a source, and of each of its generators where there are several."""
    figures = [to_figure(source, one) for one in measured.values()]
    generators = sorted({row.example.generator or "unknown" for row in rows})
    if not protocol.by_generator or len(generators) < 2:
        return figures
    for generator in generators:
        positions = np.array(
            [i for i, row in enumerate(rows) if (row.example.generator or "unknown") == generator]
        )
        part = measured_rows([rows[i] for i in positions], draws, positions)
        figures += [
            to_figure(source, one, generator)
            for name, one in part.items()
            if name.startswith(("hallucination_", "span_"))
        ]
    return figures


def _means(name: str, measured: dict[str, dict[str, Measured]]) -> list[Figure]:
    """Return the mean over sets of each measure, its groups resampled within each set."""
    order = dict.fromkeys(measure for one in measured.values() for measure in one)
    figures = []
    for measure_name in order:
        parts = {source: one.get(measure_name) for source, one in measured.items()}
        found = [part for part in parts.values() if part is not None]
        # The mean of `unknown` and `undefined` sets is over the others, and says so.
        left_out = [
            source.split("/", 1)[-1]
            for source, part in parts.items()
            if part is None or part.estimate.value is None
        ]
        estimate = average([part.estimate for part in found])
        interval = estimate.interval()
        low, high = interval or (None, None)
        notes = []
        if estimate.value is None:
            notes.append("undefined in every set")
        elif left_out:
            notes.append(
                f"mean over {len(parts) - len(left_out)} of {len(parts)} sets, undefined in "
                + ", ".join(left_out)
            )
        still = [part for part in found if part.estimate.value is not None and part.groups < 2]
        if still and interval:
            notes.append(f"{len(still)} sets of one group add nothing to the interval")
        positives = [part.sample.positives for part in found if part.sample.positives is not None]
        figures.append(
            Figure(
                measure=measure_name,
                source=name,
                value=estimate.value,
                low=low,
                high=high,
                n=sum(len(part.sample.rows) for part in found),
                positives=sum(positives) if positives else None,
                groups=sum(part.groups for part in found),
                failed=sum(part.sample.failed for part in found),
                note="; ".join(notes) or None,
            )
        )
    return figures
