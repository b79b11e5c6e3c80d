"""Plots as inline SVG: reliability, ROC, intervals and histograms.

Text and axes use ``currentColor``, series the CSS variables ``--series-1`` to ``--series-5`` and
dashes. Sizes are pixels of a ``viewBox`` that shrinks with the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import numpy as np

from trivet.measures.curves import FloatArray, ReliabilityBin, expected_calibration_error

_SIDE = 240  # of a square plot
_LEFT, _TOP, _BELOW, _RIGHT = 46, 30, 40, 14  # margins
_LETTER = 6.4  # width of a wide letter at 11 pixels
_FALLBACKS = ("#3b82c4", "#d97706", "#0f9d76", "#b455c0", "#c2410c")
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2")
_MAX_POINTS = 400  # of one curve


def reliability_svg(
    bins: Sequence[ReliabilityBin], title: str, before: Sequence[ReliabilityBin] = ()
) -> str:
    """Draw the share of true predictions over the predicted probability.

    Bars show the distribution of the predictions; ``before`` a calibration is a dashed curve.
    """
    parts = _square("predicted probability", "share that is true")
    most = max((bar.count for bar in bins), default=1)
    for bar in bins:
        height = bar.count / most * 0.2 * _SIDE
        width = (bar.high - bar.low) * _SIDE - 1
        fill = 'fill="currentColor" fill-opacity=".16"'
        parts.append(_bar(_x(bar.low), _TOP + _SIDE - height, width, height, fill))
    legend = []
    for number, (name, curve) in enumerate((("", bins), ("before", before))):
        if curve:
            points = [(bar.probability, bar.share) for bar in curve]
            parts.append(_line(points, _stroke(number)))
            if not number:
                parts += [_dot(_x(x), _y(y), number) for x, y in points]
            legend.append(f"{name} ECE {expected_calibration_error(curve):.3f}".strip())
    if before:
        legend[0] = f"after {legend[0]}"
    for row, words in enumerate(legend):
        parts.append(_text(_LEFT + 8, _TOP + 16 + 15 * row, words, colour=_colour(row)))
    return _svg(_LEFT + _SIDE + _RIGHT, _TOP + _SIDE + _BELOW, title, parts)


def roc_svg(curves: Mapping[str, tuple[FloatArray, FloatArray]], title: str) -> str:
    """Draw ROC curves of `trivet.measures.curves.roc_points`, with their areas in the legend."""
    parts = _square("false positive rate", "true positive rate")
    foot = _TOP + _SIDE + _BELOW + 6
    width = float(_LEFT + _SIDE + _RIGHT)
    for number, (name, (false, true)) in enumerate(curves.items()):
        kept = np.unique(np.linspace(0, len(false) - 1, min(len(false), _MAX_POINTS)).round())
        points = [(float(false[i]), float(true[i])) for i in kept.astype(int)]
        parts.append(_line(points, _stroke(number)))
        area = float(np.sum(np.diff(false) * (true[1:] + true[:-1]) / 2))
        y = foot + 16 * number
        parts.append(f'<path d="M{_LEFT} {y}h24" fill="none" {_stroke(number)}/>')
        words = f"{name} {area:.3f}"
        parts.append(_text(_LEFT + 30, y + 4, words))
        width = max(width, _LEFT + 30 + _LETTER * len(words))
    return _svg(width, foot + 16 * len(curves), title, parts)


def interval_svg(
    rows: Sequence[tuple[str, float, float | None, float | None]],
    title: str,
    unit: str,
    *around: float,
) -> str:
    """Draw a dot for each row (name, value, low, high; finite), with its interval if there is one.

    The axis contains ``around``, such as 0 for differences, and 0 and 1 for scores.
    """
    known = [number for _, *numbers in rows for number in numbers if number is not None]
    known += around
    ticks = _ticks(min(known, default=0.0), max(known, default=1.0))
    first, span = ticks[0], ticks[-1] - ticks[0]
    left = 14 + _LETTER * max((len(name) for name, *_ in rows), default=0)
    wide, foot = 300, _TOP + 20 * len(rows) + 6

    def x(value: float) -> float:
        return left + (value - first) / span * wide

    parts = []
    digits = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    for tick in ticks:
        line = f'd="M{_number(x(tick))} {_TOP}V{foot}" stroke="currentColor"'
        parts.append(f'<path {line} stroke-opacity=".18"/>')
        parts.append(_text(x(tick), foot + 15, f"{tick:.{digits}f}", anchor="middle"))
    parts.append(_text(left + wide / 2, foot + 32, unit, anchor="middle"))
    for number, (name, value, low, high) in enumerate(rows):
        y = _TOP + 20 * number + 13
        parts.append(_text(left - 8, y + 4, name, anchor="end"))
        if low is not None and high is not None:
            line = f'd="M{_number(x(low))} {y}H{_number(x(high))}"'
            parts.append(f'<path {line} style="stroke:{_colour(0)}" stroke-width="2"/>')
        parts.append(_dot(x(value), y, 0))
    return _svg(left + wide + 24, foot + 40, title, parts)


def histogram_svg(values: FloatArray, title: str, unit: str) -> str:
    """Draw a histogram of values in [0, 1], named by the title; ``unit`` is what is counted."""
    counts, _ = np.histogram(values, bins=20, range=(0.0, 1.0))
    most = max(int(counts.max()), 1)
    wide, high = 200, 90
    step = wide / len(counts)
    foot = _TOP + high
    parts, fill = [], f'style="fill:{_colour(0)}"'
    for index, count in enumerate(counts.tolist()):
        if count:
            height = high * count / most
            parts.append(_bar(_LEFT + step * index, foot - height, step - 1, height, fill))
    parts.append(f'<path d="M{_LEFT} {foot}h{wide}" stroke="currentColor" stroke-opacity=".5"/>')
    for tick in (0.0, 0.5, 1.0):
        parts.append(_text(_LEFT + wide * tick, foot + 15, f"{tick:g}", anchor="middle"))
    parts.append(_text(_LEFT - 6, _TOP + 4, f"{counts.max():,}", anchor="end"))
    parts.append(_text(_LEFT - 6, foot, "0", anchor="end"))
    parts.append(_text(_LEFT + wide / 2, foot + 30, title, anchor="middle"))
    middle = _TOP + high // 2
    turned = f'transform="rotate(-90 12 {middle})"'
    parts.append(_text(12, middle, unit, anchor="middle", more=turned))
    return _svg(_LEFT + wide + _RIGHT, foot + _BELOW, title, parts)


def _ticks(low: float, high: float) -> list[float]:
    """Return 3 to 8 round numbers that enclose a range."""
    if high - low < 1e-9 * max(1.0, abs(low)):
        low, high = low - 0.5 * max(0.1, abs(low)), high + 0.5 * max(0.1, abs(high))
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(n for n in (1, 2, 5, 10) if n * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def _square(
    across: str, up: str, diagonal: bool = True, ticks: Sequence[float] = (0.0, 0.5, 1.0)
) -> list[str]:
    """Return frame, ticks from 0 to 1, axis names and diagonal of a square plot."""
    parts = [
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" '
        'stroke="currentColor" stroke-opacity=".5"/>'
    ]
    for tick in ticks:
        parts.append(_text(_x(tick), _TOP + _SIDE + 15, f"{tick:g}", anchor="middle"))
        parts.append(_text(_LEFT - 6, _y(tick) + 4, f"{tick:g}", anchor="end"))
    parts.append(_text(_LEFT + _SIDE / 2, _TOP + _SIDE + 30, across, anchor="middle"))
    middle = _TOP + _SIDE // 2
    turned = f'transform="rotate(-90 12 {middle})"'
    parts.append(_text(12, middle, up, anchor="middle", more=turned))
    if diagonal:
        parts.append(_line([(0, 0), (1, 1)], 'stroke="currentColor" stroke-opacity=".35"'))
    return parts


def _x(value: float) -> float:
    return _LEFT + value * _SIDE


def _y(value: float) -> float:
    return _TOP + (1 - value) * _SIDE


def _colour(number: int) -> str:
    series = number % len(_FALLBACKS)
    return f"var(--series-{series + 1}, {_FALLBACKS[series]})"


def _stroke(number: int) -> str:
    dash = _DASHES[number % len(_DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    # CSS variables work in a style, not in an attribute.
    return f'style="stroke:{_colour(number)}" stroke-width="2"{dashes}'


def _line(points: Iterable[tuple[float, float]], stroke: str) -> str:
    steps = " ".join(f"{_number(_x(x))},{_number(_y(y))}" for x, y in points)
    return f'<polyline points="{steps}" fill="none" {stroke}/>'


def _bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    corner = f'x="{_number(x)}" y="{_number(y)}"'
    return f'<rect {corner} width="{_number(width)}" height="{_number(height)}" {fill}/>'


def _dot(x: float, y: float, number: int) -> str:
    return f'<circle cx="{_number(x)}" cy="{_number(y)}" r="3.5" style="fill:{_colour(number)}"/>'


def _text(
    x: float, y: float, words: str, anchor: str = "start", colour: str = "", more: str = ""
) -> str:
    style = f' style="fill:{colour}"' if colour else ""
    anchored = f'x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}"'
    return f"<text {anchored}{style}{' ' + more if more else ''}>{escape(words)}</text>"


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    wide, high = _number(max(width, 16 + 7.4 * len(title))), _number(height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{wide}" height="{high}" '
        f'viewBox="0 0 {wide} {high}" '
        'style="max-width:100%;height:auto" font-family="system-ui, sans-serif" font-size="11" '
        f'fill="currentColor"><title>{escape(title)}</title>'
        f'<text x="8" y="17" font-size="13" font-weight="600">{escape(title)}</text>'
        f"{''.join(parts)}</svg>\n"
    )


def _number(value: float) -> str:
    """Format a length with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
