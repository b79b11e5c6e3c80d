"""The record of a calibration in the bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from trivet.bundle.schema import (
    CalibrationError,
    CalibrationInfo,
    KnotsInfo,
    PlattInfo,
    SentenceLayerInfo,
)
from trivet.calibration.fit import KnotMap, Map, Method
from trivet.calibration.measures import HeadReport
from trivet.model.architecture import HeadName


def describe(
    old: CalibrationInfo,
    fitted: Mapping[HeadName, Map],
    reports: Sequence[HeadReport],
    method: Method,
    specs: Sequence[str],
    split: str,
) -> CalibrationInfo:
    """Return the bundle's record: this calibration combined with earlier ones."""
    heads, knots = dict(old.heads), dict(old.knots)
    for name, found in fitted.items():
        knots.pop(name, None)
        if isinstance(found, KnotMap):
            knots[name] = KnotsInfo(x=found.x, y=found.y)
            continue
        one = heads.get(name, PlattInfo(scale=1.0, shift=0.0))
        heads[name] = PlattInfo(
            scale=found.scale * one.scale,
            shift=found.scale * one.shift + found.shift,
            lexical_overlap=found.scale * one.lexical_overlap + found.lexical_overlap,
        )
    errors = dict(old.errors)
    for report in reports:
        if report.name in fitted:
            part = report.errors[0]
            error = CalibrationError(before=part.before, after=part.after, n=part.n)
            errors[cast(HeadName, report.name)] = error
    layer = old.sentences
    if "support" in fitted:
        found = fitted["support"]
        layer = SentenceLayerInfo.of(found.layer) if found.layer.weights else None
    return CalibrationInfo(
        method=method,
        heads=heads,
        knots=knots,
        sentences=layer,
        errors=errors,
        data=tuple(specs),
        split=split,
    )
