"""Tokenization of texts and of whole examples: ids, offsets, and the sentence of every token.

Every segment (a passage, the question, the response) is tokenized alone, so that its ids are the
same in every window that shows it. Training, evaluation and serving all use this file.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, models, pre_tokenizers

from trivet.data.sentences import split_sentences
from trivet.data.structured_text import StructuredText, read_structure
from trivet.data.written_forms import unifies_forms, unify_forms
from trivet.errors import BundleError, ExampleError
from trivet.interface import replace_surrogates
from trivet.records import ContextSpan, RagExample, Span

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

# Indexed by character code. The last white space is U+3000; later codes are clipped to the end.
_IS_SPACE = np.asarray([chr(code).isspace() for code in range(0x3001)] + [False])
# Names in BERT, DeBERTa and ModernBERT, then in RoBERTa and MPNet, then in mmBERT.
_SPECIAL_NAMES = {
    "cls": ("[CLS]", "<s>", "<bos>"),
    "sep": ("[SEP]", "</s>", "<eos>"),
    "pad": ("[PAD]", "<pad>"),
}
_UNKNOWN_NAMES = ("[UNK]", "<unk>")
_LONGEST_PIECE = 64  # characters, the length of a SHA-256 in hexadecimal; few words are longer
_NONE: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Segment:
    """One tokenized text."""

    ids: IntArray  # token ids, [T]
    # first and one-past-last character of each token in its text, without the white space that some
    # tokenizers count as part of the following word, [T, 2]
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.ids)


def _no_texts(text: str) -> IntArray:
    raise ValueError(f"no tokenizer gives the ids of {text!r}")


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids of what frames the segments of a window: special tokens, and fixed texts."""

    cls: int
    sep: int
    pad: int
    text_ids: Callable[[str], IntArray] = field(default=_no_texts, compare=False, repr=False)


