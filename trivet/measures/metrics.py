"""Figures of predictions, each with its interval.

Measures, each computed where its truth is known:

- ``hallucination_auroc``: positive = not adherent, score = 1 - faithfulness.
- ``word_counting_auroc``: positive = not adherent, score = share of the content words of the
  response that no context has; the same for every model.
- ``hallucination_fpr_at_recall_90``, ``_95``: rate of false alarms, the share of the adherent
  responses that are flagged, at the threshold that finds 90 or 95 % of the others on these very
  rows; resamples choose again.
- ``hallucination_accuracy``, ``_precision``, ``_recall``, ``_f1``: responses, by the verdict's
  ``adherent``, that is at the thresholds of the bundle.
- ``hallucination_f1_best_threshold``: at the threshold that is best on these very rows; resamples
  choose again. For comparison with published figures only.
- ``hallucination_precision_common_threshold``, ``_recall_``, ``_f1_``: of RAGTruth's tasks, at the
  one threshold that has the best F1 on all tasks together (Luna, arXiv 2406.00975, table 2). It
  stays the same in resamples. For comparison with published figures only.
- ``span_precision``, ``_recall``, ``_f1``: unsupported characters, summed over all rows.
- ``relevance_rmse``, ``utilization_rmse``, ``completeness_rmse``: example scores.
- ``hallucination_ece``, ``support_ece``, ``relevance_ece``, ``utilization_ece``: expected
  calibration error, 15 bins, of responses, response sentences and context sentences. It is biased
  upwards in small samples.

Intervals are the 2.5th to 97.5th percentile of 1000 resamples of groups (source documents). A row
without a verdict counts as ``failed`` and in no mean. Undefined values are None with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from trivet.labelled.grouping import data_set
from trivet.measures.curves import IntArray
from trivet.measures.figures import Figure
from trivet.measures.intervals import DEFINED_SHARE, Draws, Estimate, average
from trivet.measures.predictions import Prediction
from trivet.measures.samples import Sample, samples, samples_at_common_threshold


@dataclass(frozen=True)
class Protocol:
    """Rules for the figures of a family of sources (``FAMILY/SET``)."""

    overall: Literal["mean", "pooled", "both"]  # mean of the sets' figures, or of all rows
    by_generator: bool = False  # also, where style alone cannot tell right from wrong
    common_threshold: bool = False  # also at one threshold for all sets
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)  # sets that are also pooled


# Verticals of RAGBench (arXiv 2407.11005, table 1); the legal one is cuad alone.
VERTICALS = {
    "biomedical": ("covidqa", "pubmedqa"),
    "customer-support": ("delucionqa", "emanual", "techqa"),
    "finance": ("finqa", "tatqa"),
    "general": ("expertqa", "hagrid", "hotpotqa", "msmarco"),
}
_DEFAULT_PROTOCOL = Protocol("mean")
PROTOCOLS = {
    "ragbench": Protocol("both", parts=VERTICALS),
    "ragtruth": Protocol("pooled", by_generator=True, common_threshold=True),
    "halubench": Protocol("both"),
}


@dataclass(frozen=True)
class Family:
    """The places of the rows of a data set (``FAMILY``) among others."""

    name: str
    sources: Mapping[str, list[int]]  # of each source (``FAMILY/SET``), by name
    protocol: Protocol

    @property
    def has_mean(self) -> bool:
        """Whether the mean over the sources is a figure."""
        return self.protocol.overall != "pooled" and len(self.sources) > 1

    def pooled(self) -> dict[str, list[int]]:
        """Return the places of the rows of each figure of several sources that are pooled."""
        pools = {
            f"{self.name}/{part}/pooled": [
                source for source in self.sources if source.split("/", 1)[-1] in sets
            ]
            for part, sets in self.protocol.parts.items()
        }
        if self.protocol.overall != "mean":
            pools[f"{self.name}/pooled"] = list(self.sources)
        return {name: self.places(sources) for name, sources in pools.items() if len(sources) > 1}

    def places(self, sources: Iterable[str]) -> list[int]:
        """Return the places of the rows of some sources."""
        return [index for source in sources for index in self.sources[source]]


def by_family(rows: Sequence[Prediction]) -> list[Family]:
    """Return the data sets of rows in order of their names."""
    by_name: dict[str, dict[str, list[int]]] = {}
    examples = [row.example for row in rows]
    for index in sorted(range(len(rows)), key=lambda index: examples[index].source):
        sources = by_name.setdefault(data_set(examples[index]), {})
        sources.setdefault(examples[index].source, []).append(index)
    return [
        Family(name, sources, PROTOCOLS.get(name, _DEFAULT_PROTOCOL))
        for name, sources in sorted(by_name.items())
    ]


@dataclass(frozen=True)
class Measured:
    """A sample, its estimate and its number of groups."""

    sample: Sample
    estimate: Estimate
    groups: int


def measure(rows: Iterable[Prediction], *, resamples: int = 1000) -> list[Figure]:
    """Return all figures that the labels allow: per source, then per family.

    Rows may be of any mix of sources and in any order, failures included. The resamples of the same
    rows are the same.

    Returns:
        For each family its sources by name, each followed by its generators if the protocol asks
        for them; then ``FAMILY/PART/pooled`` for each part of several sources, and
        ``FAMILY/pooled``, ``FAMILY/mean`` or both if there are several sources.

    Raises:
        ValueError: A verdict holds a number that is not finite.
    """
    rows = list(rows)
    figures: list[Figure] = []
    for family in by_family(rows):
        measured: dict[str, dict[str, Measured]] = {}
        every = [rows[index] for index in family.places(family.sources)]
        for name, places in {**family.sources, **family.pooled()}.items():
            here = [rows[index] for index in places]
            draws = draws_of(here, name, resamples)
            measured[name] = measured_rows(here, draws)
            if family.protocol.common_threshold:
                at_common = samples_at_common_threshold(here, every)
                measured[name] |= measured_rows(here, draws, chosen=at_common)
            figures += _figures(name, here, draws, measured[name], family.protocol)
        if family.has_mean:
            sets = {source: measured[source] for source in family.sources}
            figures += means(f"{family.name}/mean", sets)
    return figures


def _figures(
    source: str,
    rows: Sequence[Prediction],
    draws: Draws,
    measured: dict[str, Measured],
    protocol: Protocol,
) -> list[Figure]:
    """Return the figures of a source, and of each of its generators where there are several."""
    figures = [to_figure(source, measure_) for measure_ in measured.values()]
    generators = sorted({row.example.generator or "unknown" for row in rows})
    if not protocol.by_generator or len(generators) < 2:
        return figures
    for generator in generators:
        positions = np.array(
            [i for i, row in enumerate(rows) if (row.example.generator or "unknown") == generator]
        )
        part = measured_rows([rows[i] for i in positions], draws, positions)
        figures += [
            to_figure(source, measure_, generator)
            for name, measure_ in part.items()
            if name.startswith(("hallucination_", "span_"))
        ]
    return figures


def means(name: str, measured: Mapping[str, Mapping[str, Measured]]) -> list[Figure]:
    """Return the mean over sets of each measure, its groups resampled within each set."""
    order = dict.fromkeys(measure for by_measure in measured.values() for measure in by_measure)
    figures = []
    for measure_name in order:
        parts = {source: by_measure.get(measure_name) for source, by_measure in measured.items()}
        present = [part for part in parts.values() if part is not None]
        left_out = [
            source.split("/", 1)[-1]
            for source, part in parts.items()
            if part is None or part.estimate.value is None
        ]
        estimate = average([part.estimate for part in present])
        low, high = estimate.interval() or (None, None)
        notes = []
        if estimate.value is None:
            notes.append("undefined in every set")
        elif left_out:
            notes.append(
                f"mean over {len(parts) - len(left_out)} of {len(parts)} sets, undefined in "
                + ", ".join(left_out)
            )
        still = [part for part in present if part.estimate.value is not None and part.groups < 2]
        if still and low is not None:
            notes.append(f"{len(still)} sets of one group add nothing to the interval")
        positives = [part.sample.positives for part in present if part.sample.positives is not None]
        figures.append(
            Figure(
                measure=measure_name,
                source=name,
                value=estimate.value,
                low=low,
                high=high,
                n=sum(len(part.sample.rows) for part in present),
                positives=sum(positives) if positives else None,
                groups=sum(part.groups for part in present),
                failed=sum(part.sample.failed for part in present),
                note="; ".join(notes) or None,
            )
        )
    return figures


def draws_of(rows: Sequence[Prediction], name: str, resamples: int) -> Draws:
    """Return resamples of the groups of some rows."""
    return Draws([row.example.group for row in rows], name, resamples)


def measured_rows(
    rows: Sequence[Prediction],
    draws: Draws,
    positions: IntArray | None = None,
    chosen: Sequence[Sample] | None = None,
) -> dict[str, Measured]:
    """Return measures of some rows by name: of the chosen samples, or all that the labels allow.

    The resamples may be of a list that has the rows at the given positions [n].
    """
    positions = np.arange(len(rows)) if positions is None else positions
    measured = {}
    for sample in samples(rows) if chosen is None else chosen:
        at = positions[sample.rows]
        estimate = draws.estimate(sample.statistic, at)
        measured[sample.measure] = Measured(sample, estimate, draws.count(at))
    return measured


def to_figure(
    source: str, measured: Measured, generator: str | None = None, length: str | None = None
) -> Figure:
    """Return a measure as a figure; the note explains what is undefined."""
    sample, estimate = measured.sample, measured.estimate
    interval = estimate.interval()
    notes = [sample.note] if sample.note else []
    if estimate.value is None:
        reason = sample.undefined or "it has no value"
        notes = ["undefined: " + (reason if len(sample.rows) else "every row failed")]
    elif measured.groups < 2:
        notes.append("no interval: all rows come from one group")
    elif interval is None:
        notes.append(
            f"no interval: defined in {estimate.defined_share():.0%} of the resamples, "
            f"less than {DEFINED_SHARE:.0%}"
        )
    low, high = interval or (None, None)
    return Figure(
        measure=sample.measure,
        source=source,
        value=estimate.value,
        low=low,
        high=high,
        n=len(sample.rows),
        positives=sample.positives,
        groups=measured.groups,
        failed=sample.failed,
        note="; ".join(notes) or None,
        generator=generator,
        length=length,
    )
