"""The page of a review, and the HTML of a row; every text is made visible and escaped."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from trivet.annotation.review.marks import Sheet
from trivet.annotation.review.review import Review
from trivet.records import Span
from trivet.report.pages import ENVIRONMENT, content_policy

# The page, the style and the escaping are the report's.
_PAGES = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("trivet.annotation.review"), PackageLoader("trivet.report")])
)


class _Piece(NamedTuple):
    text: str
    word: int | None  # number of the word; None for the text between words
    marked: bool = False


class _Sentence(NamedTuple):
    number: int
    text: str
    relevant: bool
    utilized: bool


def render_page(review: Review) -> tuple[str, str]:
    """Return the page without a row, and its content security policy."""
    script = _PAGES.get_template("review.js").render()
    policy = content_policy(script, fetches=True)
    page = _PAGES.get_template("review.html").render(
        script=Markup(script),
        content_policy=policy,
        title="Review of labels",
        count=len(review.rows),
        left=review.left(),
    )
    return page, policy


def render_row(review: Review, place: int) -> str:
    """Return a row with its marks."""
    row = review.rows[place]
    labelled, about = review.current(place)
    sheet = Sheet(labelled.example)
    marks = sheet.marks(labelled.labels)
    contexts: list[list[_Sentence]] = [[] for _ in labelled.example.contexts]
    for number, span in enumerate(sheet.contexts):
        text = labelled.example.contexts[span.context][span.start : span.end]
        flags = (number in (marks.relevant or ()), number in (marks.utilized or ()))
        contexts[span.context].append(_Sentence(number, text, *flags))
    return _PAGES.get_template("row.html").render(
        place=place,
        row=row,
        count=len(review.rows),
        labelled=labelled,
        about=about,
        marks=marks,
        response=_pieces(sheet, marks.unsupported or frozenset()),
        contexts=contexts,
    )


def _pieces(sheet: Sheet, marked: frozenset[int]) -> list[list[_Piece]]:
    """Return the words of each response sentence and the text between them."""
    text, numbers = sheet.example.response, count()

    def pieces(words: tuple[Span, ...]) -> list[_Piece]:
        found, end = [], words[0].start
        for word in words:
            if word.start > end:
                found.append(_Piece(text[end : word.start], None))
            number = next(numbers)
            found.append(_Piece(text[word.start : word.end], number, number in marked))
            end = word.end
        return found

    return [pieces(words) for words in sheet.response if words]
