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
def command(tiny_bundle: Path, tmp_path: Path) -> list[str]:
    """Return a command over rows with verdicts of both kinds, which writes ``tmp_path / "out"``."""
    texts = {"question": "", "contexts": ["The mill is old."], "response": "The boat is red."}
    labels = [{"adherent": True}, {"unsupported": [[0, 16]], "adherent": False}] * 4
    rows = [{**texts, "group": str(n), "labels": each} for n, each in enumerate(labels)]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    given = ["calibrate", str(tiny_bundle), "--out", str(tmp_path / "out")]
    return [*given, "--data", f"jsonl:{data}", "--split", "all"]


def test_logits_are_computed_on_the_device(command: list[str], tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, [*command, "--device", "cuda:99"]).exception
    assert isinstance(refused, BackendError) and "no device cuda:99" in str(refused)
    assert not (tmp_path / "out").exists()
    result = CliRunner().invoke(app, [*command, "--device", "cpu"])
    assert result.exit_code in (0, 4), result.output
    assert read_bundle(tmp_path / "out").info.calibration.heads


def test_thresholds_alone_are_chosen_by_a_backend(
    command: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    command += ["--thresholds-only", "--backend", "torch", "--device"]
    refused = CliRunner().invoke(app, [*command, "cuda:99"]).exception
    assert isinstance(refused, BackendError) and "no device cuda:99" in str(refused)
    assert not (tmp_path / "out").exists()
    with caplog.at_level("INFO"):
        result = CliRunner().invoke(app, [*command, "cpu"])
    assert result.exit_code in (0, 4), result.output
    assert "torch fp32 on cpu loaded" in caplog.text
    assert read_bundle(tmp_path / "out").info.graphs


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
