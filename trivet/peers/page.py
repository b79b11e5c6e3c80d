"""The comparison as Markdown, as JSON and as a self-contained page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trivet.labelled.grouping import data_set
from trivet.measures.curves import roc_points
from trivet.measures.figures import Figure, to_json
from trivet.peers.columns import Part
from trivet.peers.predictions import Predictions
from trivet.records import LabelledExample
from trivet.report.pages import Section, render, render_markdown, with_interval
from trivet.report.plots import roc_svg, scatter_svg

_SHOWN = 30  # rows on which peers disagree
_CURVES = 5  # in one plot, as it has five colours
_ACCURACY = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "precision_at_recall_90": "precision at recall .9",
    "calibration_error": "calibration error",
    "kappa_with_labels": "kappa with labels",
    "kendall_tau": "tau over generators",
    "span_f1": "span F1",
}
_THRESHOLD = {
    "f1": "F1",
    "balanced_accuracy": "balanced accuracy",
    "true_positive_rate": "true positives",
    "true_negative_rate": "true negatives",
}
_FITTED = {f"{measure}_fitted": words for measure, words in _THRESHOLD.items()}
_DECIDED = {measure: f"own {words}" for measure, words in _THRESHOLD.items()}
_DECIDED |= {measure: f"fitted {words}" for measure, words in _FITTED.items()}
_COST = {
    "seconds_p50": "seconds, p50",
    "seconds_p95": "seconds, p95",
    "calls": "calls a row",
    "prompt_tokens": "tokens in",
    "completion_tokens": "tokens out",
    "dollars_per_1000_rows": "dollars for 1,000 rows",
    "failed": "share failed",
    "flips": "flips over repeats",
}
_BY_SOURCE = {"auroc": "AUROC", "balanced_accuracy_fitted": "fitted balanced accuracy"}
_READING = (
    "Positive is a hallucinated response. Brackets hold 95 % intervals by a bootstrap over source "
    "documents. A row that a peer did not score counts as failed and in no measure of that peer; "
    "n is the number of rows that it scored.",
    "The fitted threshold has the best F1 on the other documents of the same data set (five "
    "folds); a dash under the own threshold means that the peer has none. A dash elsewhere means "
    "unknown, never 0.",
)


@dataclass(frozen=True)
class Compared:
    """A comparison: command line, rows, predictions, columns and figures."""

    command: str
    rows: int
    peers: Mapping[str, Predictions]
    part: Part
    figures: Sequence[Figure]


def write_comparison(found: Compared, folder: Path) -> str:
    """Write ``comparison.md``, ``.json`` and ``.html``; return the Markdown."""
    title = f"{len(found.peers)} judges on {found.rows} rows"
    sections = [section for section in _sections(found) if section.rows]
    text = render_markdown(title, sections)
    page = render("peers.html", title=title, sections=sections, rows=_disagreements(found.part))
    about = {name: vars(one.header) for name, one in found.peers.items()}
    record = to_json(found.figures, command=found.command, rows=found.rows, peers=about)
    for ending, content in (("md", text), ("json", record + "\n"), ("html", page)):
        path = folder / f"comparison.{ending}"
        path.write_text(content, encoding="utf-8", errors="backslashreplace")
    return text


def _sections(found: Compared) -> Iterator[Section]:
    rows = [[name, one.header.about, one.header.started] for name, one in found.peers.items()]
    header = ("peer", "what it is", "started")
    texts = [*_READING, *_warnings(found), f"Command: {found.command}"]
    yield Section("Peers", texts, header, rows)
    plain = found.figures
    names = list(found.peers)
    wholes = []
    for name, own in found.part.split(data_set).items():
        sources = [*own.split(lambda row: row.source)]
        wholes += sources if len(sources) == 1 else [f"{name}/mean", f"{name}/pooled"]
    for source in wholes:
        for part in (None, "scored by all"):
            if figures := [f for f in plain if f.source == source and f.rows == part]:
                title = ", ".join(filter(None, (source, part)))
                drawings = [] if part or source.endswith("/mean") else _curves(found.part, source)
                yield _table(title, figures, names, _ACCURACY, drawings)
                yield _table(f"{title}: at the own threshold", figures, names, _THRESHOLD)
                yield _table(f"{title}: at the fitted threshold", figures, names, _FITTED)
                for words, columns in (
                    ("on the same rows", _ACCURACY),
                    ("at thresholds", _DECIDED),
                ):
                    changes = {f"{measure}_difference": each for measure, each in columns.items()}
                    whole = f"{title}: less {names[0]}, {words}"
                    yield _table(whole, figures, names, changes, form="+z.3f")
        yield from _agreement(source, [f for f in plain if f.source == source], names)
    costs = [f for f in plain if f.source in ("all rows", "labelled rows")]
    yield _table(
        "Costs and failures",
        costs,
        names,
        _COST,
        _plots([f for f in plain if f.source in wholes and not f.rows], costs),
        [*_failures(found.peers)],
        form=".3g",
    )
    slices: dict[str, list[Figure]] = {}
    for figure in found.figures:
        if figure.measure in _BY_SOURCE and figure.source not in wholes:
            slices.setdefault(figure.source, []).append(figure)
    rows = [
        [name, words, str(_n(some)), *_cells(some, names, measure)]
        for name, some in slices.items()
        for measure, words in _BY_SOURCE.items()
    ]
    yield Section("By source", (), ("rows", "measure", "n", *names), rows)


def _warnings(found: Compared) -> Iterator[str]:
    """Yield what the rows do not let the measures say."""
    labelled = len(found.part.rows)
    if labelled < found.rows:
        yield f"{found.rows - labelled} rows have no verdict label: they count in the costs alone."
    if (wrong := int(found.part.positive.sum())) in (0, labelled):
        kind = "hallucinated" if wrong else "supported"
        yield f"All {labelled} labelled rows are {kind}: most measures need both kinds."


def _failures(peers: Mapping[str, Predictions]) -> Iterator[str]:
    """Yield how many scores of a peer failed for each reason, over all repeats."""
    for name, found in peers.items():
        scores = [score for repeat in found.repeats for score in repeat]
        for why, count in Counter(score.failed for score in scores if score.failed).items():
            yield f"{name}: {count} of {len(scores)} scores failed as {why}."


def _n(figures: Sequence[Figure]) -> int:
    return max(one.n for one in figures)


def _cells(figures: Sequence[Figure], judges: Sequence[str], measure: str) -> list[str]:
    found = {one.judge: one for one in figures if one.measure == measure}
    return [_cell(found.get(judge)) for judge in judges]


def _cell(figure: Figure | None, form: str = "z.3f") -> str:
    if figure is None:
        return "-"
    form = form if abs(figure.value or 0) < 100 else ",.0f"
    return with_interval(figure.value, figure.low, figure.high, form)


def _table(
    title: str,
    figures: Sequence[Figure],
    names: Sequence[str],
    columns: Mapping[str, str],
    drawings: Sequence[str] = (),
    notes: Sequence[str] = (),
    form: str = "z.3f",
) -> Section:
    """Return a table with a line for each peer that has a figure, and the notes of the figures."""
    found = {(one.judge, one.measure): one for one in figures}
    kept = [m for m in columns if any((name, m) in found for name in names)]
    rows = []
    for name in names:
        if own := [found[name, m] for m in kept if (name, m) in found]:
            positives = own[0].positives
            counts = str(_n(own)), "-" if positives is None else str(positives)
            rows.append([name, *counts, *(_cell(found.get((name, m)), form) for m in kept)])
    header = ("peer", "n", "hallucinated", *(columns[m] for m in kept))
    return Section(title, [*notes, *_remarks(found, names, columns)], header, rows, drawings)


def _remarks(
    found: Mapping[tuple[str | None, str], Figure], names: Sequence[str], columns: Mapping[str, str]
) -> Iterator[str]:
    """Yield each note of figures once, with the measures and the peers that it is about."""
    peers: dict[tuple[str, str], list[str]] = {}
    for name in names:
        measures: dict[str, list[str]] = {}
        for measure, words in columns.items():
            if (one := found.get((name, measure))) is not None and one.note:
                measures.setdefault(one.note, []).append(words)
        for note, own in measures.items():
            peers.setdefault((note, ", ".join(own)), []).append(name)
    for (note, about), own in peers.items():
        yield f"{about} of {', '.join(own)}: {note}."


def _agreement(source: str, figures: Sequence[Figure], names: Sequence[str]) -> Iterator[Section]:
    for measure, title in (("kappa", "kappa"), ("flagged_overlap", "overlap of flagged rows")):
        if any(one.measure == measure for one in figures):
            rows = [
                [name, *_cells(figures, [f"{name} and {other}" for other in names[1:]], measure)]
                for name in names[:-1]
            ]
            yield Section(f"{source}: {title}", (), ("peer", *names[1:]), rows)


def _curves(part: Part, source: str) -> list[str]:
    own = part.split(data_set)[source.split("/")[0]]
    curves = {}
    for column in own.columns:
        scored = np.isfinite(column.suspicion)
        positive = own.positive[scored]
        if positive.any() and not positive.all():
            curves[column.name] = roc_points(column.suspicion[scored], positive)
    names = list(curves)
    return [
        roc_svg({name: curves[name] for name in names[at : at + _CURVES]}, f"ROC, {source}")
        for at in range(0, len(names), _CURVES)
    ]


def _plots(figures: Sequence[Figure], costs: Sequence[Figure]) -> list[str]:
    """Draw AUROC over seconds, and over dollars where prices are known."""
    drawings = []
    for measure, across in (
        ("seconds_p50", "seconds a row (median)"),
        ("dollars_per_1000_rows", "dollars for 1,000 rows"),
    ):
        spent = {f.judge: f.value for f in costs if f.measure == measure and f.value is not None}
        aurocs = [f for f in figures if f.measure == "auroc" and f.value is not None]
        for source in dict.fromkeys(f.source for f in aurocs):
            points = [
                (str(f.judge), spent[f.judge], f.value or 0.0, f.low, f.high)
                for f in aurocs
                if f.source == source and f.judge in spent
            ]
            if any(cost for _, cost, *_ in points) and not source.endswith("/mean"):
                drawings.append(scatter_svg(points, f"AUROC and cost, {source}", across, "AUROC"))
    return drawings


@dataclass(frozen=True)
class _Row:
    """A row on which peers disagree, as the page shows it."""

    id: str
    source: str
    label: str
    question: str
    contexts: Sequence[str]
    response: Sequence[tuple[str, bool]]  # pieces, and whether the labels call them unsupported
    scores: Sequence[tuple[str, str, str]]


def _disagreements(part: Part) -> list[_Row]:
    """Return the rows whose flags are divided most evenly among the peers that tell rows apart."""
    decided = [column.decided for column in part.columns]
    # A peer that flags all rows or none has no say: it would disagree on every row.
    flags = np.array([each for each in decided if {0.0, 1.0} <= set(each.tolist())])
    if not len(flags):
        return []
    flagged, passed = (np.nansum(each, axis=0) for each in (flags, 1 - flags))
    order = np.argsort(-np.minimum(flagged, passed), kind="stable")[:_SHOWN]
    rows = []
    for place in (one for one in order if flagged[one] and passed[one]):
        row = part.rows[place]
        scores = [
            (
                column.name,
                "-" if np.isnan(column.suspicion[place]) else f"{1 - column.suspicion[place]:.3f}",
                {0.0: "passed", 1.0: "flagged"}.get(column.decided[place], "no verdict"),
            )
            for column in part.columns
        ]
        label = "hallucinated" if part.positive[place] else "supported"
        one = row.example
        texts = one.question, one.contexts, _pieces(row)
        rows.append(_Row(str(one.id), row.source, label, *texts, scores))
    return rows


def _pieces(row: LabelledExample) -> list[tuple[str, bool]]:
    text, at = row.example.response, 0
    pieces = []
    for span in row.labels.unsupported or ():
        pieces += [(text[at : span.start], False), (text[span.start : span.end], True)]
        at = span.end
    return [*pieces, (text[at:], False)]
