"""Adaptation: train from a bundle on rows of one's own, calibrate, and test before and after.

Files in the folder of an adaptation:

- ``rows.jsonl``: the labelled rows, with their documents as groups and their parts as splits
- ``training/``: configuration, logs and trained bundle of ``trivet train``
- ``bundle/``: the adapted model, calibrated, in fp32
- ``adapt.json``: figures before and after
"""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import cast

from trivet.adaptation import (
    TEST,
    TRAIN,
    VALIDATION,
    Adapted,
    compare_bundles,
    count_parts,
    count_shared,
    split_by_document,
)
from trivet.bundle.bundle import add_files, read_bundle
from trivet.calibrate import calibrate
from trivet.configs.loading import dump_config, load_config
from trivet.configs.schema import SourceConfig, TrainConfig
from trivet.errors import BundleError, ConfigError, DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.measured_bundle import measure_bundle
from trivet.export import export_onnx
from trivet.heads import HeadName
from trivet.labelled.labelled_jsonl import to_row
from trivet.labelled.sources import load_own, load_source
from trivet.records import LabelledExample, to_json_text
from trivet.thresholds.choices import Choices
from trivet.thresholds.cross_fitting import PartError
from trivet.train import train

logger = logging.getLogger(__name__)

ROWS, TRAINING, BUNDLE, RESULT = "rows.jsonl", "training", "bundle", "adapt.json"


def adapt(
    file: Path,
    out: Path,
    overrides: Sequence[str] = (),
    command: str = "trivet adapt",
    label: str | None = None,
) -> Adapted:
    """Adapt a bundle to labelled rows, by the recipe ``adapt.yaml``.

    Heads and windows are those of the bundle, unless ``overrides`` has others. A killed adaptation
    continues if it is called again with the same arguments.

    Args:
        file: Labelled JSONL, or a table with a column of labels.
        out: Folder for the adaptation; created if needed.
        overrides: Settings of the recipe as ``KEY=VALUE``; ``encoder.name`` is the bundle to start
            from, ``embedded`` by default.
        command: Command line, recorded in the bundle.
        label: Column of a table's labels; ``None`` looks for it as `trivet test FILE` does.

    Raises:
        DataError: The file has no labels or too few documents.
        ConfigError: A setting is refused, or the folder has another adaptation.
        BundleError: The folder has a finished adaptation, or the first bundle is refused.
    """
    began = time.monotonic()
    rows = split_by_document(load_own(file, label), str(file))
    config = _configure(out, overrides)
    _begin(out, rows, config)
    parts = count_parts(rows)
    spec = f"jsonl:{out / ROWS}"
    logger.info("1 of 4: testing %s on %d rows", config.encoder.name, parts[TEST][0])
    before = measure_bundle(Evaluator(Path(config.encoder.name)), [spec], TEST)
    trained = out / TRAINING / "bundle"
    if not _is_bundle(trained):
        logger.info("2 of 4: training on %d rows", parts[TRAIN][0])
        train(config, resume=True, command=command)
    logger.info("3 of 4: calibrating on %d rows, and exporting", parts[VALIDATION][0])
    _write_bundle(trained, config.encoder.name, spec, out)
    logger.info("4 of 4: testing %s", out / BUNDLE)
    after = measure_bundle(Evaluator(out / BUNDLE), [spec], TEST)
    changes = compare_bundles(before.rows, after.rows)
    adapted = Adapted(
        bundle=out / BUNDLE,
        start=config.encoder.name,
        parts=parts,
        shared=count_shared(rows),
        changes=changes,
        minutes=(time.monotonic() - began) / 60,
    )
    _write_result(adapted, out / RESULT, command)
    shutil.rmtree(out / TRAINING / "checkpoints", ignore_errors=True)
    return adapted


def _configure(out: Path, overrides: Sequence[str]) -> TrainConfig:
    first = read_bundle(load_config([Path("adapt.yaml")], overrides).encoder.name).info
    # The layout is that of the bundle which training begins from; no setting names it.
    window = dataclasses.asdict(first.window)
    del window["layout"]
    same = [f"window.{key}={value}" for key, value in window.items()]
    same += [f"heads=[{','.join(first.heads)}]", f"faithfulness={first.faithfulness}"]
    config = load_config([Path("adapt.yaml")], [*same, *overrides])
    spec = f"jsonl:{out / ROWS}"
    config.data.train = [SourceConfig(spec=spec, split=TRAIN)]
    config.data.dev = [SourceConfig(spec=spec, split=VALIDATION)]
    config.run.folder = str(out / TRAINING)
    return config


def _begin(out: Path, rows: Sequence[LabelledExample], config: TrainConfig) -> None:
    """Write the rows, or check that the folder has an unfinished adaptation of the same rows."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is not a folder; choose another one")
    if _is_bundle(out / BUNDLE):
        raise BundleError(f"{out / BUNDLE} exists already; choose another folder")
    text = "".join(f"{to_json_text(to_row(row))}\n" for row in rows)
    kept = {out / ROWS: text, out / TRAINING / "config.yaml": dump_config(config)}
    for path, wanted in kept.items():
        if path.exists() and path.read_text(encoding="utf-8") != wanted:
            raise ConfigError(
                f"{path} is of an adaptation with other rows or settings; choose another folder"
            )
    out.mkdir(parents=True, exist_ok=True)
    (out / ROWS).write_text(text, encoding="utf-8")


def _is_bundle(folder: Path) -> bool:
    return (folder / "MANIFEST.json").exists()


def _write_bundle(trained: Path, start: str, spec: str, out: Path) -> None:
    """Calibrate the trained bundle on the validation part, and export it in fp32.

    A few steps with small learning rates move weights by less than the rounding to int8, which
    would give back the trunk of the first bundle under heads that are fitted to another.
    """
    info, old = read_bundle(trained).info, read_bundle(start).info.thresholds
    choosing = load_source(spec, VALIDATION)[0]
    if old != info.thresholds and all(row.labels.adherent is None for row in choosing):
        # No label could choose these thresholds.
        add_files(trained, {}, info.model_copy(update={"thresholds": old}))
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        export_onnx(_calibrate(trained, spec, Path(scratch)), out / BUNDLE, keep=("fp32",))


def _calibrate(trained: Path, spec: str, scratch: Path) -> Path:
    """Return a bundle in which the heads are calibrated whose cross-fitted error falls by it."""
    try:
        calibrated = calibrate(trained, [spec], VALIDATION, out=scratch / "all")
        fitted = [report for report in calibrated.reports if report.fitted is not None]
        helped = [report for report in fitted if _helps(report.errors[0])]
        if helped == fitted:
            return scratch / "all"
        names = ", ".join(report.name for report in fitted if report not in helped)
        logger.warning("not calibrated, for it would not help: %s", names)
        if not helped:
            return trained
        choices = Choices(heads=tuple(cast(HeadName, report.name) for report in helped))
        calibrate(trained, [spec], VALIDATION, choices, scratch / "helped")
        return scratch / "helped"
    except DataError as error:
        logger.warning("not calibrated: %s", error)
        return trained


def _helps(error: PartError) -> bool:
    before, after = error.before, error.after
    return before is not None and after is not None and after < before


def _write_result(adapted: Adapted, path: Path, command: str) -> None:
    changes = [dataclasses.asdict(row) | {"outcome": row.outcome} for row in adapted.changes]
    about = {"command": command, "date": date.today().isoformat(), "better": adapted.better}
    record = about | vars(adapted) | {"bundle": str(adapted.bundle), "changes": changes}
    path.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
