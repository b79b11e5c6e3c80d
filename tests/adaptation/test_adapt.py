"""``trivet adapt`` on a tiny bundle: what it writes, continues, refuses and says."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import exit_code
from tests.training.conftest import PAIRS, row
from trivet import adapt as adapt_module
from trivet.adaptation import Adapted, Change
from trivet.bundle.bundle import add_files, read_bundle
from trivet.errors import BundleError, ConfigError, DataError
from trivet.evaluation.evaluator import Evaluator


def write(path: Path, documents: int = 25, **labels: Any) -> Path:
    """Write two rows of each document; ``labels`` replaces their labels."""
    rows = []
    for n in range(2 * documents):
        labelled_row = row(n, *PAIRS[n % 4], f"document {n // 2}")
        lamp = f"The lamp of tower {n // 2} was lit that year."
        labelled_row["contexts"] = [*labelled_row["contexts"], lamp]
        labelled_row["question"] = f"What of mill {n // 2}?"
        rows.append(labelled_row | ({"labels": labels} if labels else {}))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def overrides(tiny_bundle: Path) -> list[str]:
    """Return the settings of a run of a second."""
    words = "window.size=48 run.accelerator=cpu run.precision=fp32 run.log_steps=1 optim.epochs=1"
    return [f"encoder.name={tiny_bundle}", "optim.head_lr=0.01", *words.split()]


def test_a_killed_adaptation_is_calibrated_exported_and_tested_without_training_again(
    tmp_path: Path, overrides: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = write(tmp_path / "rows.jsonl"), tmp_path / "mine"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(adapt_module, "calibrate", interrupt)
        adapt_module.adapt(file, out, overrides)
    with pytest.raises(ConfigError, match=r"config\.yaml is of an adaptation with other rows or"):
        adapt_module.adapt(file, out, [*overrides, "optim.epochs=2"])
    with pytest.raises(ConfigError, match=r"rows\.jsonl is of an adaptation with other rows or"):
        adapt_module.adapt(write(tmp_path / "more.jsonl", 26), out, overrides)

    monkeypatch.setattr(adapt_module, "train", interrupt)
    adapted = adapt_module.adapt(file, out, overrides)
    assert adapted.bundle == out / "bundle"
    assert adapted.parts == {"train": (20, 10), "validation": (10, 5), "test": (20, 10)}
    assert adapted.unmeasured == []
    assert {change.n for change in adapted.changes} == {20}
    assert {"hallucination_auroc", "relevance_rmse", "span_f1"} <= {
        change.measure for change in adapted.changes
    }
    info = read_bundle(adapted.bundle).info
    assert [graph.precision for graph in info.graphs] == ["fp32"]
    assert info.calibration.split == "validation"
    verdict = Evaluator(adapted.bundle).evaluate("What?", ["The mill is old."], "It is.")
    assert verdict.adherent in (True, False)
    record = json.loads((out / "adapt.json").read_text(encoding="utf-8"))
    assert record["better"] is adapted.better
    with pytest.raises(BundleError, match="exists already; choose another folder"):
        adapt_module.adapt(file, out, overrides)


def interrupt(*args: object, **options: object) -> None:
    raise KeyboardInterrupt


def test_heads_windows_reduction_and_thresholds_are_those_of_the_first_bundle(
    tmp_path: Path, tiny_bundle: Path, overrides: list[str]
) -> None:
    first = tmp_path / "first"
    shutil.copytree(tiny_bundle, first)
    info = read_bundle(first).info
    window = replace(info.window, evidence_sentences=2, sort_contexts=True)
    update = {"window": replace(window, size=64), "faithfulness": "two_weakest_sentences"}
    add_files(first, {}, info.model_copy(update=update))
    settings = [f"encoder.name={first}", *overrides[1:]]
    # Rows with relevance alone keep the thresholds, and say what was not measured.
    file = write(tmp_path / "rows.jsonl", relevant=[[0, 0, 16]])
    tuned = adapt_module.adapt(file, tmp_path / "mine", settings)
    assert tuned.unmeasured == ["faithfulness", "utilization"]
    adapted = read_bundle(tuned.bundle).info
    assert adapted.thresholds == info.thresholds
    assert adapted.window == replace(window, size=48)
    assert adapted.heads == info.heads
    assert adapted.faithfulness == "two_weakest_sentences"


def test_an_output_that_is_a_file_is_refused_before_training(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl")
    with pytest.raises(ConfigError, match=r"rows\.jsonl is not a folder; choose another one"):
        adapt_module.adapt(file, file)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"documents": 4}, "8 labelled rows of 4 documents are too few to split: at least 10"),
        ({"relevant": None}, "none of the 50 rows in split 'all' has a label"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(
    tmp_path: Path, rows: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        adapt_module.adapt(write(tmp_path / "rows.jsonl", **rows), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ((0.01, 0.2), 0, "better: trivet evaluate LOG --bundle mine/bundle"),
        ((-0.1, 0.2), 4, "not shown to be better: keep embedded"),
    ],
)
def test_the_command_says_whether_to_keep_the_old_model(
    change: tuple[float, float],
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    area = Change("hallucination_auroc", 0.7, 0.8, *change, 90, 30, 40)
    parts = {"train": (99, 50), "validation": (30, 9), "test": (90, 40)}
    adapted = Adapted(Path("mine/bundle"), "embedded", parts, 3, [area], 7.25)
    monkeypatch.setattr(adapt_module, "adapt", lambda *_: adapted)
    assert exit_code(monkeypatch, "adapt", "rows.jsonl", "--out", "mine") == code
    shown = capsys.readouterr()
    assert message in shown.out + shown.err
    # Lightning's own lines, which advertise, are not progress.
    for name in ("lightning.pytorch", "lightning.fabric"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)
    for line in (
        "train: 99 rows of 50 documents; validation: 30 rows of 9 documents; test: 90 rows of 40",
        "3 of 90 test rows share a passage or a question with other parts",
        "not measured, because no test row has a label: relevance, utilization;",
        "took 7.2 minutes",
    ):
        assert line in shown.out
