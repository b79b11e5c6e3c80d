"""The two layouts of a window: what stands around its slice of the contexts, and in which order.

``plain`` is Luna's (arXiv 2406.00975), eq. 1: ``[CLS] slice [SEP] question [SEP] response [SEP]``.
``lettucedetect`` is the prompt of lettucedetect 0.2.3 (MIT, KR Labs): qa_prompt_en, and
summary_prompt_en without a question. Context tokens of a slice belong to its window; all else
repeats in every window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from trivet.data.tokenization import IntArray, SpecialTokens

WindowLayout = Literal["plain", "lettucedetect"]

_ASK = "Briefly answer the following question:"
_PASSAGES = (
    "\nBear in mind that your response should be strictly based on the following {passages} "
    "passages:"
)
_PASSAGE = "\npassage {number}:"
_UNKNOWN = (
    "\nIn case the passages do not contain the necessary information to answer the question, "
    'please reply with: "Unable to answer based on given passages."\noutput:'
)
_SUMMARIZE, _OUTPUT = "Summarize the following text:", "\noutput:"
_NO_IDS: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Frame:
    """The ids of all that is fixed in an example's windows."""

    layout: WindowLayout
    has_question: bool
    special: SpecialTokens
    passages: int  # largest number of them in a window

    @property
    def positions(self) -> int:
        """Most positions of a window that are fixed, the text before its first passage included."""
        numbers = range(1, 1 + max(1, self.passages))
        if self.layout == "plain" or not self.has_question:  # the number is not in the text
            numbers = range(1, 2)
        around = [
            [*before, *after] for before, after in (self._around(_NO_IDS, n) for n in numbers)
        ]
        most = max(sum(map(len, parts)) for parts in around)
        return most + len(self.tail()) + len(self._before_passage(1))

    @property
    def gap(self) -> int:
        """Most positions between two passages."""
        numbers = range(2, 3 if self.layout == "plain" else 1 + max(2, self.passages))
        return max(len(self._before_passage(number)) for number in numbers)

    def head(
        self, question: IntArray, context: IntArray, runs: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Return the ids of a row before its response, and the columns of its context tokens.

        ``runs`` has the passage of each context token in this row, from 0. *Shape:* [T].
        """
        shown = int(runs[-1]) + 1 if len(runs) else 0
        before, after = self._around(question, shown)
        between = [self._before_passage(number + 1) for number in range(shown)]
        ends = np.cumsum([len(ids) for ids in between], dtype=np.int64)
        columns = np.arange(len(context)) + ends[runs]
        block = np.zeros(len(context) + (int(ends[-1]) if shown else 0), dtype=np.int64)
        fixed = np.ones(len(block), dtype=np.bool_)
        fixed[columns] = False
        block[columns], block[fixed] = context, np.concatenate([_NO_IDS, *between])
        return np.concatenate([*before, block, *after]), columns + sum(map(len, before))

    def tail(self) -> IntArray:
        """Return the ids of a row after its response."""
        return self._id("sep")

    def _around(self, question: IntArray, shown: int) -> tuple[list[IntArray], list[IntArray]]:
        """Return what stands before the passages, and what between them and the response."""
        cls, sep = self._id("cls"), self._id("sep")
        if self.layout == "plain":
            return [cls], [sep, question, sep]
        if not self.has_question:
            return [cls, self._text(_SUMMARIZE)], [self._text(_OUTPUT), sep]
        passages = self._text(_PASSAGES.replace("{passages}", str(shown)))
        return [cls, self._text(_ASK), question, passages], [self._text(_UNKNOWN), sep]

    def _before_passage(self, number: int) -> IntArray:
        if self.layout == "plain":  # a separator between two passages
            return self._id("sep")[: number - 1]
        return self._text(_PASSAGE.replace("{number}", str(number)))

    def _id(self, name: Literal["cls", "sep"]) -> IntArray:
        return np.full(1, getattr(self.special, name), dtype=np.int64)

    def _text(self, text: str) -> IntArray:
        return self.special.text_ids(text)
