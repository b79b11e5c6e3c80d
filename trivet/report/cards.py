"""A page of answers, one a card, with what chooses among them. It knows no statistics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trivet.report.answer import Answer
from trivet.report.environment import render
from trivet.report.pages import Section, check_sections
from trivet.report.tally import Column


@dataclass(frozen=True, slots=True)
class Choices:
    """What a reader can choose answers by.

    Attributes:
        kinds: Names that a card may bear.
        scores: Names of a card's numbers, in their order.
        columns: Of the metadata.
        good: Those of the kinds that are no failure.
    """

    kinds: Sequence[str]
    scores: Sequence[str]
    columns: Sequence[Column]
    good: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """One answer, or the answers of two runs beside each other.

    Attributes:
        title: Which row it is.
        kinds: Those of the page's kinds that it bears.
        kind_numbers: The same as places among them, as the page's script reads them.
        score_numbers: Its numbers, ``-`` for none; likewise.
        code_numbers: For each column the place of its value, -1 for none; likewise.
        metadata: Column and value, as text.
        answers: One, or two.
        labels: One for each of two answers.
    """

    title: str
    kinds: Sequence[str]
    kind_numbers: str
    score_numbers: str
    code_numbers: str
    metadata: Sequence[tuple[str, str]]
    answers: Sequence[Answer]
    labels: Sequence[str] = ()


def make_card(
    answers: Sequence[Answer],
    choices: Choices,
    kinds: Sequence[str],
    scores: Iterable[float | None],
    codes: Iterable[int],
    labels: Sequence[str] = (),
) -> Card:
    """Return the card of one answer, or of two; the first one names it."""
    first = answers[0]
    return Card(
        title=f"row {first.row}" if first.id is None else f"row {first.row} · {first.id}",
        kinds=kinds,
        kind_numbers=" ".join(str(choices.kinds.index(kind)) for kind in kinds),
        score_numbers=" ".join("-" if score is None else f"{score:.4f}" for score in scores),
        code_numbers=" ".join(map(str, codes)),
        metadata=first.metadata,
        answers=answers,
        labels=labels,
    )


def render_cards(
    title: str,
    before: Sequence[Section],
    answers_title: str,
    chosen: Sequence[str],
    cards: Iterable[Card],
    choices: Choices,
    after: Sequence[Section] = (),
) -> str:
    """Return the page.

    Args:
        title: Of the document.
        before: The statistics.
        answers_title: Above the cards.
        chosen: Which answers are shown, and which are not.
        cards: In the order that they are written in; made as they are needed.
        choices: What they can be chosen by.
        after: What stands below them.

    Raises:
        ValueError: As `trivet.report.pages.render_page`.
    """
    check_sections([*before, *after])
    return render(
        "cards.html",
        "cards.js",
        title=title,
        before=before,
        answers_title=answers_title,
        chosen=chosen,
        cards=cards,
        choices=choices,
        after=after,
    )
