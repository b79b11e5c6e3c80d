"""Plots are well-formed, escaped and self-contained, with the right numbers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.measures.curves import ReliabilityBin, roc_points
from trivet.report.plots import histogram_svg, interval_svg, reliability_svg, roc_svg

SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str, title: str) -> ElementTree.Element:
    """Parse a drawing and check the properties of all drawings."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg" and root.get("role") == "img"
    assert root[0].tag == f"{SVG}title" and root[0].text == title
    assert "nan" not in svg.lower() and "inf" not in svg.replace("info", "")
    assert not re.search(r"<script|href|url\(| id=", svg)
    width, height = (float(root.get(name) or 0) for name in ("width", "height"))
    for element in root.iter():
        for name, limit in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            assert -1 <= float(element.get(name) or 0) <= limit, element.attrib
    return root


def test_a_reliability_curve_shows_both_errors() -> None:
    after = [ReliabilityBin(0.0, 0.5, 0.25, 0.25, 3), ReliabilityBin(0.5, 1.0, 0.75, 0.5, 1)]
    before = [ReliabilityBin(0.0, 1.0, 0.5, 1.0, 4)]
    svg = reliability_svg(after, "a <b> & c", before)
    texts = [text.text for text in parsed(svg, "a <b> & c").iter(f"{SVG}text")]
    assert "after ECE 0.062" in texts and "before ECE 0.500" in texts
    assert len(list(parsed(svg, "a <b> & c").iter(f"{SVG}circle"))) == 2
    parsed(reliability_svg([], "nothing"), "nothing")


def test_a_roc_plot_names_its_curves_with_their_areas() -> None:
    points = roc_points(np.array([0.9, 0.8, 0.2]), np.array([True, False, False]))
    long = roc_points(np.linspace(0, 1, 5000), np.arange(5000) % 3 == 0)
    svg = roc_svg({"model <1>": points, "other " + "x" * 80: long}, "ROC")
    texts = [text.text or "" for text in parsed(svg, "ROC").iter(f"{SVG}text")]
    assert "model <1> 1.000" in texts
    assert len(svg) < 20_000


def test_a_histogram_has_a_bar_where_there_are_values() -> None:
    svg = histogram_svg(np.array([0.0, 0.01, 0.5, 1.0, 1.0, 1.0]), "scores", "rows")
    bars = list(parsed(svg, "scores").iter(f"{SVG}rect"))
    heights = [float(bar.get("height") or 0) for bar in bars]
    assert heights == pytest.approx([60, 30, 90])
    assert not list(parsed(histogram_svg(np.zeros(0), "none", "rows"), "none").iter(f"{SVG}rect"))


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(0, 1e6)), max_size=8))
def test_any_intervals_stay_inside_the_picture(drawn: list[tuple[float, float, float]]) -> None:
    rows = [(f"row {i}", v, v - below, v + above) for i, (v, below, above) in enumerate(drawn)]
    parsed(interval_svg(rows, "t", "u"), "t")
