"""A judged log as a page: what it scored, what is wrong with it, and its worst answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from trivet.records import ConfigError
from trivet.report.answer import read_answer
from trivet.report.cards import Card, Choices, make_card, render_cards
from trivet.report.failure_kinds import KINDS, Limits
from trivet.report.statistic_sections import (
    about_section,
    failure_section,
    group_sections,
    kind_section,
    score_section,
)
from trivet.report.tally import Tally, tally
from trivet.report.verdict_row import VerdictRow
from trivet.verdict_json import SCORES

SHOWN = 500  # answers on a page, if not told otherwise
_SOUND = "none of these"


def render_verdicts(
    rows: Iterable[VerdictRow],
    about: Mapping[str, str],
    *,
    title: str = "Verdicts",
    remarks: Sequence[str] = (),
    limits: Limits | None = None,
    by: Sequence[str] = (),
    shown: int = SHOWN,
) -> str:
    """Return the page of one run.

    Args:
        rows: Read twice, in the same order: a list, or what begins anew each time it is iterated
            over. All of them are counted.
        about: What is known of the run: bundle, engine, input...
        title: Of the document.
        remarks: Sentences about the run.
        limits: Of the kinds of failure.
        by: Columns of the metadata to group by; without any, all that have 2 to 20 values.
        shown: How many answers the page shows, the worst ones.

    Raises:
        DataError: There is no row, or no row has a column of ``by``.
        ConfigError: ``shown`` is negative, or ``rows`` can be read only once.
    """
    if shown < 0:
        raise ConfigError(f"{shown} answers are to be shown; give 0 or more")
    if iter(rows) is rows:
        raise ConfigError("the rows of a report are read twice; give a list, not an iterator")
    limits = limits or Limits()
    counted = tally(rows, limits, by)
    judged, failed = int((~counted.failed).sum()), int(counted.failed.sum())
    about = {**about, "rows": f"{len(counted.rows):,}", "judged": f"{judged:,}"}
    choices = Choices((*KINDS, _SOUND), SCORES, counted.columns, good=(_SOUND,))
    places = worst(counted, shown)
    return render_cards(
        title,
        before=[
            about_section("The run", {**about, "failed": f"{failed:,}"}, remarks),
            score_section(counted),
            kind_section(counted, limits),
            *group_sections(counted),
        ],
        answers_title="Answers, the worst first",
        chosen=_chosen(counted, len(places), judged),
        cards=_cards(rows, counted, places, choices),
        choices=choices,
        after=[failure_section(counted)],
    )


def worst(counted: Tally, shown: int) -> list[int]:
    """Return the places of the rows to show: the lowest by each score in turn.

    So every kind of failure has its examples, however many rows show the most frequent one. They
    are ordered by faithfulness, those without last.
    """
    lowest = []
    for values in counted.scores.values():
        order = np.argsort(values, kind="stable")  # NaN stands last
        lowest.append(order[: int(np.isfinite(values).sum())][:shown])
    chosen: dict[int, None] = {}
    for rank in range(max(map(len, lowest))):
        for order in lowest:
            if rank < len(order) and len(chosen) < shown:
                chosen[int(order[rank])] = None
    faithfulness = counted.scores["faithfulness"]
    return sorted(chosen, key=lambda place: (np.nan_to_num(faithfulness[place], nan=2.0), place))


def _chosen(counted: Tally, shown: int, judged: int) -> list[str]:
    told = []
    if shown < judged:
        told.append(
            f"The page shows {shown:,} of {judged:,} judged rows: the lowest by faithfulness, "
            f"relevance, utilization and completeness in turn. It leaves out {judged - shown:,}; "
            "they are in every figure above."
        )
    if counted.with_texts < len(counted.rows):
        without = len(counted.rows) - counted.with_texts
        told.append(
            f"The texts of {without:,} rows are not at hand: what is shown of them is put together "
            "from the sentences of their verdicts, and the question is missing. `--data INPUT` "
            "names the file they came from; `trivet evaluate --texts` keeps texts with verdicts."
        )
    return told


def _cards(
    rows: Iterable[VerdictRow], counted: Tally, places: Sequence[int], choices: Choices
) -> Iterator[Card]:
    wanted = set(places)
    found = {place: row for place, row in enumerate(rows) if place in wanted}
    for place in places:
        answer = read_answer(found[place])
        kinds = tuple(kind for kind in KINDS if counted.kinds[kind][place])
        codes = (int(column.codes[place]) for column in counted.columns)
        yield make_card([answer], choices, kinds or (_SOUND,), answer.scores.values(), codes)
