"""Page of ``trivet test``: figures and curves of each source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trivet.labelled.source_report import SourceReport
from trivet.measures.cascade import CascadeStep
from trivet.measures.curves import reliability_bins, roc_points
from trivet.measures.figures import HEADER, Figure
from trivet.measures.metrics import by_family
from trivet.measures.predictions import Prediction, scored_units
from trivet.records import FailedEvaluation
from trivet.report.check_tables import CASCADE_HEADER, CASCADE_NOTE, cascade_cells
from trivet.report.pages import Section, render_page, shown_text
from trivet.report.plots import reliability_svg, roc_svg

_MAX_CURVES = 5  # in one plot


def render_measures(
    rows: Sequence[Prediction],
    figures: Sequence[Figure],
    report: SourceReport,
    about: Mapping[str, str],
    lengths: Mapping[str, int] | None,
    cascade: Sequence[CascadeStep] = (),
) -> str:
    """Return the page of all predictions, their figures and the number of rows by length.

    With a cascade, its table comes first.
    """
    sections = [_summary(rows, report, about)]
    if cascade:
        title = "How much can be left to Trivet"
        sections.append(Section(title, [CASCADE_NOTE], CASCADE_HEADER, cascade_cells(cascade)))
    for source in dict.fromkeys(figure.source for figure in figures):
        plain = [
            figure
            for figure in figures
            if figure.source == source and not (figure.length or figure.rows)
        ]
        if plain:
            sections.append(Section(source, (), HEADER[1:], _cells(plain), _curves(rows, source)))
    if free := [figure.to_cells() for figure in figures if figure.rows]:
        paragraph = "Rows that share no passage or question with the training rows."
        sections.append(Section("Leak-free rows", [paragraph], HEADER, free))
    if lengths is not None:
        counts = ", ".join(f"{name}: {count}" for name, count in lengths.items())
        paragraph = f"Rows by tokens of contexts, question and response: {counts}."
        cells = [figure.to_cells() for figure in figures if figure.length]
        sections.append(Section("By length", [paragraph], HEADER, cells))
    return render_page("Scores of the bundle", sections)


def _summary(rows: Sequence[Prediction], report: SourceReport, about: Mapping[str, str]) -> Section:
    failures = [row.evaluation for row in rows if isinstance(row.evaluation, FailedEvaluation)]
    paragraphs = [f"{name.capitalize()}: {value}." for name, value in about.items()]
    paragraphs.append(
        f"{report.rows} rows read, {report.outside_split} of them outside the split; "
        f"{len(rows) - len(failures)} evaluated, {len(failures)} failed. Intervals are 95 %, by a "
        "bootstrap over source documents."
    )
    cells = [
        (what, reason, str(count), ", ".join(report.places.get(reason, ())))
        for what, reasons in (("dropped", report.dropped), ("noted", report.noted))
        for reason, count in reasons.items()
    ]
    for code in dict.fromkeys(failure.code for failure in failures):
        same = [failure for failure in failures if failure.code == code]
        cells.append(("failed", code, str(len(same)), f"{same[0].id}: {same[0].message}"))
    return Section("Evaluated rows", paragraphs, ("", "reason", "rows", "first at"), cells)


def _cells(figures: Iterable[Figure]) -> list[tuple[str, ...]]:
    """Return the cells without the source, with the generator after the measure."""
    return [
        (", ".join(filter(None, (figure.measure, figure.generator))), *figure.to_cells()[2:])
        for figure in figures
    ]


def _curves(rows: Sequence[Prediction], source: str) -> list[str]:
    """Draw the ROC curves of hallucination, and the reliability of each kind of prediction."""
    places: dict[str, list[int]] = {}
    for family in by_family(rows):
        mean = {f"{family.name}/mean": family.places(family.sources)}
        places |= {**family.sources, **family.pooled(), **mean}
    chosen = [rows[index] for index in places.get(source, [])]
    curves = {}
    for name in sorted({row.example.source for row in chosen}):
        units = scored_units([row for row in chosen if row.example.source == name])["hallucination"]
        if units.positive.any() and not units.positive.all():
            curves[shown_text(name)] = roc_points(units.probs, units.positive)
    drawings = []
    for number in range(0, len(curves), _MAX_CURVES):
        some = dict(list(curves.items())[number : number + _MAX_CURVES])
        drawings.append(roc_svg(some, "hallucination: ROC, with its area"))
    if source.partition("/")[2] == "mean":  # over sets, without rows
        return drawings
    for name, units in scored_units(chosen).items():
        if len(units.probs):
            bins = reliability_bins(units.probs, units.positive)
            drawings.append(reliability_svg(bins, f"{name}: reliability"))
    return drawings
