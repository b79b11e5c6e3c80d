"""The page of a review, and the HTML of a row; every text is made visible and escaped."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from jinja2 import ChoiceLoader, PackageLoader
from markupsafe import Markup

from trivet.annotation.answer import Answer, KeyedExample, SentenceSupport
from trivet.annotation.review.marks import Sheet
from trivet.annotation.review.review import Review
from trivet.records import RagExample
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
        opinions=read_opinions(review.rows[place].raw, labelled.example),
    )


def read_opinions(raw: Mapping[str, Any], example: RagExample) -> list[dict[str, SentenceSupport]]:
    """Return what each annotator of a row said on the response sentences, by name.

    What is no answer of ``trivet annotate`` on these sentences is left out.
    """
    annotation = raw.get("annotation")
    keys = KeyedExample.of(example).response
    found: list[dict[str, SentenceSupport]] = [{} for _ in keys]
    for name, one in (("1", annotation), ("2", _get(annotation, "other"))):
        with contextlib.suppress(ValueError):  # not an answer
            said = Answer.model_validate(_get(one, "answer")).sentence_support_information
            by_key = {each.response_sentence_key: each for each in said}
            for opinions, key in zip(found, keys, strict=True):
                opinions |= {name: by_key[key]} if key in by_key else {}
    return found


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
