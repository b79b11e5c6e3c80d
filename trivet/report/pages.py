"""Self-contained HTML pages from the templates in ``templates/``.

Every text is made visible and escaped; a page loads nothing and runs at most its own script.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from trivet.records import Evaluation
from trivet.report.answer import ContextPart, read_answer
from trivet.report.verdict_files import VerdictRow

_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ?%)?( (to|±) [-+]?[\d.,]+( ?%)?)?( \([^()]*\))?|-")
# Direction marks and characters without width make a reader see another text than the model.
# The joiners U+200C and U+200D stay: scripts and emoji need them.
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Section:
    """A part of a page; empty fields are left out."""

    title: str
    paragraphs: Sequence[str] = ()  # plain text above the table
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()  # plain text, one cell for each column
    svgs: Sequence[str] = ()  # drawings below the table, with escaped texts


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return an HTML document of these sections, without a script."""
    return render("page.html", title=title, sections=sections)


def render_markdown(title: str, sections: Sequence[Section]) -> str:
    """Return a Markdown document of these sections, without their drawings."""
    lines = [f"# {_markdown(title)}", ""]
    for section in sections:
        lines += [f"## {_markdown(section.title)}", ""]
        for paragraph in section.paragraphs:
            lines += [_markdown(paragraph), ""]
        if section.rows:
            rows = [section.header, ["---"] * len(section.header), *section.rows]
            # An unescaped bar would open a new column.
            cells = [[_markdown(cell).replace("|", r"\|") for cell in row] for row in rows]
            lines += [*(f"| {' | '.join(row)} |" for row in cells), ""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown(text: str) -> str:
    """Return a text on one visible line, in which nothing is markup, a link or an image."""
    one_line = " ".join(shown_text(text).split())
    return one_line.replace("<", "&lt;").replace("](", r"]\(").replace("]:", r"]\:")


def to_html(verdict: Evaluation, row: VerdictRow | None = None) -> str:
    """Return a verdict as an HTML fragment without a script, with the texts of its sentences.

    ``row`` has the whole texts.
    """
    row = row or VerdictRow(row=1, id=verdict.id)
    anchor = f"tv-{zlib.crc32(verdict.to_json().encode()):08x}"
    answer = read_answer(replace(row, verdict=verdict.to_dict()), anchor)
    return ENVIRONMENT.get_template("notebook.html").render(answer=answer)


def render(template: str, script: str | None = None, /, **values: object) -> str:
    """Return a page of a template that extends ``page.html``.

    Only the file ``script`` may run, which is allowed by its hash.
    """
    code = "" if script is None else ENVIRONMENT.get_template(script).render()
    return ENVIRONMENT.get_template(template).render(
        script=Markup(code), content_policy=content_policy(code), **values
    )


def content_policy(code: str, *, fetches: bool = False) -> str:
    """Return a content security policy that allows inline styles and this script alone.

    With ``fetches`` the script may ask the server that the page came from.
    """
    rules = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    if not code:
        return rules
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    connections = "; connect-src 'self'" if fetches else ""
    return f"{rules}; script-src 'sha256-{digest}'{connections}"


def with_interval(
    value: float | None, low: float | None, high: float | None, form: str = ".3f"
) -> str:
    """Format a value, followed by its interval if there is one; ``-`` for none."""
    if value is None:
        return "-"
    between = interval(low, high, form)
    return f"{value:{form}}" if between == "-" else f"{value:{form}} ({between})"


def interval(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Format an interval; ``-`` for none."""
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"


def shown_text(text: str) -> str:
    """Return a plain text in which every character is visible.

    Direction marks, characters without width and lone surrogates become ``[U+202E]``; control
    characters except line breaks and tabs become U+FFFD.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _INVISIBLE.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)
    return _CONTROLS.sub("\ufffd", text)


def _visible(value: object) -> object:
    """Make a template's value visible, unless it is finished markup."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return shown_text(value)
    return value


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _shade(value: float | None) -> int:
    """Return the shade of a probability, 0 to 9."""
    return 0 if value is None else min(9, int(10 * value))


def _shaded(parts: Iterable[ContextPart]) -> Markup:
    """Return a context with shaded sentences; one call each, for pages have tens of thousands."""
    html: list[str] = []  # plain strings: marking each one up is slow
    for part in parts:
        text, verdict = escape(shown_text(part.text)), part.verdict
        if verdict is None:
            html.append(text)
            continue
        both = (verdict.relevance, verdict.utilization)
        classes = "tv-s tv-r{} tv-u{}".format(*map(_shade, both))
        numbers = "·".join(map(_number, both))
        anchor = "" if part.page_id is None else f' id="{part.page_id}"'
        html.append(f'<span class="{classes}" data-n="{numbers}"{anchor}>{text}</span>')
    return Markup("".join(html))


ENVIRONMENT = Environment(
    loader=PackageLoader("trivet.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_visible,
)
ENVIRONMENT.filters.update(drawing=Markup, number=_number, shaded=_shaded)
ENVIRONMENT.tests["a_number"] = _NUMBER.fullmatch
