"""Labels as marks on words and sentences, which a person sets, and back to spans."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from trivet.data.sentences import split_sentences
from trivet.records import ContextSpan, LabelledExample, Labels, RagExample, Span

FIELDS = ("unsupported", "relevant", "utilized")
_SCORES = {"relevant": ("relevance", "completeness"), "utilized": ("utilization", "completeness")}
_WORD = re.compile(r"\w+(?:[.,'\u2019-]\w+)*|[^\w\s]+")


class _Interval(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True)
class Marks:
    """Marked words of the response and sentences of the contexts; ``None`` where unknown.

    Attributes:
        unsupported: Numbers of words, counted over the response.
        relevant: Numbers of sentences, counted over all contexts.
        utilized: Likewise.
    """

    unsupported: frozenset[int] | None
    relevant: frozenset[int] | None
    utilized: frozenset[int] | None


@dataclass(frozen=True)
class Sheet:
    """The words and sentences of an example, which can be marked."""

    example: RagExample

    @cached_property
    def response(self) -> tuple[tuple[Span, ...], ...]:
        """Words of each response sentence."""
        text = self.example.response
        return tuple(
            tuple(
                Span(found.start(), found.end())
                for found in _WORD.finditer(text, sentence.start, sentence.end)
            )
            for sentence in split_sentences(text)
        )

    @cached_property
    def contexts(self) -> tuple[ContextSpan, ...]:
        """Sentences of all contexts."""
        return tuple(
            ContextSpan(number, span.start, span.end)
            for number, text in enumerate(self.example.contexts)
            for span in split_sentences(text)
        )

    def marks(self, labels: Labels) -> Marks:
        """Return the words and sentences that the spans of some labels touch."""
        words = [word for sentence in self.response for word in sentence]
        wrong = labels.unsupported
        return Marks(
            unsupported=None
            if wrong is None
            else frozenset(n for n, word in enumerate(words) if _overlaps(word, wrong)),
            relevant=self._touched_sentences(labels.relevant),
            utilized=self._touched_sentences(labels.utilized),
        )

    def apply(self, labelled: LabelledExample, marks: Marks) -> tuple[LabelledExample, list[str]]:
        """Return an example with the labels of some marks, and the names of the changed fields.

        Fields whose marks are the same keep their spans to the character. Scores and evidence that
        contradict a changed field are removed.

        Raises:
            ValueError: A mark is on no word or sentence.
        """
        before, old = self.marks(labelled.labels), labelled.labels
        changed = [name for name in FIELDS if getattr(before, name) != getattr(marks, name)]
        new = old
        if "unsupported" in changed:
            spans = None if marks.unsupported is None else tuple(self._spans(marks.unsupported))
            evidence = old.evidence
            if spans and evidence is not None:
                evidence = tuple(one for one in evidence if not _overlaps(one.response, spans))
            adherent = None if spans is None else not spans
            new = replace(new, unsupported=spans, adherent=adherent, evidence=evidence, unclear=())
        for name in ("relevant", "utilized"):
            if name in changed:
                numbers = getattr(marks, name)
                _check(numbers, len(self.contexts), name)
                values: dict[str, Any] = dict.fromkeys(_SCORES[name])
                if numbers is not None:
                    values[name] = tuple(self.contexts[n] for n in sorted(numbers))
                new = replace(new, **{name: None, **values})
        return replace(labelled, labels=new), changed

    def _touched_sentences(self, spans: Sequence[ContextSpan] | None) -> frozenset[int] | None:
        if spans is None:
            return None
        return frozenset(
            n
            for n, sentence in enumerate(self.contexts)
            if _overlaps(sentence, (one for one in spans if one.context == sentence.context))
        )

    def _spans(self, numbers: Set[int]) -> Iterator[Span]:
        """Yield the spans of the runs of marked words, none beyond its sentence."""
        _check(numbers, sum(map(len, self.response)), "unsupported")
        first = 0
        for words in self.response:
            run: list[Span] = []
            for n, word in enumerate(words, start=first):
                if n in numbers:
                    run.append(word)
                elif run:
                    yield Span(run[0].start, run[-1].end)
                    run = []
            if run:
                yield Span(run[0].start, run[-1].end)
            first += len(words)


def _overlaps(unit: _Interval, spans: Iterable[_Interval]) -> bool:
    return any(unit.start < span.end and span.start < unit.end for span in spans)


def _check(numbers: Set[int] | None, count: int, name: str) -> None:
    wrong = sorted(n for n in numbers or () if not 0 <= n < count)
    if wrong:
        raise ValueError(f"{name}: there is no number {wrong[0]}, only 0 to {count - 1}")
