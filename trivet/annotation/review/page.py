"""The page of a review, and the HTML of a row; every text is made visible and escaped."""

from __future__ import annotations

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from trivet.annotation.review.marks import Sheet
from trivet.annotation.review.review import Review
from trivet.report.pages import ENVIRONMENT, content_policy

# The page, the style and the escaping are the report's.
_PAGES = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("trivet.annotation.review"), PackageLoader("trivet.report")])
)


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
    labelled, about = review.current(place)
    sheet = Sheet(labelled.example)
    return _PAGES.get_template("row.html").render(
        place=place,
        count=len(review.rows),
        row=review.rows[place],
        labelled=labelled,
        about=about,
        sheet=sheet,
        marks=sheet.marks(labelled.labels),
    )
