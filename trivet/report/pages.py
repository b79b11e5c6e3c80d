"""Self-contained HTML pages: text, tables and drawings in one file that loads nothing.

A page is readable in dark and light, on a narrow screen and on paper. It knows nothing of what it
shows: tables come as text cells, drawings as finished SVG (see `trivet.report.plots`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

_NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ?%)?( (to|±) [-+]?[\d.,]+( ?%)?)?|-")
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
    for section in sections:
        for row in section.rows:
            if len(row) != len(section.header):
                raise ValueError(
                    f"table {section.title!r}: a row of {len(row)} cells {list(row)} must have one "
                    f"for each of the {len(section.header)} columns {list(section.header)}"
                )
        for svg in section.svgs:
            _check_drawing(svg, section.title)
    return _PAGE.render(title=title, sections=sections)


def _check_drawing(svg: str, where: str) -> None:
    """Refuse what is no drawing alone: the page promises to run and to load nothing."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"section {where!r}: a drawing is not well-formed XML: {error}") from error
    if _bare(root.tag) != "svg":
        raise ValueError(f"section {where!r}: a drawing is <{_bare(root.tag)}>, not <svg>")
    if _LOADS.search(svg):
        raise ValueError(f"section {where!r}: a drawing must not load anything by url(...)")
    for element in root.iter():
        tag = _bare(element.tag)
        if tag.lower() in _FORBIDDEN:
            raise ValueError(f"section {where!r}: a drawing must not hold <{tag}>")
        for name in map(_bare, element.attrib):
            if name.lower().startswith("on") or name.lower() == "href":
                raise ValueError(f"section {where!r}: <{tag}> must not have {name}=")


def _bare(name: str) -> str:
    """Return a name without its XML namespace."""
    return name.rpartition("}")[2]


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


_ENVIRONMENT = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.filters["drawing"] = Markup  # checked above, escaped by whoever drew it
_ENVIRONMENT.tests["a_number"] = _is_number
_PAGE = _ENVIRONMENT.from_string(
    """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ title }}</title>
<style>
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1b1f24; --faint: #5a6472; --line: #d4dae1; --shade: #f4f6f8;
  --series-1: #0b62b0; --series-2: #b4440f; --series-3: #2c7a3f;
  --series-4: #7a3fa0; --series-5: #8a6100; --series-6: #0a7580;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --ink: #e6e9ed; --faint: #9aa5b1; --line: #363d46; --shade: #1d2127;
    --series-1: #6db3f2; --series-2: #f0936a; --series-3: #74c68a;
    --series-4: #c295e6; --series-5: #dcb655; --series-6: #5cc4cf;
  }
}
body {
  margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 3rem;
  background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
}
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p { max-width: 48rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.87rem; }
th, td { padding: 0.25rem 0.7rem; border-bottom: 1px solid var(--line); text-align: left; }
th { background: var(--shade); position: sticky; top: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { display: inline-block; margin: 0.8rem 1rem 0 0; vertical-align: top; max-width: 100%; }
svg { max-width: 100%; height: auto; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  .wide { overflow: visible; } th { position: static; }
  tr, figure { break-inside: avoid; } h2 { break-after: avoid; }
  thead { display: table-header-group; }
}
</style>
</head>
<body>
<h1>{{ title }}</h1>
{% for section in sections %}
<section>
<h2>{{ section.title }}</h2>
{% for paragraph in section.paragraphs %}
<p>{{ paragraph }}</p>
{% endfor %}
{% if section.rows %}
<div class="wide"><table>
<thead><tr>
{% for name in section.header %}
{% set right = section.rows[0][loop.index0] is a_number %}
<th scope="col"{% if right %} class="number"{% endif %}>{{ name }}</th>
{% endfor %}
</tr></thead>
<tbody>
{% for row in section.rows %}
<tr>
{% for cell in row %}
<td{% if cell is a_number %} class="number"{% endif %}>{{ cell }}</td>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table></div>
{% endif %}
{% for svg in section.svgs %}
<figure>{{ svg | drawing }}</figure>
{% endfor %}
</section>
{% endfor %}
</body>
</html>
"""
)
