"""Page of a run: what to do, the answers with the worst first, then figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trivet.measures.figures import ErrorRates
from trivet.report.advice import advice
from trivet.report.answer import ShownAnswer, read_answer
from trivet.report.pages import Section, interval, render, shown_text, with_interval
from trivet.report.plots import histogram_svg, interval_svg
from trivet.report.tally import KINDS, MAX_VALUES, MIN_GROUPS, Column, Tally, tally
from trivet.report.terminal import number
from trivet.report.verdict_files import VerdictRow
from trivet.report.wording import ABSTAINS, NO_RESPONSE, SUPPORTED, TO_CHECK, UNSUPPORTED
from trivet.verdict_json import SCORES

SHOWN = 500  # answers on a page
_NAMED = 10  # answers that the first line links to
_MEANINGS = {
    UNSUPPORTED: "no context supports a sentence of the answer",
    TO_CHECK: "supported, with a span that a person should look at",
    SUPPORTED: "the contexts support every sentence, or it claims nothing",
    ABSTAINS: "the answer says that there is none",
    NO_RESPONSE: "relevance alone",
}


@dataclass(frozen=True, slots=True)
class FilterChoices:
    """Values that the page's filters offer."""

    kinds: Sequence[str]  # labels on cards
    scores: Sequence[str]  # names of a card's numbers, in order
    columns: Sequence[Column]
    good: Sequence[str]  # kinds that are not faults


@dataclass(frozen=True, slots=True)
class Strip:
    """First line of a page: how many rows are of each kind, and which to read first."""

    parts: Sequence[tuple[str, int, str]]  # kind, rows and share of all rows
    thresholds: Sequence[float]  # of the verdicts
    first: Sequence[tuple[str, str]]  # place on the page and name of answers


@dataclass(frozen=True, slots=True)
class Card:
    """One answer, or the answers of two runs side by side."""

    answers: Sequence[ShownAnswer]  # the first one gives title and metadata
    kinds: Sequence[str]  # for the filter
    labels: Sequence[str]  # shown after the title
    scores: Sequence[float | None]
    codes: Sequence[int]  # index of the value in each metadata column, -1 for none
    names: Sequence[str] = ()  # of two answers


def render_verdicts(
    rows: Iterable[VerdictRow],
    about: Mapping[str, str],
    *,
    title: str = "Verdicts",
    remarks: Sequence[str] = (),
    errors: Sequence[ErrorRates] = (),
    by: Sequence[str] = (),
    shown: int = SHOWN,
) -> str:
    """Return the page of one run.

    Args:
        rows: Rows, iterated over twice in the same order, so no iterator; all are counted.
        about: Facts about the run, for a table.
        title: Title of the document.
        remarks: Sentences about the run.
        errors: Errors of the judge on labelled answers.
        by: Metadata columns to group by; by default all with 2 to 20 values.
        shown: Number of answers on the page, the worst first.

    Raises:
        DataError: There is no row, or no row has a column of ``by``.
    """
    counted = tally(rows, by)
    evaluated, failed = int((~counted.failed).sum()), int(counted.failed.sum())
    numbers = {"rows": len(counted.rows), "evaluated": evaluated, "failed": failed}
    facts = [*about.items(), *((name, f"{count:,}") for name, count in numbers.items())]
    kinds = [kind for kind in KINDS if counted.kinds[kind].any()]
    choices = FilterChoices(kinds, SCORES, counted.columns, good=(SUPPORTED, ABSTAINS, NO_RESPONSE))
    places = worst(counted, shown)
    return render(
        "cards.html",
        "cards.js",
        title=title,
        strip=_strip(counted, places),
        before=[Section("What to do", [*remarks, *advice(counted, errors)])],
        answers_title="Answers, the worst first",
        answers_notes=_answers_notes(counted, len(places), evaluated),
        cards=_cards(rows, counted, places),
        choices=choices,
        after=[
            _kind_section(counted),
            _score_section(counted),
            *group_sections(counted),
            _failure_section(counted),
            Section("The run", (), ("", ""), facts),
        ],
    )


def _strip(counted: Tally, places: Sequence[int]) -> Strip:
    """Return the strip of a run, of which the page shows some places."""
    counts = [(kind, int(counted.kinds[kind].sum())) for kind in KINDS]
    counts.append(("failed", int(counted.failed.sum())))
    parts = [(kind, rows, share(rows, len(counted.rows))) for kind, rows in counts if rows]
    marked = counted.kinds[UNSUPPORTED] | counted.kinds[TO_CHECK]
    names = [
        (f"row-{counted.rows[index]}", (counted.ids[index] or f"row {counted.rows[index]}")[:60])
        for index in places
        if marked[index]
    ]
    return Strip(parts, sorted(counted.thresholds), names[:_NAMED])


def worst(counted: Tally, shown: int) -> list[int]:
    """Return the indices of the rows to show: the lowest by each score in turn.

    Each score gets examples, however low another one is. The rows are ordered by faithfulness,
    those without it last.
    """
    lowest = [
        np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]  # NaN is last
        for values in counted.scores.values()
    ]
    order = np.nan_to_num(counted.scores["faithfulness"], nan=2.0)
    return sorted(take_in_turn(lowest, shown), key=lambda index: (order[index], index))


def take_in_turn(orders: Sequence[npt.NDArray[np.intp]], most: int) -> set[int]:
    """Return up to ``most`` different indices: the first of each order, then the second of each."""
    chosen: set[int] = set()
    for rank in range(min(most, max(map(len, orders)))):
        for order in orders:
            if rank < len(order) and len(chosen) < most:
                chosen.add(int(order[rank]))
    return chosen


