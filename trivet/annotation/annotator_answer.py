"""The answer of an annotator: sentences by key, form, checks and labels.

Keys, form and checks follow RAGBench (arXiv 2407.11005, appendix 7.4 and 7.5): ``0a`` is the first
sentence of the first context, ``b`` the second of the response. That evidence is utilized is a
check of ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

from trivet.annotation.asking import read_object
from trivet.data.sentences import split_sentences
from trivet.labelled.ragbench_labels import bare_key, read_labels
from trivet.labelled.source_report import SourceReport
from trivet.records import ContextSpan, Labels, RagExample, Span


@dataclass(frozen=True)
class KeyedExample:
    """An example and the spans of its sentences by key, in order."""

    example: RagExample
    contexts: Mapping[str, ContextSpan]
    response: Mapping[str, Span]

    @classmethod
    def of(cls, example: RagExample) -> Self:
        """Give keys to the sentences of the data, or else of the splitter."""
        by_context = example.context_sentences or map(split_sentences, example.contexts)
        contexts = {
            f"{number}{_letters(index)}": ContextSpan(number, span.start, span.end)
            for number, spans in enumerate(by_context)
            for index, span in enumerate(spans)
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


SUPPORT_WORDS = frozenset(
    {"general", "supported_without_sentence", "well_known_fact", "numerical_reasoning"}
)
"""Words that replace the keys of supporting sentences."""

_SHOWN = 8  # keys in a message

_Key = Annotated[str, BeforeValidator(lambda key: bare_key(str(key).strip("[]() ").lower()))]


class SentenceSupport(BaseModel):
    """The support of one sentence of the response."""

    model_config = ConfigDict(extra="forbid")

    response_sentence_key: _Key
    explanation: str
    supporting_sentence_keys: list[_Key]
    fully_supported: bool


class AnnotatorAnswer(BaseModel):
    """The answer of an annotator, its fields in the order in which they are to be written."""

    model_config = ConfigDict(extra="forbid")

    relevance_explanation: str
    all_relevant_sentence_keys: list[_Key]
    overall_supported_explanation: str
    overall_supported: bool
    sentence_support_information: list[SentenceSupport]
    all_utilized_sentence_keys: list[_Key]

    def supported(self) -> dict[str, bool]:
        """Return whether each sentence of the response is supported, by key."""
        return {
            support.response_sentence_key: support.fully_supported
            for support in self.sentence_support_information
        }

    def labels(self, keyed: KeyedExample) -> Labels:
        """Return the labels of the example, as RAGBench's are read."""
        unsupported = [key for key, supported in self.supported().items() if not supported]
        values = self.model_dump() | {
            "unsupported_response_sentence_keys": unsupported,
            "adherence_score": self.overall_supported,
        }
        name = keyed.example.id or ""
        return read_labels(values, keyed.contexts, keyed.response, name, SourceReport(name))


def read_answer(text: str, keyed: KeyedExample) -> AnnotatorAnswer:
    """Read an answer and check it; a ``ValueError`` lists what is wrong with it."""
    answer = AnnotatorAnswer.model_validate(_with_explanations(read_object(text)))
    if faults := list(_faults(answer, keyed)):
        raise ValueError("; ".join(faults))
    return answer


def _with_explanations(value: dict[str, Any]) -> dict[str, Any]:
    """Add the explanations that are missing: no label depends on them."""
    empty = {"relevance_explanation": "", "overall_supported_explanation": ""}
    for support in value.get("sentence_support_information") or ():
        if isinstance(support, dict):
            support.setdefault("explanation", "")
    return empty | {name: value[name] for name in AnnotatorAnswer.model_fields if name in value}


def _faults(answer: AnnotatorAnswer, keyed: KeyedExample) -> Iterator[str]:
    """Yield what contradicts the example or another part of the answer, in words."""
    support = answer.sentence_support_information
    counts = Counter(judged.response_sentence_key for judged in support)
    relevant = set(answer.all_relevant_sentence_keys)
    utilized = set(answer.all_utilized_sentence_keys)
    evidence = {key for judged in support for key in judged.supporting_sentence_keys}
    evidence -= SUPPORT_WORDS
    documents = keyed.contexts.keys()
    bare = [e.response_sentence_key for e in support if not e.supporting_sentence_keys]
    supported = answer.supported()
    faults: tuple[tuple[str, Iterable[str]], ...] = (
        ("no judgement of the response's sentences", keyed.response.keys() - counts.keys()),
        ("more than one judgement of", (key for key, count in counts.items() if count > 1)),
        ("the response has no sentences", counts.keys() - keyed.response.keys()),
        ("all_relevant_sentence_keys: the documents have no sentences", relevant - documents),
        ("all_utilized_sentence_keys: the documents have no sentences", utilized - documents),
        ("supporting_sentence_keys: the documents have no sentences", evidence - documents),
        ("fully supported, but without supporting keys:", (k for k in bare if supported[k])),
        ("supporting, but not in all_utilized_sentence_keys:", (evidence & documents) - utilized),
    )
    for fault, keys in faults:
        if listed := sorted(keys, key=lambda key: (len(key), key)):
            more = ", ..." if len(listed) > _SHOWN else ""
            yield f"{fault} {', '.join(key[:40] for key in listed[:_SHOWN])}{more}"
    if answer.overall_supported != all(supported.values()):
        yield (
            f"overall_supported is {str(answer.overall_supported).lower()}, but of {len(supported)}"
            f" sentences {sum(supported.values())} are fully supported"
        )
