"""The statistics of a tally as parts of a page: scores, kinds of failure, groups, failed rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from trivet.report.estimates import LEAST_GROUPS, Mean
from trivet.report.failure_kinds import KINDS, Limits
from trivet.report.pages import Section
from trivet.report.plots import histogram_svg, interval_svg
from trivet.report.shown_text import shown_text
from trivet.report.tally import MOST_VALUES, Column, Tally
from trivet.verdict_json import SCORES

_LONGEST_NAME = 40  # characters of a value, in a drawing


def score_section(tally: Tally) -> Section:
    """Return the four means with their intervals, and a histogram of each."""
    failed = int(tally.failed.sum())
    rows, drawings = [], []
    for score in SCORES:
        mean = tally.mean(score)
        none = len(tally.rows) - failed - mean.n
        rows.append(
            (score, number(mean.value), interval(mean), str(mean.n), str(failed), str(none))
        )
        values = tally.scores[score]
        drawings.append(histogram_svg(values[np.isfinite(values)], score, "rows"))
    told = [
        "The mean over every row that has the score, with its 95 % interval; answers to one "
        "question count as one draw where the questions are at hand, and fewer than "
        f"{LEAST_GROUPS} have no interval. Rows that failed are in no mean. A row without a "
        "response has relevance alone."
    ]
    header = ("score", "mean", "95 % interval", "rows", "failed", "without the score")
    return Section("Scores", told, header, rows, drawings)


def kind_section(tally: Tally, limits: Limits) -> Section:
    """Return how many rows show each kind of failure, and what it means."""
    judged = int((~tally.failed).sum())
    meanings = limits.meanings()
    rows = [
        (kind, str(int(found.sum())), share(int(found.sum()), judged), meanings[kind])
        for kind, found in tally.kinds.items()
    ]
    sound = judged - int(np.logical_or.reduce(list(tally.kinds.values())).sum())
    rows.append(("none of these", str(sound), share(sound, judged), "the rest of the judged rows"))
    told = ["A row may show several kinds."]
    return Section("What is wrong", told, ("kind", "rows", "share", "what it means"), rows)


def group_sections(tally: Tally) -> list[Section]:
    """Return one part for each column of the metadata: its values side by side."""
    sections = [_group_section(tally, column) for column in tally.columns]
    if tally.wide:
        told = f"More than {MOST_VALUES} values, so not grouped by: {', '.join(tally.wide)}."
        sections.append(Section("Other columns", [told]))
    return sections


def _group_section(tally: Tally, column: Column) -> Section:
    rows = []
    points: dict[str, list[tuple[str, float, float | None, float | None]]] = {}
    for place, value in [*enumerate(column.values), (-1, "(none)")]:
        among = column.codes == place
        if not among.any():
            continue
        judged = int((among & ~tally.failed).sum())
        means = {score: tally.mean(score, among) for score in SCORES}
        shares = [share(int((tally.kinds[kind] & among).sum()), judged) for kind in KINDS]
        cells = [_with_interval(mean) for mean in means.values()]
        rows.append((value, str(judged), str(int(among.sum()) - judged), *cells, *shares))
        for score, mean in means.items():
            if mean.value is not None:
                point = (short(value), mean.value, mean.low, mean.high)
                points.setdefault(score, []).append(point)
    drawings = [interval_svg(found, score, "mean, 95 %") for score, found in points.items()]
    header = (column.name, "rows", "failed", *SCORES, *KINDS)
    told = ["Means with their 95 % intervals, and the share of the judged rows of each kind."]
    return Section(f"By {column.name}", told, header, rows, drawings)


def _with_interval(mean: Mean) -> str:
    if mean.low is None:
        return number(mean.value)
    return f"{number(mean.value)} ({interval(mean)})"


def failure_section(tally: Tally) -> Section:
    """Return why rows failed, and the first of them; nothing where none did."""
    failed = int(tally.failed.sum())
    if not failed:
        return Section("Rows that failed", ["None."])
    counts = ", ".join(f"{count} {code}" for code, count in tally.codes.most_common())
    told = [f"{failed} of {len(tally.rows)} rows have no verdict: {counts}."]
    if failed > len(tally.failures):
        told.append(f"The first {len(tally.failures)} of them:")
    rows = [
        (str(row), error.id or "-", error.code, error.message[:500])
        for row, error in tally.failures
    ]
    return Section("Rows that failed", told, ("row", "id", "code", "message"), rows)


def about_section(title: str, about: Mapping[str, str], remarks: Iterable[str]) -> Section:
    """Return what is known of a run."""
    return Section(title, tuple(remarks), ("", ""), list(about.items()))


def number(value: float | None, form: str = ".3f") -> str:
    """Write a score; a dash where there is none."""
    return "-" if value is None else f"{value:{form}}"


def interval(mean: Mean, form: str = ".3f") -> str:
    """Write an interval; a dash where there is none."""
    if mean.low is None or mean.high is None:
        return "-"
    return f"{mean.low:{form}} to {mean.high:{form}}"


def share(count: int, of: int) -> str:
    """Write a share in percent; a dash of nothing."""
    return f"{100 * count / of:.1f} %" if of else "-"


def short(value: str) -> str:
    """Return a name that a drawing has room for."""
    text = shown_text(value).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…"
