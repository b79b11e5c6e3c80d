"""``calibrate`` writes another bundle and leaves the given one as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trivet.bundle.bundle import read_bundle
from trivet.calibrate import calibrate
from trivet.errors import BundleError


def test_out_holds_the_calibrated_bundle(tiny_bundle: Path, tmp_path: Path) -> None:
    response, out, data = "The mill is old. The boat is red.", tmp_path / "out", tmp_path / "data"
    texts = {"question": "What?", "contexts": ["The mill is old."], "response": response}
    labels = [{"unsupported": [[start, start + 16]], "adherent": False} for start in (0, 17)] * 4
    rows = [{**texts, "group": str(n), "labels": each} for n, each in enumerate(labels)]
    data.with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    before, specs = read_bundle(tiny_bundle), [f"jsonl:{data}.jsonl"]
    found = calibrate(tiny_bundle, specs, "all", out=out)
    assert read_bundle(tiny_bundle) == before
    assert read_bundle(out).info.calibration == found.info
    (out / "notes.doc").touch()
    with pytest.raises(BundleError, match=r"holds notes\.doc, which is not part of a bundle"):
        calibrate(tiny_bundle, specs, "all", out=out)
