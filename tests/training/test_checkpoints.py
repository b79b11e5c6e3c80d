"""Checkpoints: atomic writes, detected damage, refused architectures."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from trivet.errors import ConfigError
from trivet.training.checkpoints import (
    BackgroundCheckpoints,
    WholeCheckpoints,
    damage_of,
    newest_whole,
    refuse_another_architecture,
)


def save(path: Path, **content: Any) -> Path:
    WholeCheckpoints().save_checkpoint(content, path)
    return path


def test_the_last_one_before_is_kept_and_nothing_half_written_is_left(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path / "last.ckpt", step=step)
        save(tmp_path / "best.ckpt", step=step)
    steps = {path.name: torch.load(path)["step"] for path in tmp_path.iterdir()}
    assert steps == {"last.ckpt": 3, "last-before.ckpt": 2, "best.ckpt": 3}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_what_is_written_in_the_background_is_of_that_time_and_takes_no_memory_of_a_gpu(
    tmp_path: Path, device: str
) -> None:
    weight, written = torch.ones(4, device=device), BackgroundCheckpoints()
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    written.save_checkpoint({"state": {"weight": weight}}, tmp_path / "last.ckpt")
    if device == "cuda":
        assert torch.cuda.memory_allocated() == before
    weight.zero_()
    written.teardown()  # waits for the write
    state = torch.load(tmp_path / "last.ckpt")["state"]
    assert state["weight"].device.type == "cpu" and state["weight"].tolist() == [1.0] * 4


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = save(tmp_path / "last.ckpt", step=1)

    def full(content: object, file: Any) -> None:
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="no space left"):
        save(last, step=2)
    assert torch.load(last)["step"] == 1
    assert newest_whole(tmp_path) == last


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damage_is_seen_and_the_one_before_is_taken(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2):
        save(tmp_path / "last.ckpt", step=step, weights=torch.arange(1000.0))
    last, before = tmp_path / "last.ckpt", tmp_path / "last-before.ckpt"
    os.utime(before, (1, 1))
    assert newest_whole(tmp_path) == last
    content = last.read_bytes()
    if damage == "cut":
        last.write_bytes(content[: len(content) // 2])
    else:  # one bit of one weight: torch loads it and says nothing
        offset = content.index(torch.arange(1000.0).numpy().tobytes()) + 2000
        last.write_bytes(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
        assert not torch.equal(torch.load(last)["weights"], torch.arange(1000.0))
    with caplog.at_level(logging.WARNING):
        assert newest_whole(tmp_path) == before
    assert f"{last} is damaged" in caplog.text
    assert damage_of(before) is None


def test_wherever_a_byte_is_wrong_the_answer_is_a_sentence_and_no_error(tmp_path: Path) -> None:
    path = save(tmp_path / "last.ckpt", weights=torch.arange(6.0))
    content = path.read_bytes()
    assert damage_of(path) is None
    answers = set()
    for offset in range(1, len(content), 10):
        path.write_bytes(content[:offset] + bytes([content[offset] ^ 0xFF]) + content[offset + 1 :])
        answers.add((damage_of(path) or "none").partition(":")[0])
    assert {"none", "UnicodeDecodeError"} < answers, "padding may be anything, names may not"


def test_no_checkpoint_is_no_damage_but_only_damaged_ones_are_refused(tmp_path: Path) -> None:
    assert newest_whole(tmp_path) is newest_whole(tmp_path / "absent") is None
    (tmp_path / "last.ckpt").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"none of the 1 checkpoints in .* can be read"):
        newest_whole(tmp_path)


def test_another_architecture_is_refused_by_what_differs(tmp_path: Path) -> None:
    ours = {"encoder": {"model_type": "bert", "heads": 4}, "trunk": "shared"}
    state = {"weight": torch.zeros(4, 4)}
    path = save(tmp_path / "last.ckpt", architecture=ours, state_dict=state)
    refuse_another_architecture(path, ours, state)
    theirs = {"encoder": {"model_type": "bert", "heads": 2}, "trunk": "shared", "extra": 1}
    message = r"encoder\.heads is 4 there and 2 here; extra is absent there and 1 here"
    with pytest.raises(ConfigError, match=message):
        refuse_another_architecture(path, theirs, state)
    with pytest.raises(ConfigError, match=r"weight is \(4, 4\) there and \(2, 4\) here"):
        refuse_another_architecture(path, ours, {"weight": torch.zeros(2, 4)})
