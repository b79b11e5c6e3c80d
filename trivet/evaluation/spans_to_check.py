"""Spans of supported sentences that a person should look at, each with its reason."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from trivet.evaluation.unsupported_spans import SentenceMarks
from trivet.records import MarkedSpan, SentenceVerdict, SpanReason

NEAR = 0.05
"""Margin above the threshold in which the support of a sentence just reaches it.

In RAGTruth-QA's dev rows 63 % of the sentences in it have an unsupported part, as many as of those
below the threshold (61 %); of those in the next .05 it is 36 %.
"""

_QUOTATION = re.compile(r"[\"“„«]([^\"“”„«»]{9,2000})[\"”“»]|^[ \t]{0,3}>[ \t]?(\S.+)$", re.M)
_LEFT_OUT = re.compile(r"\[?(?:\.\.\.|…)\]?|\[[^\[\]]{0,40}\]")
_WORDS = 4  # fewest of a quotation
_IDENTIFIER = re.compile(
    r"(?<![\w@/.-])(?!\d{4}-\d\d-\d\d\b|Q[1-4]\b|H[12]\b|FY\d+\b|[A-Z]{2,3}\d+[,.])(?:"
    r"(?:https?://|www\.)[^\s<>\"'()]+"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?:/[\w.-]+){2,}|[A-Za-z]:\\[\w.\\-]+"
    r"|v?\d+\.\d+\.\d+(?:[.-]\w+)*|v\d+(?:\.\d+)*"
    r"|\#\d{3,}|\d{2,}-\d{2,}-\d{2,}"
    r"|(?=[\w-]*\d)[A-Z][A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*"
    r"|(?=[\w-]*\d)[A-Z]-[A-Za-z0-9]+|[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+"
    r")(?![\w@])"
)
_QUOTES = str.maketrans(dict.fromkeys("“”„«»‘’`'", '"'))


def spans_to_check(
    marks: SentenceMarks, sentences: Sequence[SentenceVerdict], threshold: float
) -> tuple[MarkedSpan, ...]:
    """Return the spans to check in each supported sentence, given the verdicts.

    They are values that no context has, or only another passage than the sentence's sources, and
    quotations and identifiers that no context has word for word. A sentence without any is one
    itself if its support is within ``NEAR`` of the threshold.
    """
    example, spans = marks.example.example, list[MarkedSpan]()
    known = _Texts((*example.contexts, example.question))
    for number, sentence in zip(marks.numbers, sentences, strict=True):
        if sentence.supported is not True or sentence.support is None:
            continue
        # The number of an identifier is not a fault of its own, that of a quotation is.
        text = sentence.text
        values = marks.example.layout.values[number]
        stand = {(v.value.span.start, v.value.span.end) for v in values if v.status != "nowhere"}
        named = [bounds for bounds in known.identifiers(text) if bounds not in stand]
        flagged = _marks(sentence, named, "identifier_not_in_contexts")
        flagged += _beside(marks.far_values(number, sentence), flagged)
        quoted = _marks(sentence, known.quotations(text), "quotation_not_in_contexts")
        flagged += _beside(quoted, flagged)
        if not flagged and sentence.support < threshold + NEAR:
            flagged = _marks(sentence, [(0, len(text))], "near_threshold")
        spans += sorted(flagged, key=attrgetter("start"))
    return tuple(spans)


def _marks(
    sentence: SentenceVerdict, places: Iterable[tuple[int, int]], reason: SpanReason
) -> list[MarkedSpan]:
    probability = 0.0 if sentence.support is None else 1 - sentence.support
    return [
        MarkedSpan(
            sentence.start + start,
            sentence.start + end,
            sentence.text[start:end],
            probability,
            reason,
        )
        for start, end in places
    ]


def _beside(spans: Iterable[MarkedSpan], others: Sequence[MarkedSpan]) -> list[MarkedSpan]:
    """Return the spans that share no character with one of the others."""
    taken = tuple(others)
    return [a for a in spans if not any(a.start < b.end and b.start < a.end for b in taken)]


class _Texts:
    """Texts in which quotations and identifiers are looked for; read when the first one is."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def quotations(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each quotation that no text has word for word."""
        for quoted in _QUOTATION.finditer(text):
            group = 1 if quoted[1] else 2
            parts = [_plain(part).strip(' ".,;:!?') for part in _LEFT_OUT.split(quoted[group])]
            long = sum(len(part.split()) for part in parts) >= _WORDS
            if long and not all(part in self._plain for part in parts):
                yield quoted.span(group)

    def identifiers(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each identifier that no text has; 555-01 is "555 01" as well."""
        for named in _IDENTIFIER.finditer(text):
            name = named[0].rstrip(".,;:!?")
            form = re.escape(name)
            if re.fullmatch(r"[\d-]+", name):
                form = name.replace("-", r"[-.\s]")
            if not re.search(rf"(?<!\w){form}(?!\w)", self._joined, re.IGNORECASE):
                yield named.start(), named.start() + len(name)

    @functools.cached_property
    def _joined(self) -> str:
        return "\n".join(self._texts)

    @functools.cached_property
    def _plain(self) -> str:
        return _plain(self._joined)


def _plain(text: str) -> str:
    """Return a text in lower case, with one kind of quotes and of white space."""
    return " ".join(text.casefold().translate(_QUOTES).split())
