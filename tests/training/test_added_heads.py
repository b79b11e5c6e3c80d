"""Heads added to an imported detector, whose own verdicts stay as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.test_importing import in_torch, save_checkpoint
from tests.training.conftest import MILL, ConfigOf
from tests.training.test_evidence_head import sourced  # noqa: F401
from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.calibrate import calibrate
from trivet.errors import ConfigError
from trivet.importing import import_lettucedetect
from trivet.train import train

ASKED = ("What of the mill?", MILL, "The mill is old. It was built of wood.")
NEW = "heads=[relevance,utilization,evidence]"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported")
    checkpoint = save_checkpoint(folder / "checkpoint", "modernbert")
    import_lettucedetect(str(checkpoint), folder / "lettuce")
    return folder / "lettuce"


def begun(bundle: Path, *settings: str) -> tuple[str, ...]:
    begin = (f"encoder.name={bundle}", "encoder.init=bundle", "window.size=512")
    return (*begin, "optim.epochs=1", "optim.head_lr=0.01", *settings)


def test_the_others_are_added_and_the_verdicts_stay(
    tmp_path: Path,
    config_of: ConfigOf,
    imported: Path,
    sourced: tuple[Path, Path],  # noqa: F811
) -> None:
    settings = begun(imported, NEW, "optim.encoder_lr=0")
    second = train(config_of(tmp_path / "second", *settings, data=sourced))
    old, info = read_bundle(imported).info, read_bundle(second).info
    assert info.heads == ("support", "relevance", "utilization", "evidence")
    assert (info.window, info.thresholds) == (old.window, old.thresholds)
    assert info.faithfulness == old.faithfulness == "weakest_token"
    before, after = (load_rag_model(read_bundle(folder)) for folder in (imported, second))
    state = after.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in before.state_dict().items())
    plain, whole = (in_torch(folder).evaluate(*ASKED) for folder in (imported, second))
    assert whole.faithfulness == plain.faithfulness
    assert whole.unsupported == plain.unsupported
    assert [part.support for part in whole.sentences] == [part.support for part in plain.sentences]
    scores = (whole.relevance, whole.utilization)
    assert all(score is not None and 0 < score < 1 for score in scores)
    assert whole.sentences[0].evidence is not None

    # All heads, two classes of support among them, on the encoder that they share.
    every = "heads=[support,relevance,utilization,evidence]"
    taught = begun(second, every, "optim.encoder_lr=0.001")
    third = train(config_of(tmp_path / "third", *taught, data=sourced))
    assert read_bundle(third).info.window.layout == old.window.layout
    again = load_rag_model(read_bundle(third))
    assert (again.support_classes, again.support_norm) == (2, before.support_norm)
    changed = again.heads["support"].state_dict()
    assert not torch.equal(changed["classifier.weight"], state["heads.support.classifier.weight"])
    calibrate(third, [f"jsonl:{sourced[1]}"], "all")
    calibrated = in_torch(third).evaluate_tokens(*ASKED)
    assert np.ptp([token.support for token in calibrated]) > 0


def test_an_encoder_that_would_change_under_a_kept_head_is_refused(
    tmp_path: Path, config_of: ConfigOf, imported: Path
) -> None:
    with pytest.raises(ConfigError, match=r"lettuce keeps its own \(support\) .* set it to 0"):
        train(config_of(tmp_path, *begun(imported, NEW)))


def test_a_teacher_reads_the_layout_of_its_student(
    tmp_path: Path, config_of: ConfigOf, imported: Path
) -> None:
    teacher = tmp_path / "teacher"
    import_lettucedetect(str(imported.parent / "checkpoint"), teacher)
    plain = read_bundle(teacher).info.window
    student = begun(imported, "heads=[support]", f"distill.teacher={teacher}")
    assert plain.layout == read_bundle(imported).info.window.layout
    train(config_of(tmp_path / "same", *student))
    other = (f"distill.teacher={teacher}", "heads=[support]", "window.size=64")
    with pytest.raises(ConfigError, match=r"another layout than the model|the same tokens"):
        train(config_of(tmp_path / "other", *other))
