"""Prepared rows in a file: the same items, made once, made anew when anything differs."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trivet.data.sentence_features import NO_CONTEXTS
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.labelled import prepared_rows
from trivet.labelled.datamodule import prepare
from trivet.labelled.prepared_rows import PreparedRows, prepare_cached
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

SETTINGS = WindowSettings(32, evidence_sentences=1)
MILL = "The mill is old. It was built of stone in 1790 by the river."
LABELS = Labels(
    unsupported=(Span(17, 20),),
    relevant=(ContextSpan(0, 0, 16),),
    evidence=(Evidence(Span(0, 16), (ContextSpan(0, 0, 16), ContextSpan(1, 0, 5))),),
)
EXAMPLES = [
    LabelledExample(
        RagExample("How old?", (MILL, MILL), "The mill is old. It sings."), LABELS, "a", "1"
    ),
    LabelledExample(RagExample("", (), ""), Labels(adherent=True), "a", "2", weight=0.5),
    LabelledExample(RagExample("old \ud83d", (MILL * 9,), "Stone."), Labels(), "b", "3"),
]


@pytest.fixture
def tiny_tokenizer(wordpiece_file: Path) -> SegmentTokenizer:
    return SegmentTokenizer.from_file(wordpiece_file)


@pytest.fixture
def cached(tiny_tokenizer: SegmentTokenizer, tmp_path: Path) -> Callable[..., PreparedRows]:
    def make(
        examples: list[LabelledExample] = EXAMPLES,
        settings: WindowSettings = SETTINGS,
        use_evidence: bool = True,
    ) -> PreparedRows:
        return prepare_cached(examples, tiny_tokenizer, settings, use_evidence, tmp_path)

    return make


def same(value: Any, other: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype == other.dtype and np.array_equal(
            value, other, equal_nan=value.dtype.kind == "f"
        )
    if isinstance(value, tuple):
        return len(value) == len(other) and all(map(same, value, other))
    if hasattr(value, "__slots__") and not isinstance(value, LabelledExample):
        return all(same(getattr(value, name), getattr(other, name)) for name in value.__slots__)
    return bool(value == other)


def test_a_row_of_the_file_is_the_item_that_prepare_makes(
    cached: Callable[..., PreparedRows], tiny_tokenizer: SegmentTokenizer
) -> None:
    rows = cached()
    assert len(rows) == 3
    for item, other in zip(prepare(EXAMPLES, tiny_tokenizer, SETTINGS), rows, strict=True):
        assert same(
            replace(item, layout=replace(item.layout, values=(), context_values=NO_CONTEXTS)), other
        )
        assert type(item.targets) is type(other.targets)
    assert rows[-1].labelled is EXAMPLES[-1]
    assert same(rows[1:][0], pickle.loads(pickle.dumps(rows))[1]), "workers get the path alone"


@pytest.mark.parametrize(
    "other",
    [
        {"settings": replace(SETTINGS, size=64)},
        {"use_evidence": False},
        {"examples": EXAMPLES[:2]},
        {"examples": [*EXAMPLES[:2], replace(EXAMPLES[2], weight=2.0)]},
    ],
)
def test_other_rows_or_settings_have_a_file_of_their_own(
    cached: Callable[..., PreparedRows], tmp_path: Path, other: dict[str, Any]
) -> None:
    cached()
    cached(**other)
    assert len(list(tmp_path.glob("*.arrow"))) == 2


def test_how_often_a_row_is_drawn_makes_no_other_file(
    cached: Callable[..., PreparedRows], tmp_path: Path
) -> None:
    cached()
    rows = cached([replace(row, draws=2.5) for row in EXAMPLES])
    assert len(list(tmp_path.glob("*.arrow"))) == 1
    assert rows[0].labelled.draws == 2.5


def test_processes_prepare_the_same_rows_in_the_same_order(
    tmp_path: Path, tiny_tokenizer: SegmentTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_rows, "_BLOCK", 1)
    alone, other = (
        prepare_cached(EXAMPLES, tiny_tokenizer, SETTINGS, True, tmp_path / str(workers), workers)
        for workers in (0, 2)
    )
    assert all(same(*pair) for pair in zip(alone, other, strict=True))


def test_of_several_that_ask_at_once_one_prepares(
    cached: Callable[..., PreparedRows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*arguments: Any) -> Any:
        calls.append(len(arguments[0]))
        return prepare(*arguments)

    monkeypatch.setattr(prepared_rows, "prepare", counted)
    with ThreadPoolExecutor(4) as threads:
        lengths = list(threads.map(lambda _: len(cached()), range(4)))
    assert lengths == [3] * 4 and calls == [3]
    assert not list(tmp_path.glob("*.half"))


@pytest.mark.parametrize("kept", [0, 100, -8])
def test_a_damaged_file_is_made_anew(
    cached: Callable[..., PreparedRows], tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: int
) -> None:
    cached()
    (file,) = tmp_path.glob("*.arrow")
    whole = file.read_bytes()
    file.write_bytes(whole[:kept])
    with caplog.at_level(logging.WARNING):
        assert len(cached()[0].layout.rows) > 0
    assert "its rows are prepared anew" in caplog.text
    assert file.read_bytes() == whole


def test_a_failure_leaves_no_file_that_is_read(
    cached: Callable[..., PreparedRows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(prepared_rows, "prepare", fail)
    with pytest.raises(KeyboardInterrupt):
        cached()
    assert not list(tmp_path.glob("*.arrow"))
    monkeypatch.undo()
    assert len(cached()) == 3
