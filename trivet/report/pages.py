"""Self-contained HTML pages: text, tables and drawings in one file that loads nothing.

A page is readable in dark and light, on a narrow screen and on paper. It knows nothing of what it
shows: tables come as text cells, drawings as finished SVG (see `trivet.report.plots`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from trivet.report.environment import render

# In a page, names in another case mean the same.
_FORBIDDEN = ("script", "foreignobject", "image", "use", "a")
_LOADS = re.compile(
    r"@import|url\((?!['\"]?#)", re.IGNORECASE
)  # a url of the drawing's own part is fine


@dataclass(frozen=True)
class Section:
    """One part of a page; what is empty is left out.

    Attributes:
        title: Its heading, plain text.
        paragraphs: Plain text, above the table.
        header: The names of the table's columns.
        rows: The table's cells, plain text, one for each column.
        svgs: Finished drawings, ``<svg ...>...</svg>``, below the table. They are XML whose texts
            are escaped already; whoever draws them answers for that.
    """

    title: str
    paragraphs: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    svgs: Sequence[str] = ()


def render_page(title: str, sections: Sequence[Section]) -> str:
    """Return a whole HTML document, UTF-8, without a script or anything to load.

    Args:
        title: Of the document, plain text.
        sections: Its parts, in order.

    Raises:
        ValueError: A row has not one cell a column; or a drawing is no SVG, or holds something that
            runs or loads.
    """
    check_sections(sections)
    return render("page.html", title=title, sections=sections)


def check_sections(sections: Sequence[Section]) -> None:
    """Refuse tables that do not fit, and drawings that hold more than a drawing.

    Raises:
        ValueError: As `render_page`.
    """
    for section in sections:
        for row in section.rows:
            if len(row) != len(section.header):
                raise ValueError(
                    f"table {section.title!r}: a row of {len(row)} cells {list(row)} must have one "
                    f"for each of the {len(section.header)} columns {list(section.header)}"
                )
        for svg in section.svgs:
            _check_drawing(svg, section.title)


def _check_drawing(svg: str, where: str) -> None:
    """Refuse what is no drawing alone: the page promises to run and to load nothing."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"section {where!r}: a drawing is not well-formed XML: {error}") from error
    if _bare(root.tag) != "svg":
        raise ValueError(f"section {where!r}: a drawing is <{_bare(root.tag)}>, not <svg>")
    for element in root.iter():
        tag = _bare(element.tag)
        # What a <text> says is no rule: a name may well read "url(...)".
        rules = [*element.attrib.values(), (element.text or "") if tag.lower() == "style" else ""]
        if any(map(_LOADS.search, rules)):
            raise ValueError(f"section {where!r}: a drawing must not load anything by url(...)")
        if tag.lower() in _FORBIDDEN:
            raise ValueError(f"section {where!r}: a drawing must not hold <{tag}>")
        for name in map(_bare, element.attrib):
            if name.lower().startswith("on") or name.lower() == "href":
                raise ValueError(f"section {where!r}: <{tag}> must not have {name}=")


def _bare(name: str) -> str:
    """Return a name without its XML namespace."""
    return name.rpartition("}")[2]
