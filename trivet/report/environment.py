"""How templates become pages: everything written is made visible, then escaped.

Templates, styles and the one script stand in ``templates/``, package data.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from trivet.report.cutting_marks import ContextPiece
from trivet.report.shown_text import shown_text

_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ?%)?( (to|±) [-+]?[\d.,]+( ?%)?)?( \([^()]*\))?|-")


def render(template: str, script: str | None = None, /, **values: object) -> str:
    """Return a whole page.

    Args:
        template: File in ``templates/``, built on ``page.html``.
        script: File of the only script that may run, by its hash; without it none may.
        values: What the template asks for.
    """
    code = "" if script is None else ENVIRONMENT.get_template(script).render()
    return ENVIRONMENT.get_template(template).render(
        script=Markup(code), content_policy=content_policy(code), **values
    )


def content_policy(code: str) -> str:
    """Return what a page may load: nothing; and run: nothing but ``code``."""
    rules = ["default-src 'none'", "style-src 'unsafe-inline'", "base-uri 'none'"]
    rules.append("form-action 'none'")
    if code:
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        rules.append(f"script-src 'sha256-{digest}'")
    return "; ".join(rules)


def _visible(value: object) -> object:
    """Make a text show all it holds; what is markup already was made of such texts."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return shown_text(value)
    return value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _tenth(value: float | None) -> int:
    """Return the shade, 0 to 9, of a probability."""
    return 0 if value is None else min(9, int(10 * value))


def _shaded(pieces: Iterable[ContextPiece]) -> Markup:
    """Return a context, each sentence shaded; one call, for pages hold tens of thousands.

    Whatever is not written here is a text, made visible and escaped, or a number.
    """
    parts: list[str] = []  # plain strings, marked once as a whole: marking each costs more
    for piece in pieces:
        text, verdict = escape(shown_text(piece.text)), piece.verdict
        if verdict is None:
            parts.append(text)
            continue
        both = (verdict.relevance, verdict.utilization)
        names = "tv-s tv-r{} tv-u{}".format(*map(_tenth, both))
        numbers = "·".join(map(_number, both))
        parts.append(f'<span class="{names}" data-n="{numbers}">{text}</span>')
    return Markup("".join(parts))


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


ENVIRONMENT = Environment(
    loader=PackageLoader("trivet.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_visible,
)
ENVIRONMENT.filters.update(
    drawing=Markup,  # checked by `trivet.report.pages`, escaped by whoever drew it
    number=_number,
    shaded=_shaded,
    tenth=_tenth,
)
ENVIRONMENT.tests["a_number"] = _is_number
