"""`trivet test FILE`: the embedded model on answers with plain labels."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import exit_code
from trivet.bundle.bundle import read_bundle
from trivet.labelled.labelled_jsonl import to_row
from trivet.labelled.plain_labels import read_plain

ROOT = Path(__file__).resolve().parents[2]
SHEET = ROOT / "examples" / "check_sheet.csv"
WITHOUT_TORCH = """
import sys
for name in ("torch", "scipy", "sklearn", "transformers", "lightning", "pandas"):
    sys.modules[name] = None  # an import of it fails
from trivet.__main__ import main
main()
"""


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line where torch and scipy cannot be imported."""
    command = [sys.executable, "-c", WITHOUT_TORCH, *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")


def test_a_sheet_is_measured_and_its_threshold_used_without_torch(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    page = tmp_path / "page.html"
    options = ["--label", "key", "--false-alarms", "0.2", "--json", figures, "--report", page]
    done = run("test", SHEET, *options, "--cascade")
    assert done.returncode == 0, done.stderr
    written = json.loads(figures.read_bytes())
    by_name = {threshold["name"]: threshold for threshold in written["thresholds"]}
    assert by_name.keys() == {"careful", "balanced", "strict", "rate", "best_f1"}
    values = [threshold["threshold"] for threshold in written["thresholds"]]
    assert values == sorted(values)
    used, rate = by_name["balanced"], by_name["rate"]
    assert used["finds"] + used["missed"] == 12
    assert used["false_alarms"] + used["passed"] == 18
    table = rf"supported +{used['passed']} +{used['false_alarms']}\n.*"
    table += rf"unsupported +{used['missed']} +{used['finds']}\n"
    assert re.search(table, done.stdout)
    auroc = r"AUROC 0\.\d\d \(95 % interval (0\.\d\d) to \d\.\d\d; 10 source"
    low = re.search(auroc, done.stdout)
    assert low is not None
    advice = f"--threshold {rate['threshold']}"
    for words in ("at most 20 % false alarms", "best F1 on these rows", advice):
        assert (words in done.stdout) is (float(low[1]) > 0.5)
    assert ("to be better than chance" in done.stdout) is (float(low[1]) <= 0.5)
    assert "worst errors: 5 of" in done.stdout
    assert len(re.findall(r"^   answer ", done.stdout, flags=re.MULTILINE)) == 5
    # So few answers cannot show a precision of 95 %.
    steps = written["cascade"]
    assert [step["precision"] for step in steps] == [0.9, 0.95, 0.99]
    assert [step["left"]["count"] for step in steps[1:]] == [30, 30]
    assert re.search(r"95 % +0 \(0 % .*30 \(100 %", done.stdout)
    assert "How much can be left to Trivet" in page.read_text(encoding="utf-8")
    flagged = run("evaluate", SHEET, "--threshold", rate["threshold"], "--fields", "id,adherent")
    verdicts = [json.loads(line)["adherent"] for line in flagged.stdout.splitlines()]
    assert verdicts.count(False) == rate["finds"] + rate["false_alarms"]


def test_thresholds_are_chosen_for_a_bundle_without_torch(tmp_path: Path) -> None:
    rows = [
        {
            "question": example.example.question,
            "contexts": example.example.contexts,
            "response": example.example.response,
            "labels": {"adherent": example.labels.adherent},
            "group": str(number),
        }
        for number, example in enumerate(read_plain(str(SHEET), "key").examples)
    ]
    labelled = tmp_path / "mine.jsonl"
    labelled.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words = ["calibrate", "embedded", "--thresholds-only", "--data", f"jsonl:{labelled}"]
    done = run(*words, "--split", "all", "--out", tmp_path / "bundle")
    assert done.returncode in (0, 4), done.stderr
    assert "sentence: " in done.stdout
    assert read_bundle(tmp_path / "bundle").info.thresholds is not None
    fitted = run(*words[:2], *words[3:], "--split", "all", "--out", tmp_path / "fitted")
    assert fitted.returncode == 2
    assert (
        "torch is not installed; in a clone of trivet: pip install -c constraints.txt '.[train]'"
        in fitted.stderr
    )


def test_labels_in_half_of_the_rows_are_measured_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with SHEET.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        row["label"] = row["key"] if number % 2 else ""
    half = tmp_path / "half.csv"
    with half.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert exit_code(monkeypatch, "test", half) == 0
    out, err = capfd.readouterr()
    assert "labels in column label: " in out
    assert "measured: 15 of 30 rows" in err
    assert "no label in column 'label': 15 rows, first at line 2, line 4" in err
    half.write_text(half.read_text(encoding="utf-8") + "31,only three,cells\n", encoding="utf-8")
    assert exit_code(monkeypatch, "test", half) == 0
    assert "measured: 15 of 31 rows" in capfd.readouterr().err


def test_two_bundles_are_compared_by_the_rule_of_choosing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    examples = read_plain(str(SHEET), "key").examples
    rows.write_text(
        "\n".join(json.dumps(to_row(example)) for example in examples), encoding="utf-8"
    )
    words = ["test", "--data", f"jsonl:{rows}@all", "--baseline", "embedded"]
    monkeypatch.setenv("COLUMNS", "120")
    assert exit_code(monkeypatch, *words) == 0
    out, _ = capfd.readouterr()
    assert re.search(r"mean +AUROC +30 +12 .* \+\.000 \[\.000, \.000\]", out)
    assert "the bundle is not kept: the mean must rise" in out