def _answers_notes(counted: Tally, shown: int, evaluated: int) -> list[str]:
    notes = []
    if shown < evaluated:
        notes.append(
            f"The page shows {shown:,} of {evaluated:,} evaluated rows: the lowest by "
            "faithfulness, relevance, utilization and completeness in turn. It leaves out "
            f"{evaluated - shown:,}; the figures below include them."
        )
    if counted.with_texts < len(counted.rows):
        without = len(counted.rows) - counted.with_texts
        notes.append(
            f"The texts of {without:,} rows are not available. They are rebuilt from the sentences "
            "of the verdicts, without the question. `--log INPUT` names the evaluated file; "
            "`trivet evaluate --texts` writes the texts into the verdicts."
        )
    return notes


def _cards(rows: Iterable[VerdictRow], counted: Tally, places: Sequence[int]) -> Iterator[Card]:
    wanted = set(places)
    chosen = {index: row for index, row in enumerate(rows) if index in wanted}
    for index in places:
        answer = read_answer(chosen[index], f"row-{chosen[index].row}")
        kinds = tuple(kind for kind in KINDS if counted.kinds[kind][index])
        codes = [int(column.codes[index]) for column in counted.columns]
        yield Card([answer], kinds, kinds, list(answer.scores.values()), codes)


def _score_section(counted: Tally) -> Section:
    failed = int(counted.failed.sum())
    rows, drawings = [], []
    for score, values in counted.scores.items():
        mean = counted.mean(score)
        counts = (mean.n, failed, len(counted.rows) - failed - mean.n)
        rows.append((score, number(mean.value), interval(mean.low, mean.high), *map(str, counts)))
        drawings.append(histogram_svg(values[np.isfinite(values)], score, "rows"))
    paragraph = (
        "Means over all rows that have the score, without failed rows. Answers to the same "
        "question count as one draw in the 95 % interval; there is no interval for fewer than "
        f"{MIN_GROUPS} questions. Rows without a response have relevance only."
    )
    unknown = [score for score in counted.scores if not counted.mean(score).n]
    if 0 < len(unknown) < len(rows):
        paragraph += f" No row has {' and '.join(unknown)}: the bundle has no head for that."
    header = ("score", "mean", "95 % interval", "rows", "failed", "without the score")
    return Section("Scores", [paragraph], header, rows, drawings)


def _kind_section(counted: Tally) -> Section:
    evaluated = int((~counted.failed).sum())
    rows = [
        (kind, str(total), share(total, evaluated), _MEANINGS[kind])
        for kind in KINDS
        if (total := int(counted.kinds[kind].sum()))
    ]
    return Section("Verdicts", (), ("verdict", "rows", "share", "meaning"), rows)


def _failure_section(counted: Tally) -> Section:
    failed = int(counted.failed.sum())
    if not failed:
        return Section("Failed rows", ["None."])
    counts = ", ".join(f"{count} {code}" for code, count in counted.codes.most_common())
    paragraphs = [f"{failed} of {len(counted.rows)} rows have no verdict: {counts}."]
    if failed > len(counted.failures):
        paragraphs.append(f"The first {len(counted.failures)} of them:")
    rows = [
        (str(row), error.id or "-", error.code, error.message[:500])
        for row, error in counted.failures
    ]
    return Section("Failed rows", paragraphs, ("row", "id", "code", "message"), rows)


_MAX_NAME = 40  # characters of a value in a drawing


def group_sections(counted: Tally) -> list[Section]:
    """Return a section for each metadata column."""
    sections = [_group_section(counted, column) for column in counted.columns]
    if counted.wide:
        paragraph = f"With more than {MAX_VALUES} values: {', '.join(counted.wide)}."
        sections.append(Section("Columns without groups", [paragraph]))
    return sections


def _group_section(counted: Tally, column: Column) -> Section:
    rows, kinds = [], [kind for kind in KINDS if counted.kinds[kind].any()]
    points: dict[str, list[tuple[str, float, float | None, float | None]]] = {}
    for code, value in [*enumerate(column.values), (-1, "(none)")]:
        among = column.codes == code
        if not among.any():
            continue
        evaluated = int((among & ~counted.failed).sum())
        means = {score: counted.mean(score, among) for score in SCORES}
        counts = [str(int((counted.kinds[kind] & among).sum())) for kind in kinds]
        cells = [with_interval(mean.value, mean.low, mean.high) for mean in means.values()]
        rows.append((value, str(evaluated), str(int(among.sum()) - evaluated), *counts, *cells))
        for score, mean in means.items():
            if mean.value is not None:
                point = (short(value), mean.value, mean.low, mean.high)
                points.setdefault(score, []).append(point)
    unit = "mean with 95 % interval"
    drawings = [interval_svg(drawn, score, unit, 0.0, 1.0) for score, drawn in points.items()]
    header = (column.name, "rows", "failed", *kinds, *SCORES)
    paragraphs = ["Answers by verdict, and means with 95 % intervals."]
    return Section(f"By {column.name}", paragraphs, header, rows, drawings)


def share(count: int, of: int) -> str:
    """Format a share of a count; ``-`` of nothing."""
    return f"{100 * count / of:.1f} %" if of else "-"


def short(value: str) -> str:
    """Return a value on one line, short enough for a drawing."""
    text = shown_text(value).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 1]}…"
