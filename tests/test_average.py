"""The average of bundles: weights, overlap and record, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from trivet.__main__ import app
from trivet.average import average
from trivet.bundle.bundle import read_bundle, write_bundle
from trivet.bundle.schema import (
    BundleInfo,
    CalibrationInfo,
    DataInfo,
    KnotsInfo,
    LeftOutInfo,
    PlattInfo,
    outputs_of,
)
from trivet.bundle.weights import load_rag_model
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import BundleError
from trivet.model.architecture import DEFAULT_HEADS, HeadName
from trivet.model.calibration import PiecewiseLinear
from trivet.model.rag_model import RagModel
from trivet.training.initialization import initial_model

Write = Callable[..., Path]


@pytest.fixture
def write(
    tmp_path: Path,
    bert_checkpoint: Path,
    tiny_info: Callable[[SegmentTokenizer], BundleInfo],
) -> Write:
    """Write a bundle of a two-layer model whose weights follow from a seed."""

    def write(
        name: str,
        seed: int,
        overlap: float = 0.0,
        rows: int = 1,
        heads: Sequence[HeadName] = tuple(DEFAULT_HEADS),
        texts: bytes | None = None,
        isotonic: bool = False,
        left: LeftOutInfo | None = None,
    ) -> Path:
        torch.manual_seed(seed)
        model, tokenizer = initial_model(str(bert_checkpoint), "plain", "weakest_sentence")
        for weight in model.parameters():
            torch.nn.init.normal_(weight)
        model.keep_heads(heads)
        info = tiny_info(tokenizer)
        calibration = CalibrationInfo()
        if overlap:
            model.lexical_overlap |= dict.fromkeys(DEFAULT_HEADS, overlap)
            linear = PlattInfo(scale=2.0, shift=0.5, lexical_overlap=overlap)
            calibration = CalibrationInfo(heads=dict.fromkeys(DEFAULT_HEADS, linear))
        if isotonic:
            model.calibration["support"] = PiecewiseLinear((0.0, 1.0), (0.0, 2.0))
            calibration = CalibrationInfo(knots={"support": KnotsInfo(x=(0.0, 1.0), y=(0.0, 2.0))})
        data = (DataInfo(name="rows", licence="MIT", rows=rows),)
        training = info.training.model_copy(
            update={"data": data, "command": f"train {name}", "left_out": left}
        )
        changed: dict[str, Any] = {"training": training, "calibration": calibration}
        changed |= {"heads": tuple(heads), "outputs": outputs_of(heads)}
        write_bundle(
            tmp_path / name,
            info.model_copy(update=changed),
            tokenizer.to_json(),
            weights=model.state_dict(),
            encoder_config=model.architecture(),
            extra=None if texts is None else {"training_texts.txt": texts},
        )
        return tmp_path / name

    return write


def loaded(folder: Path) -> RagModel:
    return load_rag_model(read_bundle(folder))


def test_every_weight_is_the_mean_by_the_shares(write: Write, tmp_path: Path) -> None:
    first, second = write("first", 1, overlap=1.0), write("second", 2, overlap=3.0)
    average([(first, 1), (second, 3)], tmp_path / "out")
    one, two, found = map(loaded, (first, second, tmp_path / "out"))
    for name, values in found.state_dict().items():
        wanted = one.state_dict()[name] * 0.25 + two.state_dict()[name] * 0.75
        torch.testing.assert_close(values, wanted)
    assert found.lexical_overlap == dict.fromkeys(DEFAULT_HEADS, 2.5)


def test_the_average_of_equal_models_is_the_model(write: Write, tmp_path: Path) -> None:
    first, again = write("first", 1), write("again", 1)
    average([(first, 0.3), (again, 0.9)], tmp_path / "out")
    found = loaded(tmp_path / "out")
    for name, values in loaded(first).state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], values)
    assert not any(found.lexical_overlap.values())


def test_the_record_names_shares_data_and_texts_of_all(write: Write, tmp_path: Path) -> None:
    one, two = (f"{letter * 64}\n".encode() for letter in "ab")
    first = write("first", 1, rows=2, texts=one)
    second = write("second", 2, rows=5, texts=two)
    average([(first, 2), (second, 2)], tmp_path / "out")
    bundle = read_bundle(tmp_path / "out")
    training = bundle.info.training
    assert training.command == (
        f"train first && train second && trivet average {first}=2 {second}=2"
    )
    assert [each.rows for each in training.data] == [5]
    assert bundle.training_texts() == frozenset({"a" * 64, "b" * 64})
    third = write("third", 3)
    average([(first, 1), (third, 1)], tmp_path / "unknown")
    assert read_bundle(tmp_path / "unknown").training_texts() is None


def test_the_card_calls_the_calibration_averaged(write: Write, tmp_path: Path) -> None:
    heads: tuple[HeadName, ...] = ("support", "relevance")
    first, second = (write(f"overlap {n}", n, overlap=n, heads=heads) for n in (1, 2))
    average([(first, 1), (second, 1)], tmp_path / "out")
    bundle = read_bundle(tmp_path / "out")
    assert sorted(bundle.info.calibration.heads) == ["relevance", "support"]
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "lexical overlap of relevance 1.500, support 1.500); not fitted again." in card


def test_what_one_bundle_left_out_is_not_claimed_for_all(write: Write, tmp_path: Path) -> None:
    left = LeftOutInfo(tests=("test",), rows=3, same_groups=1, passage_groups=1, question_groups=1)
    careful, other = write("careful", 1, left=left), write("other", 2)
    average([(careful, 1), (other, 1)], tmp_path / "some")
    assert read_bundle(tmp_path / "some").info.training.left_out is None
    average([(careful, 1), (write("too", 3, left=left), 1)], tmp_path / "all")
    assert read_bundle(tmp_path / "all").info.training.left_out == left


def test_what_cannot_be_averaged_is_refused(write: Write, tmp_path: Path) -> None:
    first = write("first", 1)
    with pytest.raises(BundleError, match="1 bundle cannot be averaged"):
        average([(first, 1)], tmp_path / "out")
    for share in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(BundleError, match=r"first: its share \(.*\) must be above 0"):
            average([(first, share), (write("second", 2), 1)], tmp_path / "out")
    with pytest.raises(BundleError, match=r"differs from .*first in heads;"):
        average([(first, 1), (write("fewer", 2, heads=["support"]), 1)], tmp_path / "out")
    with pytest.raises(BundleError, match="isotonic: has an isotonic calibration"):
        average([(first, 1), (write("isotonic", 2, isotonic=True), 1)], tmp_path / "out")
    other = tmp_path / "notes"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match=r"notes\.txt"):
        average([(first, 1), (write("third", 3), 1)], other)
    assert not (tmp_path / "out").exists()


def test_the_command_takes_shares_after_the_names(write: Write, tmp_path: Path) -> None:
    first, second, out = write("first", 1), write("second", 2), tmp_path / "out"
    done = CliRunner().invoke(app, ["average", str(first), f"{second}=3", "--out", str(out)])
    assert (done.exit_code, done.stdout.strip()) == (0, str(out))
    assert read_bundle(out).info.training.command.endswith(f"average {first}=1 {second}=3")
    for given, said in (
        ([f"{first}=much", str(second)], "the share 'much' is not a number"),
        ([f"{first}=0", str(second)], "its share (0.0) must be above 0"),
        ([str(first)], "1 bundle cannot be averaged"),
    ):
        done = CliRunner().invoke(app, ["average", *given, "--out", str(tmp_path / "other")])
        assert done.exit_code != 0
        assert said in " ".join(done.output.replace("\u2502", " ").split()) + str(done.exception)
        assert not (tmp_path / "other").exists()
