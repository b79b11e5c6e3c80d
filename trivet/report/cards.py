"""Answers as HTML: cards on a page, with filters, or one answer in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trivet.records import Evaluation
from trivet.report.answer import Answer, read_answer
from trivet.report.pages import ENVIRONMENT
from trivet.report.tally import Column
from trivet.report.verdict_files import VerdictRow


@dataclass(frozen=True, slots=True)
class Choices:
    """Values that the page's filters offer."""

    kinds: Sequence[str]  # labels on cards
    scores: Sequence[str]  # names of a card's numbers, in order
    columns: Sequence[Column]
    good: Sequence[str]  # kinds that are not failures


@dataclass(frozen=True, slots=True)
class Card:
    """One answer, or the answers of two runs side by side."""

    answers: Sequence[Answer]  # the first one gives title and metadata
    kinds: Sequence[str]
    scores: Sequence[float | None]
    codes: Sequence[int]  # index of the value in each metadata column, -1 for none
    labels: Sequence[str] = ()  # names of two answers


def to_html(verdict: Evaluation) -> str:
    """Return a verdict as an HTML fragment without a script, with the texts of its sentences."""
    row = VerdictRow(row=1, id=verdict.id, verdict=verdict.to_dict())
    return ENVIRONMENT.get_template("notebook.html").render(answer=read_answer(row))
