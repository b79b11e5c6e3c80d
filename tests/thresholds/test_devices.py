"""``trivet calibrate`` computes where it is told by ``--device``, or by ``--backend``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trivet.__main__ import app
from trivet.bundle.bundle import read_bundle
from trivet.calibrate import calibrate
from trivet.errors import BackendError, BundleError


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Write rows with verdicts of both kinds."""
    texts = {"question": "", "contexts": ["The mill is old."], "response": "The boat is red."}
    labels = [{"adherent": True}, {"unsupported": [[0, 16]], "adherent": False}] * 4
    rows = [{**texts, "group": str(n), "labels": label} for n, label in enumerate(labels)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return f"jsonl:{file}"


@pytest.mark.parametrize("graph", [False, True])
def test_it_is_computed_on_the_device(
    tiny_bundle: Path, data: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, graph: bool
) -> None:
    out = tmp_path / "out"
    command = ["calibrate", str(tiny_bundle), "--out", str(out), "--data", data, "--split", "all"]
    command += ["--thresholds-only", "--backend", "torch"] if graph else []
    refused = CliRunner().invoke(app, [*command, "--device", "cuda:99"]).exception
    assert isinstance(refused, BackendError) and "no device cuda:99" in str(refused)
    assert not out.exists()
    with caplog.at_level("INFO"):
        result = CliRunner().invoke(app, [*command, "--device", "cpu"])
    assert result.exit_code in (0, 4), result.output
    assert ("torch fp32 on cpu loaded" in caplog.text) is graph
    info = read_bundle(out).info
    assert bool(info.graphs) is graph and bool(info.calibration.heads) is not graph


def test_out_holds_the_calibrated_bundle(tiny_bundle: Path, data: str, tmp_path: Path) -> None:
    before, out = read_bundle(tiny_bundle), tmp_path / "out"
    calibrated = calibrate(tiny_bundle, [data], "all", out=out)
    assert read_bundle(tiny_bundle) == before
    assert read_bundle(out).info.calibration == calibrated.info
    (out / "notes.doc").touch()
    with pytest.raises(BundleError, match=r"holds notes\.doc, which is not part of a bundle"):
        calibrate(tiny_bundle, [data], "all", out=out)