class SegmentTokenizer:
    """A tokenizer without truncation, padding or added special tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # "[SEP]" in a user's text must stay text, otherwise it could fake the end of a segment.
        tokenizer.encode_special_tokens = True
        _split_long_words(tokenizer)
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special}
        ids = {name: self._special_id(words, special) for name, words in _SPECIAL_NAMES.items()}
        self.special = SpecialTokens(**ids, text_ids=self._text_ids)
        self._fixed: dict[str, IntArray] = {}  # ids of the fixed texts of a layout
        self._unknown = self._special_id(_UNKNOWN_NAMES, special)
        # A Unigram vocabulary holds special tokens as ordinary pieces and finds them in text too.
        reserved = {self.special.cls, self.special.sep, self.special.pad} | special
        self._reserved = np.asarray(sorted(reserved - {self._unknown}), dtype=np.int64)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """Load a ``tokenizer.json``; raises ``BundleError`` if the file is not a tokenizer."""
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

    @property
    def unifies_forms(self) -> bool:
        """Whether ways of writing that say the same are read alike."""
        return unifies_forms(self._tokenizer)

    def unify_forms(self) -> None:
        """Read ways of writing that say the same alike (``trivet.data.written_forms``)."""
        unify_forms(self._tokenizer)

    def words(self) -> list[str]:
        """Return the vocabulary."""
        return list(self._tokenizer.get_vocab(with_added_tokens=True))

    def ids_in(self, other: SegmentTokenizer) -> IntArray:
        """Return another tokenizer's id for each id of this one, or -1 for words it lacks. [V].

        Special tokens correspond by their role, whatever their names; those that ``encode`` never
        gives, by the other's unknown token.
        """
        known = other._tokenizer.get_vocab(with_added_tokens=True)
        other_ids = np.full(self.vocab_size, -1, dtype=np.int64)
        for word, number in self._tokenizer.get_vocab(with_added_tokens=True).items():
            other_ids[number] = known.get(word, -1)
        lacking = self._reserved[other_ids[self._reserved] < 0]
        other_ids[lacking] = other._unknown
        for role in ("cls", "sep", "pad"):
            other_ids[getattr(self.special, role)] = getattr(other.special, role)
        other_ids[self._unknown] = other._unknown
        return other_ids

    def to_json(self) -> str:
        """Return the tokenizer as the text of a ``tokenizer.json``."""
        return self._tokenizer.to_str(pretty=False)

    def _text_ids(self, text: str) -> IntArray:
        if text not in self._fixed:
            self._fixed[text] = self.encode([text])[0].ids
        return self._fixed[text]

    def _special_id(self, names: Sequence[str], special: Container[int]) -> int:
        ids = [self._tokenizer.token_to_id(name) for name in names]
        known = [number for number in ids if number is not None]
        if known:
            # MPNet's vocabulary also has the names of BERT's special tokens, as ordinary pieces.
            return next((number for number in known if number in special), known[0])
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


@dataclass(frozen=True, slots=True)
class TokenizedExample:
    """One tokenized example. Sentences without any token are left out."""

    question: Segment
    # all contexts one after the other, each text once; offsets are relative to a token's context
    context: Segment
    context_index: IntArray  # context of each context token, [C]
    context_sentence: IntArray  # sentence of each context token, counted over all contexts, [C]
    context_sentence_spans: tuple[ContextSpan, ...]  # span of each of these sentences
    response: Segment
    response_sentence: IntArray  # sentence of each response token, [R]
    response_sentence_spans: tuple[Span, ...]  # span of each of these sentences
    replaced_characters: int  # number of lone surrogates that were replaced by U+FFFD
    example: RagExample  # texts
    first_copy: IntArray  # context that is read for each context: of equal ones the first


def tokenize_examples(
    examples: Sequence[RagExample],
    tokenizer: SegmentTokenizer,
    leads: Callable[[bool], tuple[str, str]] = lambda has_question: ("", ""),
    *,
    structured: bool = False,
    sort: bool = False,
) -> list[TokenizedExample]:
    """Tokenize every passage, question and response of some examples once, in one batch.

    Passages of the same text are read once. If ``sort``, they are read in the order of their texts,
    so that the order in which they were retrieved changes nothing.

    ``leads`` returns the leads of the question and of each passage of an example with or without a
    question (``data.window_layout``). If ``structured``, JSON and tables in contexts without own
    sentences are read as lines of "key: value" (``data.structured_text``).

    Raises:
        ExampleError: Sentences given with an example do not fit its texts.
    """
    texts: list[str] = []
    before = [leads(bool(example.question.strip())) for example in examples]
    copies = [_first_copies(example) for example in examples]
    forms: list[dict[int, StructuredText | None]] = []  # of each context that is read, in order
    for example, (asked, lead), first in zip(examples, before, copies, strict=True):
        numbers = sorted(set(first), key=example.contexts.__getitem__ if sort else None)
        read = structured and example.context_sentences is None
        by_number = {n: read_structure(example.contexts[n]) if read else None for n in numbers}
        contexts = (form.read if form else example.contexts[n] for n, form in by_number.items())
        texts += [_led(asked, example.question), example.response]
        texts += [_led(lead, context) for context in contexts]
        forms.append(by_number)
    segments = iter(tokenizer.encode(texts))
    tokenized = []
    for example, (_, lead), first, by_number in zip(examples, before, copies, forms, strict=True):
        question, response = next(segments), next(segments)
        passages = {n: _in_text(next(segments), len(lead), form) for n, form in by_number.items()}
        tokenized.append(_assemble(example, question, response, passages, by_number, first))
    return tokenized


def _first_copies(example: RagExample) -> tuple[int, ...]:
    """Return for each context the first one with the same text and sentences.

    Raises:
        ExampleError: The example gives sentences, but not those of each context.
    """
    sentences = example.context_sentences or ((),) * len(example.contexts)
    if len(sentences) != len(example.contexts):
        raise ExampleError(
            f"sentences are given for {len(sentences)} contexts, but there are "
            f"{len(example.contexts)}; give one tuple of spans per context, or None",
            code="bad_sentences",
        )
    first: dict[tuple[str, tuple[Span, ...]], int] = {}
    pairs = enumerate(zip(example.contexts, sentences, strict=True))
    return tuple(first.setdefault(pair, number) for number, pair in pairs)


def _led(lead: str, text: str) -> str:
    """Return a text with its lead; a blank text has no token then."""
    return (lead + text if text.strip() else "") if lead else text


def _in_text(segment: Segment, lead: int, form: StructuredText | None) -> Segment:
    """Return a segment with offsets in its text; a token of the lead alone is empty."""
    offsets = np.maximum(segment.offsets - lead, 0) if lead else segment.offsets
    return Segment(segment.ids, offsets if form is None else form.text_offsets(offsets))


def with_response(
    tokenized: TokenizedExample,
    text: str,
    segment: Segment,
    sentences: tuple[Span, ...] | None = None,
) -> TokenizedExample:
    """Return an example that was tokenized without a response, with one.

    ``sentences`` are those of the response; ``None`` means those of the sentence splitter.

    Raises:
        ExampleError: The sentences do not fit the text.
    """
    sentence, spans = _assign_sentences(text, segment, sentences, "response")
    return replace(
        tokenized,
        response=segment,
        response_sentence=sentence,
        response_sentence_spans=spans,
        replaced_characters=tokenized.replaced_characters + replace_surrogates(text)[1],
        example=replace(tokenized.example, response=text),
    )


def _assemble(
    example: RagExample,
    question: Segment,
    response: Segment,
    passages: Mapping[int, Segment],
    forms: Mapping[int, StructuredText | None],
    first_copy: tuple[int, ...],
) -> TokenizedExample:
    all_spans = example.context_sentences
    # The empty arrays are for examples without any context.
    ids, offsets, indices, sentences = [_NONE], [_NONE.reshape(0, 2)], [_NONE], [_NONE]
    context_spans: list[ContextSpan] = []
    whole = (example.question, example.response, *example.contexts)
    replaced = sum(replace_surrogates(text)[1] for text in whole)
    for number, passage in passages.items():
        text, form = example.contexts[number], forms[number]
        passage_spans = form.sentences if form else None if all_spans is None else all_spans[number]
        sentence, spans = _assign_sentences(text, passage, passage_spans, f"contexts[{number}]")
        ids.append(passage.ids)
        offsets.append(passage.offsets)
        indices.append(np.full(len(passage.ids), number))
        sentences.append(sentence + len(context_spans))
        for span in spans:
            context_spans.append(ContextSpan(number, span.start, span.end))
    response_sentence, response_spans = _assign_sentences(
        example.response, response, example.response_sentences, "response"
    )
    return TokenizedExample(
        question=question,
        context=Segment(np.concatenate(ids), np.concatenate(offsets)),
        context_index=np.concatenate(indices),
        context_sentence=np.concatenate(sentences),
        context_sentence_spans=tuple(context_spans),
        response=response,
        response_sentence=response_sentence,
        response_sentence_spans=response_spans,
        replaced_characters=replaced,
        example=example,
        first_copy=np.asarray(first_copy, dtype=np.int64),
    )


def _assign_sentences(
    text: str, segment: Segment, sentences: tuple[Span, ...] | None, name: str
) -> tuple[IntArray, tuple[Span, ...]]:
    """Return the sentence number of every token, and the sentences that contain a token."""
    reached = 0
    for span in sentences or ():
        if span.start < reached or span.end > len(text):
            raise ExampleError(
                f"the sentences given for {name} ({len(text)} characters) must be in order, "
                "must not overlap and must lie in the text",
                code="bad_sentences",
            )
        reached = span.end
    if not len(segment.ids):
        return _NONE, ()
    # Some tokenizers have tokens where the splitter sees only white space; these are one sentence.
    spans = sentences or split_sentences(text) or (Span(0, len(text)),)
    starts = np.fromiter(map(attrgetter("start"), spans), dtype=np.int64, count=len(spans))
    # A token may begin with the white space before its word, so its last character decides.
    last = np.maximum(segment.offsets[:, 1] - 1, segment.offsets[:, 0])
    number = np.maximum(np.searchsorted(starts, last, side="right") - 1, 0)
    kept = np.bincount(number, minlength=len(spans)) > 0
    renumbered = np.cumsum(kept) - 1
    return renumbered[number], tuple(itertools.compress(spans, kept))
