"""``calibrate`` with a kept layer: support's map, the layer's scale and shift change alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trivet.bundle.bundle import read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.weights import load_rag_model
from trivet.calibrate import calibrate
from trivet.errors import BundleError, DataError
from trivet.thresholds import report
from trivet.thresholds.choices import Choices

KEEP = Choices(keep_layer=True)
PASSAGE = "The mill was built in 1790. It grinds flour, and the ferry beside it is red."
RIGHT = ("The mill grinds flour.", "It was built in 1790.", "The ferry is red.")
WRONG = ("A dragon lives there.", "Tickets cost nine euros.", "The ferry is 300 metres long.")


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Return rows of one right and one wrong sentence, each row of a document of its own."""
    return [
        {
            "question": "What of the mill?",
            "contexts": [PASSAGE],
            "response": f"{right} {wrong}",
            "labels": {"unsupported": [[len(right) + 1, len(right) + 1 + len(wrong)]]},
            "group": f"{right} {wrong}",
        }
        for right in RIGHT
        for wrong in WRONG
    ]


def spec_of(path: Path, rows: list[dict[str, Any]]) -> list[str]:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return [f"jsonl:{path}"]


def test_supports_map_and_scale_and_shift_of_the_layer_alone_change(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    specs = spec_of(tmp_path / "rows.jsonl", rows)
    calibrated = calibrate(EMBEDDED_BUNDLE, specs, "all", KEEP, tmp_path / "mine")
    before, after = (read_bundle(folder).info for folder in (EMBEDDED_BUNDLE, tmp_path / "mine"))
    old, new = (info.calibration.sentence_layer() for info in (before, after))
    scale = new.weights[0] / old.weights[0]
    assert scale != pytest.approx(1, abs=0.01)
    assert new.weights == pytest.approx([scale * weight for weight in old.weights])
    assert new.shift != pytest.approx(scale * old.shift, abs=0.01)
    assert load_rag_model(read_bundle(tmp_path / "mine")).sentence_layer == new
    maps = before.calibration.heads
    assert after.calibration.heads == maps | {"support": after.calibration.heads["support"]}
    assert after.calibration.heads["support"] != maps["support"]
    assert after.calibration.data == (*before.calibration.data, *specs)
    assert after.thresholds is not None and before.thresholds is not None
    assert f"layer: scale {new.scale:.3f}" in report.lines(calibrated.reports, calibrated.chosen)[0]


def test_rows_of_one_kind_and_bundles_without_a_layer_are_refused(
    rows: list[dict[str, Any]], tiny_bundle: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    right = [row | {"labels": {"unsupported": []}} for row in rows]
    with pytest.raises(DataError, match="support: needs labels of both kinds"):
        calibrate(EMBEDDED_BUNDLE, spec_of(tmp_path / "r.jsonl", right), "all", KEEP, out)
    whole = [{**row, "labels": {"adherent": n % 2 == 0}} for n, row in enumerate(rows)]
    with pytest.raises(DataError, match="support: needs labels of sentences of both kinds"):
        calibrate(EMBEDDED_BUNDLE, spec_of(tmp_path / "w.jsonl", whole), "all", KEEP, out)
    assert not out.exists()
    with pytest.raises(BundleError, match="no layer over sentences to keep"):
        calibrate(tiny_bundle, spec_of(tmp_path / "rows.jsonl", rows), "all", KEEP, out)
