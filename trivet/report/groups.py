"""Sections of a page that put the values of a metadata column side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trivet.labelled.plain_labels import LABEL_NAMES, read_label
from trivet.report.pages import Section, shown_text, with_interval
from trivet.report.plots import interval_svg
from trivet.report.tally import MAX_VALUES, Column, Tally
from trivet.report.wording import ABSTAINS, SUPPORTED, UNSUPPORTED
from trivet.verdict_json import SCORES

_KINDS = (UNSUPPORTED, SUPPORTED, ABSTAINS)
_MAX_NAME = 40  # characters of a value in a drawing
_LABELS = re.compile("label|gold|adheren|support|hallucinat|faithful|correct|wrong|grounded")


def group_sections(counted: Tally) -> list[Section]:
    """Return a section for each metadata column."""
    sections = [_group_section(counted, column) for column in counted.columns]
    if counted.wide:
        paragraph = f"With more than {MAX_VALUES} values: {', '.join(counted.wide)}."
        sections.append(Section("Columns without groups", [paragraph]))
    return sections


def _group_section(counted: Tally, column: Column) -> Section:
    rows = []
    points: dict[str, list[tuple[str, float, float | None, float | None]]] = {}
    for place, value in [*enumerate(column.values), (-1, "(none)")]:
        among = column.codes == place
        if not among.any():
            continue
        evaluated = int((among & ~counted.failed).sum())
        means = {score: counted.mean(score, among) for score in SCORES}
        counts = [str(int((counted.kinds[kind] & among).sum())) for kind in _KINDS]
        cells = [with_interval(mean.value, mean.low, mean.high) for mean in means.values()]
        rows.append((value, str(evaluated), str(int(among.sum()) - evaluated), *counts, *cells))
        for score, mean in means.items():
            if mean.value is not None:
                point = (short(value), mean.value, mean.low, mean.high)
                points.setdefault(score, []).append(point)
    unit = "mean with 95 % interval"
    drawings = [interval_svg(found, score, unit, 0.0, 1.0) for score, found in points.items()]
    header = (column.name, "rows", "failed", *_KINDS, *SCORES)
    paragraphs = [
        *_agreement(counted, column),
        "Answers by verdict, and means with 95 % intervals.",
    ]
    return Section(f"By {column.name}", paragraphs, header, rows, drawings)


def _agreement(counted: Tally, column: Column) -> list[str]:
    """Return how the verdicts agree with a column of labels; nothing for another column."""
    said = read_labels(column.name, column.values)
    if said is None:
        return []
    counts = {
        (label, kind): sum(
            int((counted.kinds[kind] & (column.codes == place)).sum())
            for place, own in enumerate(said)
            if own == label
        )
        for label in (True, False)
        for kind in (SUPPORTED, UNSUPPORTED)
    }
    agree = counts[True, SUPPORTED] + counts[False, UNSUPPORTED]
    return [
        f"A column of labels: {agree:,} of {sum(counts.values()):,} verdicts agree with it. "
        f"{counts[False, UNSUPPORTED]:,} of "
        f"{counts[False, SUPPORTED] + counts[False, UNSUPPORTED]:,} answers labelled unsupported "
        f"were judged so; {counts[True, UNSUPPORTED]:,} of "
        f"{counts[True, SUPPORTED] + counts[True, UNSUPPORTED]:,} labelled supported "
        "were judged unsupported."
    ]


def read_labels(column: str, values: Sequence[str]) -> list[bool] | None:
    """Return what each value says of an answer, supported or not; ``None`` if it is not a label.

    True, false, 1 and 0 are labels only in a column whose name says so.
    """
    read = [read_label(value, column) for value in values]
    known = [one for one in read if one is not None]
    if len(known) < len(read):
        return None
    named = column.casefold() in LABEL_NAMES or _LABELS.search(column.casefold())
    # A word means the same in every column.
    words = all(read_label(v, "right") == read_label(v, "wrong") for v in values)
    return known if named or words else None


def share(count: int, of: int) -> str:
    """Format a share of a count; ``-`` of nothing."""
    return f"{100 * count / of:.1f} %" if of else "-"


def short(value: str) -> str:
    """Return a value on one line, short enough for a drawing."""
    text = shown_text(value).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 1]}…"
