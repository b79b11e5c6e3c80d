"""Text to token ids and character offsets, each segment on its own.

Torch-free: serving reads text through this file too. Every segment (a passage, the question, the
response) is tokenized alone, so that its ids are the same in every window that shows it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, pre_tokenizers

from trivet.records import BundleError, replace_surrogates

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

# White space up to U+3000, the last there is; the entry behind it stands for every later character.
_IS_SPACE = np.asarray([chr(code).isspace() for code in range(0x3001)] + [False])
# BERT and DeBERTa name theirs in brackets, RoBERTa in angles.
_SPECIAL_NAMES = {
    "cls": ("[CLS]", "<s>"),
    "sep": ("[SEP]", "</s>"),
    "pad": ("[PAD]", "<pad>"),
}
_UNKNOWN_NAMES = ("[UNK]", "<unk>")

# As long as a SHA-256 in hexadecimal digits; hardly anything that is longer is a word.
_LONGEST_PIECE = 64


@dataclass(frozen=True, slots=True)
class Segment:
    """One tokenized text.

    Attributes:
        ids: Token ids. *Shape:* [T].
        offsets: First and one-past-last character of each token in its text, without the white
            space that some tokenizers count to the word after it. *Shape:* [T, 2].
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


class SegmentTokenizer:
    """A tokenizer that reads segments: no truncation, no padding, no special tokens added."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" typed by a user is text; read as a special token it could forge a segment's end.
        tokenizer.encode_special_tokens = True
        _cut_long_words(tokenizer)
        self._tokenizer = tokenizer
        self.special = SpecialTokens(**{k: self._special_id(v) for k, v in _SPECIAL_NAMES.items()})
        self._unknown = self._special_id(_UNKNOWN_NAMES)
        # A Unigram vocabulary holds the specials as pieces like any other, and would find them in
        # the text all the same.
        added = tokenizer.get_added_tokens_decoder()
        reserved = {self.special.cls, self.special.sep, self.special.pad}
        reserved |= {number for number, token in added.items() if token.special}
        self._reserved = np.asarray(sorted(reserved - {self._unknown}), dtype=np.int64)

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

        Lone surrogates are read as U+FFFD, which keeps every offset true. No id is ever that of a
        special token: what is spelled like one is read as letters, or as the unknown token.
        """
        readable = [replace_surrogates(text)[0] for text in texts]
        encodings = self._tokenizer.encode_batch(readable, add_special_tokens=False)
        # Arrays of the whole batch: there are many short texts.
        ids = np.fromiter(
            itertools.chain.from_iterable(each.ids for each in encodings), dtype=np.int64
        )
        ids[np.isin(ids, self._reserved)] = self._unknown
        pairs = itertools.chain.from_iterable(each.offsets for each in encodings)
        # Twice as fast as an array of pairs, and a tenth of the time of a long text.
        flat = itertools.chain.from_iterable(pairs)
        offsets = np.fromiter(flat, dtype=np.int64, count=2 * len(ids)).reshape(-1, 2)
        ends = itertools.accumulate(map(len, encodings), initial=0)
        return [
            Segment(ids[start:end], _after_space(offsets[start:end], text))
            for text, (start, end) in zip(readable, itertools.pairwise(ends), strict=True)
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


def _cut_long_words(tokenizer: Tokenizer) -> None:
    """Let WordPiece read long words in pieces.

    It takes a whole word over its limit for unknown, and the square of a word's letters in time.
    """
    words = tokenizer.pre_tokenizer
    if not isinstance(tokenizer.model, models.WordPiece) or "FixedLength" in repr(words):
        return
    longest = min(_LONGEST_PIECE, tokenizer.model.max_input_chars_per_word)
    pieces = pre_tokenizers.FixedLength(length=longest)
    tokenizer.pre_tokenizer = pieces if words is None else pre_tokenizers.Sequence([words, pieces])


def _after_space(offsets: IntArray, text: str) -> IntArray:
    """Move the start of each token behind its white space; a token of nothing else stays."""
    if not len(offsets) or not text:
        return offsets
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    begins = np.minimum(offsets[:, 0], len(text) - 1)
    if not _is_space(codes[begins]).any():
        return offsets
    following = np.where(_is_space(codes), len(text), np.arange(len(text)))
    following = np.minimum.accumulate(following[::-1])[::-1]  # next character that is not space
    moved = offsets.copy()
    moved[:, 0] = np.where(following[begins] < offsets[:, 1], following[begins], offsets[:, 0])
    return moved


def _is_space(codes: npt.NDArray[np.uint32]) -> BoolArray:
    found: BoolArray = _IS_SPACE[np.minimum(codes, len(_IS_SPACE) - 1)]
    return found
