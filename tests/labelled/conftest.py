"""Tokenizers of both kinds, those of the tests of data."""

from __future__ import annotations

from tests.data.conftest import tokenizer, tokenizer_file

__all__ = ["tokenizer", "tokenizer_file"]
