"""Layout of a window as data: the pieces that it shows, in order.

A window owns the context tokens of its slice; every other piece repeats in all windows. The plain
layout is Luna's (arXiv 2406.00975), eq. 1. Published detectors bring their own prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from trivet.data.tokenization import IntArray, SpecialTokens
from trivet.errors import WindowError

PieceKind = Literal["cls", "sep", "text", "question", "contexts", "response"]

# For pydantic, which reads these records from ``bundle.json``.
STRICT: dict[str, Any] = {"strict": True, "extra": "forbid"}
_NO_IDS: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a window.

    Attributes:
        kind: A special token (``cls``, ``sep``), a fixed ``text``, the ``question``, the window's
            slice of the ``contexts``, or its chunk of the ``response``.
        text: Fixed text, in which ``{passages}`` is the number of passages in the window. Of
            contexts, the text before each passage, in which ``{number}`` counts the passages of
            the window from 1; if it is empty, a separator is between two passages.
        lead: Text that is tokenized together with the question or with each passage, before it:
            the white space after the piece before. White space alone.
    """

    kind: PieceKind
    text: str = ""
    lead: str = ""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT


@dataclass(frozen=True, slots=True)
class WindowLayout:
    """The pieces of a window, in order."""

    pieces: tuple[Piece, ...]  # of an example with a question, or of any if there are no others
    without_question: tuple[Piece, ...] = ()  # of one without a question; empty: the same

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    def __post_init__(self) -> None:
        _check("pieces", self.pieces, questions=1)
        if self.without_question:
            _check("without_question", self.without_question, questions=0)

    def of(self, has_question: bool) -> tuple[Piece, ...]:
        """Return the pieces of an example with or without a question."""
        return self.pieces if has_question or not self.without_question else self.without_question

    def leads(self, has_question: bool) -> tuple[str, str]:
        """Return the leads of the question and of each passage."""
        found = {piece.kind: piece.lead for piece in self.of(has_question)}
        return found.get("question", ""), found["contexts"]


def _check(name: str, pieces: tuple[Piece, ...], questions: int) -> None:
    """Refuse pieces that make no window."""
    kinds = [piece.kind for piece in pieces]
    wanted = {"contexts": 1, "response": 1, "question": questions}
    for kind, count in wanted.items():
        found = sum(each == kind for each in kinds)
        if found != count:
            raise WindowError(
                f"window.layout.{name} has the piece {kind} {found} times; it must have it "
                f"{'once' if count else 'not at all'}"
            )
    at = kinds.index("response")
    later = [kind for kind in kinds[at:] if kind in ("question", "contexts")]
    if later or any("{passages}" in piece.text for piece in pieces[at:]):
        raise WindowError(
            f"window.layout.{name}: {later[0] if later else 'a text with {passages}'} comes after "
            "the response, which must be the last that an example brings"
        )
    for piece in pieces:
        if piece.text and piece.kind not in ("text", "contexts"):
            raise WindowError(f"window.layout.{name}: the piece {piece.kind} has no text")
        if piece.lead.strip() or (piece.lead and piece.kind not in ("question", "contexts")):
            raise WindowError(
                f"window.layout.{name}: the lead of {piece.kind} is {piece.lead!r}; only question "
                "and contexts have one, of white space"
            )


PLAIN = WindowLayout(
    (
        *(Piece("cls"), Piece("contexts"), Piece("sep"), Piece("question"), Piece("sep")),
        *(Piece("response"), Piece("sep")),
    )
)
"""``[CLS] slice [SEP] question [SEP] response [SEP]``."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The pieces of an example's windows, with the ids of all that is fixed."""

    pieces: tuple[Piece, ...]
    special: SpecialTokens
    passages: int  # largest number of them in a window

    @property
    def positions(self) -> int:
        """Most positions of a window that are fixed, the text before its first passage included."""
        numbers = range(1, 1 + max(1, self.passages))
        if not any("{passages}" in piece.text for piece in self.pieces):
            numbers = range(1, 2)
        lengths = (sum(len(ids) for _, ids in self._fixed(shown)) for shown in numbers)
        return max(lengths) + len(self._before_passage(1))

    @property
    def gap(self) -> int:
        """Most positions between two passages."""
        numbers = range(2, 1 + max(2, self.passages))
        if "{number}" not in self._contexts.text:
            numbers = range(2, 3)
        return max(len(self._before_passage(number)) for number in numbers)

    def head(
        self, question: IntArray, context: IntArray, runs: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return the ids of a row before its response, and the columns of its context tokens.

        ``runs`` has the passage of each context token in this row, from 0. *Shape:* [T].
        """
        shown = int(runs[-1]) + 1 if len(runs) else 0
        if self._contexts.text:
            before = [self._before_passage(number + 1) for number in range(shown)]
            ends = np.cumsum([len(ids) for ids in before], dtype=np.int64)
        else:  # a separator between two passages
            before = [np.full(max(0, shown - 1), self.special.sep, dtype=np.int64)]
            ends = np.arange(shown)
        columns = np.arange(len(context)) + ends[runs]
        block = np.zeros(len(context) + (int(ends[-1]) if shown else 0), dtype=np.int64)
        fixed = np.ones(len(block), dtype=np.bool_)
        fixed[columns] = False
        block[columns], block[fixed] = context, np.concatenate([_NO_IDS, *before])
        parts: list[IntArray] = []
        for kind, ids in self._fixed(shown):
            if kind == "response":
                break
            if kind == "contexts":
                columns = columns + sum(map(len, parts))
            parts.append({"question": question, "contexts": block}.get(kind, ids))
        return np.concatenate([_NO_IDS, *parts]), columns

    def tail(self) -> IntArray:
        """Return the ids of a row after its response; no number of passages is in them."""
        kinds = [piece.kind for piece in self.pieces]
        after = list(self._fixed(0))[kinds.index("response") + 1 :]
        return np.concatenate([_NO_IDS, *(ids for _, ids in after)])

    @property
    def _contexts(self) -> Piece:
        return next(piece for piece in self.pieces if piece.kind == "contexts")

    def _before_passage(self, number: int) -> IntArray:
        text = self._contexts.text
        if text:
            return self.special.text_ids(text.replace("{number}", str(number)))
        return np.full(min(number - 1, 1), self.special.sep, dtype=np.int64)

    def _fixed(self, shown: int) -> Iterator[tuple[PieceKind, IntArray]]:
        """Yield the kind and the ids of each piece; none for a segment."""
        for piece in self.pieces:
            if piece.kind == "text":
                yield (
                    piece.kind,
                    self.special.text_ids(piece.text.replace("{passages}", str(shown))),
                )
            elif piece.kind in ("cls", "sep"):
                yield piece.kind, np.full(1, getattr(self.special, piece.kind), dtype=np.int64)
            else:
                yield piece.kind, _NO_IDS
