"""Record of a calibration in the bundle, its lines of text, and a page with its curves."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from trivet.bundle.info import (
    CalibrationError,
    CalibrationInfo,
    PlattInfo,
    SentenceLayerInfo,
)
from trivet.errors import DataError
from trivet.heads import HeadName
from trivet.report.pages import Section, render_page
from trivet.report.plots import reliability_svg
from trivet.thresholds.choices import WEIGHED
from trivet.thresholds.choose import ChosenThresholds
from trivet.thresholds.cross_fitting import HeadReport
from trivet.thresholds.fit import LinearMap

PAGE_NAME, JSON_NAME = "calibration.html", "calibration.json"
_HEADER = ("rows", "n", "ECE before", "ECE after", "RMSE before", "RMSE after")
_USES = ("use", "threshold", "AUROC", "95 % interval", "precision", "recall", "F1", "flagged", "n")
_EXPLAINED = (
    "ECE: expected calibration error, 15 bins. RMSE: of the examples' shares of true sentences. "
    "After: two-fold cross-fitted by group, so the map of every row is fitted on others; the map "
    "in the bundle is fitted on all rows."
)


def lines(reports: Sequence[HeadReport], chosen: ChosenThresholds) -> list[str]:
    """Return one line for each head, rule, threshold, bound, data set without one, and source."""
    texts = []
    for report in reports:
        every = report.errors[0]
        words = f"{report.name}: {_map_words(report)}; ECE of {every.n} {report.unit} "
        texts.append(f"{words}{_figure(every.before)} -> {_figure(every.after)}")
    texts += [_rule_words(chosen.rate)] if chosen.uses else []
    texts += [use.words() for use in chosen.uses]
    texts += [bound.words() for bound in chosen.bounds]
    texts += [small.words() for small in chosen.too_few]
    return texts + [source.words() for source in chosen.sources]


def check_path(path: Path) -> None:
    """Refuse an invalid path for the report.

    Raises:
        DataError: The page's folder does not exist, or the folder's name is a file.
    """
    if path.suffix == ".html" and not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent} to write it into")
    if path.suffix != ".html" and path.exists() and not path.is_dir():
        raise DataError(f"{path}: is not a folder; give FILE.html or a folder for the report")


def write_report(
    path: Path, info: CalibrationInfo, reports: Sequence[HeadReport], chosen: ChosenThresholds
) -> Path:
    """Write ``FILE.html``, or a folder that also has JSON figures and SVG curves.

    Returns:
        Path of the page.
    """
    curves = {report.name: _curve(report) for report in reports if report.before}
    page = render_page("Calibration", _sections(info, reports, chosen, curves))
    if path.suffix == ".html":
        path.write_text(page, encoding="utf-8")
        return path
    path.mkdir(parents=True, exist_ok=True)
    (path / PAGE_NAME).write_text(page, encoding="utf-8")
    record: dict[str, Any] = {
        "calibration": info.model_dump(),
        "heads": [dataclasses.asdict(report) for report in reports],
        "rate": chosen.rate,
        "thresholds": [dataclasses.asdict(use) for use in chosen.uses],
        "false_alarms": [dataclasses.asdict(bound) for bound in chosen.bounds],
        "too_few_documents": [dataclasses.asdict(small) for small in chosen.too_few],
        "sources": [dataclasses.asdict(source) for source in chosen.sources],
    }
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, indent=2)
    (path / JSON_NAME).write_text(f"{text}\n", encoding="utf-8")
    for name, svg in curves.items():
        (path / f"reliability_{name}.svg").write_text(svg, encoding="utf-8")
    return path / PAGE_NAME


def _sections(
    info: CalibrationInfo,
    reports: Sequence[HeadReport],
    chosen: ChosenThresholds,
    curves: dict[str, str],
) -> list[Section]:
    about = f"Fitted on {info.split} of {', '.join(info.data)}."
    sections = [Section("Outcome", (about, _EXPLAINED, *lines(reports, chosen)))]
    rows = [
        (
            use.use,
            "kept" if use.threshold is None else f"{use.threshold:.4f}",
            _figure(use.auroc),
            "-" if use.low is None else f"{_figure(use.low)} to {_figure(use.high)}",
            _figure(use.precision),
            _figure(use.recall),
            _figure(use.f1),
            str(use.flagged),
            str(use.n),
        )
        for use in chosen.uses
    ]
    sections.append(
        Section("Thresholds", ("Measured on the rows they were chosen on.",), _USES, rows)
    )
    for report in reports:
        shown = [i for i in range(len(_HEADER)) if i < 4 or report.unit == "context sentences"]
        cells = [
            (
                error.part,
                str(error.n),
                *map(_figure, (error.before, error.after, error.rmse_before, error.rmse_after)),
            )
            for error in report.errors
        ]
        sections.append(
            Section(
                f"{report.name}: {report.unit}",
                (f"{_map_words(report)}.",),
                [_HEADER[i] for i in shown],
                [[row[i] for i in shown] for row in cells],
                [curves[report.name]] if report.name in curves else [],
            )
        )
    return sections


def _curve(report: HeadReport) -> str:
    curves = (report.after, report.before) if report.after else (report.before, ())
    return reliability_svg(curves[0], f"{report.name}, {report.unit}", before=curves[1])


def _map_words(report: HeadReport) -> str:
    map_ = report.fitted
    words = "unchanged"
    if map_ is not None:
        words = f"scale {map_.scale:.3f}, shift {map_.shift:.3f}"
        for name in (column for column in WEIGHED if getattr(map_, column)):
            words += f", {name.replace('_', ' ')} {getattr(map_, name):.3f}"
        if map_.layer.weights:
            words += f", layer: scale {map_.layer.scale:.3f}, shift {map_.layer.shift:.3f}"
    return f"{words} ({report.note})" if report.note else words


def _rule_words(rate: float | None) -> str:
    if rate is None:
        return "rule: the best F1"
    return (
        f"rule: at most {100 * rate:g} % false alarms, of the faithful responses of each data set"
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def describe(
    old: CalibrationInfo,
    fitted: Mapping[HeadName, LinearMap],
    reports: Sequence[HeadReport],
    keeps_maps: bool,
    specs: Sequence[str],
    split: str,
) -> CalibrationInfo:
    """Return the bundle's record: this calibration combined with earlier ones."""
    heads = dict(old.heads)
    for name, map_ in fitted.items():
        base = heads.get(name, PlattInfo(scale=1.0, shift=0.0))
        heads[name] = PlattInfo(
            scale=map_.scale * base.scale,
            shift=map_.scale * base.shift + map_.shift,
            **{name: map_.scale * getattr(base, name) + getattr(map_, name) for name in WEIGHED},
        )
    errors = dict(old.errors)
    for report in reports:
        if report.name in fitted:
            part = report.errors[0]
            error = CalibrationError(before=part.before, after=part.after, n=part.n)
            errors[cast(HeadName, report.name)] = error
    layer = old.sentences
    if "support" in fitted:
        map_ = fitted["support"]
        layer = SentenceLayerInfo.of(map_.layer) if map_.layer.weights else None
    stays = keeps_maps or not heads.keys() <= fitted.keys()
    return CalibrationInfo(
        heads=heads,
        sentences=layer,
        completeness=old.completeness,
        errors=errors,
        # Maps that stay were fitted on earlier rows.
        data=tuple(dict.fromkeys((*(old.data if stays else ()), *specs))),
        split=split,
    )
