"""Text to token ids and character offsets, each segment on its own.

Torch-free: serving reads text through this file too. Every segment (a passage, the question, the
response) is tokenized alone, so that its ids are the same in every window that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from trivet.records import BundleError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

_SURROGATES = re.compile("[\ud800-\udfff]")
# BERT and DeBERTa name theirs in brackets, RoBERTa in angles.
_SPECIAL_NAMES = {
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "pad": ("[PAD]", "<pad>"),
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One tokenized text.

    Attributes:
        ids: Token ids. *Shape:* [T].
        offsets: First and one-past-last character of each token in its text. *Shape:* [T, 2].
    """

    ids: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the tokens that frame the segments of a window."""

    cls: int
    sep: int
    pad: int


def replace_surrogates(text: str) -> tuple[str, int]:
    """Replace each lone surrogate by U+FFFD, so that offsets hold; return the text and their count."""
    return _SURROGATES.subn("\ufffd", text)


class SegmentTokenizer:
    """A tokenizer that reads segments: no truncation, no padding, no special tokens added."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" typed by a user is text; read as a special token it could forge a segment's end.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.special = SpecialTokens(**{k: self._special_id(v) for k, v in _SPECIAL_NAMES.items()})

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Load a ``tokenizer.json``.

        Raises:
            BundleError: The file is no tokenizer.
        """
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise BundleError(f"{path.name}: not a tokenizer file: {error}") from error
        return cls(tokenizer)

    @property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, texts: Sequence[str]) -> list[Segment]:
        """Tokenize each text alone, all in one batch.

        Lone surrogates are read as U+FFFD, which keeps every offset true.
        """
        readable = [replace_surrogates(text)[0] for text in texts]
        encodings = self._tokenizer.encode_batch(readable, add_special_tokens=False)
        return [
            Segment(
                ids=np.asarray(encoding.ids, dtype=np.int64),
                offsets=np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2),
            )
            for encoding in encodings
        ]

    def to_json(self) -> str:
        """Return the tokenizer as the text of a ``tokenizer.json``."""
        return self._tokenizer.to_str(pretty=False)

    def _special_id(self, names: Sequence[str]) -> int:
        for name in names:
            found = self._tokenizer.token_to_id(name)
            if found is not None:
                return found
        raise BundleError(f"tokenizer.json: has none of the special tokens {', '.join(names)}")
