"""Sentences under keys, as in RAGBench (arXiv 2407.11005, appendix 7.4).

``0a`` is the first sentence of the first context, and ``b`` the second sentence of the response.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from trivet.data.sentences import split_sentences
from trivet.records import ContextSpan, RagExample, Span


@dataclass(frozen=True)
class KeyedExample:
    """An example and the spans of its sentences by key, in order."""

    example: RagExample
    contexts: Mapping[str, ContextSpan]
    response: Mapping[str, Span]

    @classmethod
    def of(cls, example: RagExample) -> Self:
        """Give keys to the sentences of the data, or else of the splitter."""
        given = example.context_sentences or map(split_sentences, example.contexts)
        contexts = {
            f"{number}{_letters(place)}": ContextSpan(number, span.start, span.end)
            for number, spans in enumerate(given)
            for place, span in enumerate(spans)
        }
        spans = example.response_sentences or split_sentences(example.response)
        return cls(example, contexts, {_letters(n): span for n, span in enumerate(spans)})

    def values(self) -> dict[str, Any]:
        """Return the values of a prompt: ``question``, ``documents`` and ``response``.

        Each text is on one line, so that none can look like a line of the prompt.
        """
        documents: list[list[dict[str, str]]] = [[] for _ in self.example.contexts]
        for key, span in self.contexts.items():
            text = self.example.contexts[span.context][span.start : span.end]
            documents[span.context].append({"key": key, "text": _one_line(text)})
        response = [
            {"key": key, "text": _one_line(self.example.response[span.start : span.end])}
            for key, span in self.response.items()
        ]
        question = _one_line(self.example.question)
        return {"question": question, "documents": documents, "response": response}


def _letters(number: int) -> str:
    """Return a, b, ... z, aa, ab, ..."""
    letters = ""
    number += 1
    while number:
        number, last = divmod(number - 1, 26)
        letters = chr(ord("a") + last) + letters
    return letters


def _one_line(text: str) -> str:
    return " ".join(text.split())
