"""Text to token ids and character offsets, each segment on its own.

Every segment (a passage, the question, the response) is tokenized alone, so that its ids are the
same in every window that shows it. Does not import torch.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, pre_tokenizers

from trivet.records import BundleError, replace_surrogates

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

# Indexed by character code. The last white space is U+3000; later codes are clipped to the end.
_IS_SPACE = np.asarray([chr(code).isspace() for code in range(0x3001)] + [False])
# Names in BERT and DeBERTa, then in RoBERTa.
_SPECIAL_NAMES = {"cls": ("[CLS]", "<s>"), "sep": ("[SEP]", "</s>"), "pad": ("[PAD]", "<pad>")}
_UNKNOWN_NAMES = ("[UNK]", "<unk>")
_LONGEST_PIECE = 64  # characters, the length of a SHA-256 in hexadecimal; few words are longer


@dataclass(frozen=True, slots=True)
class Segment:
    """One tokenized text.

    Attributes:
        ids: Token ids. *Shape:* [T].
        offsets: First and one-past-last character of each token in its text, without the white
            space that some tokenizers count as part of the following word. *Shape:* [T, 2].
    """

    ids: IntArray
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of the special tokens that frame the segments of a window."""

    cls: int
    sep: int
    pad: int


class SegmentTokenizer:
    """A tokenizer without truncation, padding or added special tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" in a user's text must stay text, otherwise it could fake the end of a segment.
        tokenizer.encode_special_tokens = True
        _split_long_words(tokenizer)
        self._tokenizer = tokenizer
        self.special = SpecialTokens(**{k: self._special_id(v) for k, v in _SPECIAL_NAMES.items()})
        self._unknown = self._special_id(_UNKNOWN_NAMES)
        # A Unigram vocabulary holds special tokens as ordinary pieces and finds them in text too.
        added = tokenizer.get_added_tokens_decoder()
        reserved = {self.special.cls, self.special.sep, self.special.pad}
        reserved |= {number for number, token in added.items() if token.special}
        self._reserved = np.asarray(sorted(reserved - {self._unknown}), dtype=np.int64)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Load a ``tokenizer.json``.

        Raises:
            BundleError: The file is not a tokenizer.
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
        """Tokenize each text separately, in one batch.

        Lone surrogates are replaced by U+FFFD, which keeps every offset valid. Special token ids
        never occur: text that looks like one becomes ordinary pieces or the unknown token.
        """
        readable = [replace_surrogates(text)[0] for text in texts]
        encodings = self._tokenizer.encode_batch(readable, add_special_tokens=False)
        # One array for the whole batch: there are many short texts. A flat array of offsets is
        # built twice as fast as an array of pairs.
        ids = np.fromiter(
            itertools.chain.from_iterable(map(attrgetter("ids"), encodings)), dtype=np.int64
        )
        ids[np.isin(ids, self._reserved)] = self._unknown
        pairs = itertools.chain.from_iterable(map(attrgetter("offsets"), encodings))
        flat = itertools.chain.from_iterable(pairs)
        offsets = np.fromiter(flat, dtype=np.int64, count=2 * len(ids)).reshape(-1, 2)
        segments = []
        start = 0
        for text, encoding in zip(readable, encodings, strict=True):
            end = start + len(encoding)
            segments.append(Segment(ids[start:end], _skip_space(offsets[start:end], text)))
            start = end
        return segments

    def to_json(self) -> str:
        """Return the tokenizer as the text of a ``tokenizer.json``."""
        return self._tokenizer.to_str(pretty=False)

    def _special_id(self, names: Sequence[str]) -> int:
        for name in names:
            found = self._tokenizer.token_to_id(name)
            if found is not None:
                return found
        raise BundleError(f"tokenizer.json: has none of the special tokens {', '.join(names)}")


def _split_long_words(tokenizer: Tokenizer) -> None:
    """Make WordPiece split long words into pieces of at most 64 characters.

    WordPiece maps a word over its limit to the unknown token, and its time grows with the square
    of a word's length.
    """
    words = tokenizer.pre_tokenizer
    if not isinstance(tokenizer.model, models.WordPiece) or "FixedLength" in repr(words):
        return
    longest = min(_LONGEST_PIECE, tokenizer.model.max_input_chars_per_word)
    pieces = pre_tokenizers.FixedLength(length=longest)
    tokenizer.pre_tokenizer = pieces if words is None else pre_tokenizers.Sequence([words, pieces])


def _skip_space(offsets: IntArray, text: str) -> IntArray:
    """Move the start of each token past leading white space, unless it consists of nothing else."""
    if not len(offsets) or not text:
        return offsets
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    begins = np.minimum(offsets[:, 0], len(text) - 1)
    if not _IS_SPACE.take(codes[begins], mode="clip").any():
        return offsets
    is_space = _IS_SPACE.take(codes, mode="clip")
    # Position of the next character that is not white space.
    following = np.where(is_space, len(text), np.arange(len(text)))
    following = np.minimum.accumulate(following[::-1])[::-1]
    moved = offsets.copy()
    moved[:, 0] = np.where(following[begins] < offsets[:, 1], following[begins], offsets[:, 0])
    return moved
