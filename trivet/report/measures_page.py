"""What ``trivet test`` found as a page: the figures of each source, with its curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trivet.data.labelled.source_report import SourceReport
from trivet.measures.curves import reliability_bins, roc_points
from trivet.measures.figures import HEADER, Figure
from trivet.measures.predictions import Judged, judged_units
from trivet.records import FailedEvaluation
from trivet.report.pages import Section, render_page
from trivet.report.plots import reliability_svg, roc_svg

_CURVES_TOGETHER = 5  # ROC curves in one plot; more cannot be told apart


def render_measures(
    rows: Sequence[Judged],
    figures: Sequence[Figure],
    report: SourceReport,
    about: Mapping[str, str],
    lengths: Mapping[str, int] | None = None,
) -> str:
    """Return the page.

    Args:
        rows: What was judged.
        figures: Figures of `trivet.measures.metrics` and, by length, `trivet.measures.lengths`.
        report: What was read and what was left out.
        about: What to say of the run: bundle, engine, data, split.
        lengths: How many rows fall into each length.
    """
    sections = [_summary(rows, report, about)]
    for source in dict.fromkeys(figure.source for figure in figures):
        own = [figure for figure in figures if figure.source == source and not figure.length]
        if own:
            sections.append(
                Section(source, header=HEADER[1:], rows=_cells(own), svgs=_curves(rows, source))
            )
    if lengths is not None:
        counts = ", ".join(f"{name}: {count}" for name, count in lengths.items())
        by_length = [figure for figure in figures if figure.length]
        told = f"Rows by tokens of contexts, question and response: {counts}."
        sections.append(
            Section("By length", [told], HEADER, [figure.to_cells() for figure in by_length])
        )
    return render_page("What the bundle scored", sections)


def _summary(rows: Sequence[Judged], report: SourceReport, about: Mapping[str, str]) -> Section:
    failures = [row.evaluation for row in rows if isinstance(row.evaluation, FailedEvaluation)]
    told = [f"{name.capitalize()}: {value}." for name, value in about.items()]
    told.append(
        f"{report.rows} rows read, {report.outside_split} of them outside the split; "
        f"{len(rows) - len(failures)} judged, {len(failures)} failed. Intervals are 95 %, by a "
        "bootstrap over source documents."
    )
    lost = [
        *(("dropped", reason, count) for reason, count in report.dropped.items()),
        *(("noted", kind, count) for kind, count in report.noted.items()),
    ]
    cells = [
        (what, reason, str(count), ", ".join(report.places.get(reason, ())))
        for what, reason, count in lost
    ]
    codes = dict.fromkeys(failure.code for failure in failures)
    for code in codes:
        same = [failure for failure in failures if failure.code == code]
        cells.append(("failed", code, str(len(same)), f"{same[0].id}: {same[0].message}"))
    return Section("What was measured", told, ("", "what", "rows", "first at"), cells)


def _cells(figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    """Return the cells without the source; a generator stands beside the measure."""
    return [
        (", ".join(filter(None, (figure.measure, figure.generator))), *figure.to_cells()[2:])
        for figure in figures
    ]


def _curves(rows: Sequence[Judged], source: str) -> list[str]:
    """Draw the reliability of each judgement, and the ROC of responses; none without truths."""
    family, _, part = source.partition("/")
    if part in ("pooled", "mean"):
        sources = sorted({one.example.source for one in rows if _of(one, family)})
        own = [row for row in rows if _of(row, family)]
    else:
        sources = [source]
        own = [row for row in rows if row.example.source == source]
    curves = {}
    for name in sources:
        units = judged_units([row for row in own if row.example.source == name])["hallucination"]
        if units.positive.any() and not units.positive.all():
            curves[_printable(name)] = roc_points(units.probs, units.positive)
    drawings = []
    for number in range(0, len(curves), _CURVES_TOGETHER):
        some = dict(list(curves.items())[number : number + _CURVES_TOGETHER])
        drawings.append(roc_svg(some, "hallucination: ROC, with its area"))
    if part == "mean":  # the mean is over sets: no rows of its own
        return drawings
    for name, units in judged_units(own).items():
        if len(units.probs):
            bins = reliability_bins(units.probs, units.positive)
            drawings.append(reliability_svg(bins, f"{name}: reliability"))
    return drawings


def _of(row: Judged, family: str) -> bool:
    return row.example.source.split("/")[0] == family


def _printable(name: str) -> str:
    """Replace what XML cannot hold."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
