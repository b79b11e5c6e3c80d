"""Tokenizers of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from trivet.data.tokenization import SegmentTokenizer


@pytest.fixture(scope="session", params=["wordpiece_file", "unigram_file"])
def tokenizer_file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture(scope="session")
def tokenizer(tokenizer_file: Path) -> SegmentTokenizer:
    return SegmentTokenizer.from_file(tokenizer_file)
