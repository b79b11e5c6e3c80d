"""Verdicts on an answer while it is written: each sentence is read as soon as it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

from trivet.data.claims import is_heading
from trivet.data.evidence import keep_evidence
from trivet.data.lexical_overlap import Overlaps, count_overlaps
from trivet.data.sentence_features import count_features, index_contexts, response_values
from trivet.data.sentences import GrowingText, split_sentences
from trivet.data.tokenization import Segment, TokenizedExample, with_response
from trivet.data.windows import QUESTION_SHARE, RESPONSE_SHARE, Layout, lay_out
from trivet.errors import ExampleError
from trivet.evaluation.postprocessing import with_support
from trivet.evaluation.preprocessing import PreprocessedExample, Preprocessor
from trivet.interface import SentenceEvent
from trivet.records import ContextSpan, Evaluation, RagExample, Span
from trivet.report.shown_sources import number_citations

StreamWindows = Literal["evidence", "all"]
"""Windows that judge a sentence: one of the context sentences nearest to it, or all."""

SOURCES = 8  # context sentences of an evidence window, if they fit
PRECEDING = 64  # tokens of the sentences before that are shown with a sentence
_LEAD = ". "  # text before a sentence in the middle of a line
_GAP = 100  # characters before a sentence in which its line's beginning is looked for


class AnswerStream:
    """Judges an answer while it is written; made by ``Evaluator.stream``. For one thread.

    The contexts are tokenized once. Events do not depend on how the text is cut into pieces.
    """

    def __init__(
        self, reader: SentenceReader, evaluate: Callable[[PreprocessedExample], Evaluation]
    ) -> None:
        self._reader = reader
        self._evaluate = evaluate
        self._verdict: Evaluation | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return self._reader.text

    def feed(self, text: str) -> list[SentenceEvent]:
        """Append a piece of text, as long or short as it comes, and judge what it completes.

        A sentence is complete when the next one has begun.

        Returns:
            An event for each sentence that the piece completes; often none.

        Raises:
            ExampleError: The piece is not a string, or the text becomes too long.
            BackendError: The backend failed, or the bundle has no support head.
            ValueError: The stream is closed.
        """
        self._check_open()
        return self._judge(self._reader.feed(text))

    def flush(self) -> list[SentenceEvent]:
        """Judge the rest of the text as it is, even if it ends in mid-word; errors as in ``feed``.

        Text that is fed later begins a new sentence.
        """
        self._check_open()
        return self._judge(self._reader.flush())

    def close(self) -> Evaluation:
        """Evaluate all of the text; later calls return the same verdict.

        Returns:
            The verdict of ``Evaluator.evaluate`` on the whole text, to the bit.
        """
        if self._verdict is None:
            self._verdict = self._evaluate(self._reader.whole())
        return self._verdict

    async def afeed(self, text: str) -> list[SentenceEvent]:
        """Do as ``feed``, in a thread: the event loop stays free."""
        return await asyncio.to_thread(self.feed, text)

    async def aflush(self) -> list[SentenceEvent]:
        """Do as ``flush``, in a thread."""
        return await asyncio.to_thread(self.flush)

    async def aclose(self) -> Evaluation:
        """Do as ``close``, in a thread."""
        return await asyncio.to_thread(self.close)

    def _check_open(self) -> None:
        if self._verdict is not None:
            raise ValueError("the stream is closed; begin another one with stream()")

    def _judge(self, sentences: list[PendingSentence]) -> list[SentenceEvent]:
        # One call for each: a sentence's verdict does not depend on the others of its piece.
        return [sentence.event(self._evaluate(sentence.prepared)) for sentence in sentences]


class PendingSentence(NamedTuple):
    """A sentence of an answer, ready for a backend."""

    prepared: PreprocessedExample  # example whose last response sentence it is
    # context sentence that shares most words with it; None without contexts
    source: ContextSpan | None

    def event(self, verdict: Evaluation) -> SentenceEvent:
        """Return the event, from the verdict on ``prepared``.

        Raises:
            BackendError: The bundle has no support head.
        """
        with_support(verdict.threshold, "sentences")
        sentence, source, text = verdict.sentences[-1], self.source, None
        if sentence.evidence:  # best first
            best = sentence.evidence[0]
            source = ContextSpan(best.context, best.start, best.end)
        if source is not None:
            text = self.prepared.example.contexts[source.context][source.start : source.end]
        return SentenceEvent(
            start=sentence.start,
            end=sentence.end,
            text=sentence.text,
            support=sentence.support,
            supported=sentence.supported,
            unsupported=tuple(s for s in verdict.unsupported if s.start >= sentence.start),
            source=source,
            source_text=text,
            abstains=sentence.abstains,
            threshold=verdict.threshold,
            to_check=tuple(s for s in verdict.to_check if s.start >= sentence.start),
        )


class SentenceReader:
    """Reads an answer piece by piece and prepares each sentence; runs nothing."""

    def __init__(
        self,
        preprocessor: Preprocessor,
        example: RagExample,
        windows: StreamWindows,
        allow_empty_contexts: bool = False,
    ) -> None:
        """Tokenize the question and the contexts of an example without a response.

        Raises:
            ExampleError: They cannot be evaluated.
            ValueError: ``windows`` is unknown.
        """
        if windows not in ("evidence", "all"):
            raise ValueError(f"windows must be 'evidence' or 'all', got {windows!r}")
        (prepared,) = preprocessor.preprocess([example], allow_empty_contexts=allow_empty_contexts)
        if not isinstance(prepared, PreprocessedExample):
            raise prepared
        self._growing = GrowingText()
        self._preprocessor = preprocessor
        self._prepared = prepared
        self._contexts = index_contexts(prepared.tokens)
        self._windows = windows
        self._allow_empty_contexts = allow_empty_contexts
        self._sentences: list[tuple[Span, int]] = []  # those before, with their tokens

    @property
    def text(self) -> str:
        """The text so far."""
        return self._growing.text

    @property
    def start(self) -> int:
        """First character after the sentences that were returned."""
        return self._growing.start

    def skip(self, text: str) -> None:
        """Begin with text that was judged before; it ends with a sentence."""
        spans = split_sentences(text)
        segments = self._preprocessor.tokenizer.encode([text[s.start : s.end] for s in spans])
        lengths = map(len, segments)
        self._sentences = [pair for pair in zip(spans, lengths, strict=True) if pair[1]]
        self._growing = GrowingText(text)

    def feed(self, text: str) -> list[PendingSentence]:
        """Append a piece of text; return the sentences that it completes.

        Raises:
            ExampleError: The piece is not a string, or the text becomes too long.
        """
        if not isinstance(text, str):
            raise ExampleError(f"a piece of text must be a string, not {type(text).__name__}")
        most = self._preprocessor.max_characters
        if len(self.text) + len(text) > most:
            raise ExampleError(
                f"response has {len(self.text) + len(text)} characters, more than max_characters "
                f"({most})",
                code="too_long",
            )
        return self._take(self._growing.append(text), followed=True)

    def flush(self) -> list[PendingSentence]:
        """Return the rest of the text as the last sentences, complete or not."""
        return self._take(self._growing.rest(), followed=False)

    def whole(self) -> PreprocessedExample:
        """Return the example with all of the text, as ``evaluate`` prepares it."""
        return self._preprocessor.with_response(
            self._prepared, self.text, allow_empty_contexts=self._allow_empty_contexts
        )

    def _take(self, sentences: list[Span], followed: bool) -> list[PendingSentence]:
        last = len(sentences) - 1
        prepared = (
            self._prepare(sentence, followed or number < last)
            for number, sentence in enumerate(sentences)
        )
        return [pending for pending in prepared if pending is not None]

    def _prepare(self, sentence: Span, followed: bool) -> PendingSentence | None:
        """Return a sentence with those before it and its evidence; ``None`` without a token.

        ``followed`` tells whether the text goes on after it: it may be a heading then.
        """
        spans, shown = [sentence], 0
        for before, length in reversed(self._sentences):
            shown += length
            if shown > PRECEDING:
                break
            spans.insert(0, before)
        first, text = spans[0].start, self.text[: sentence.end]
        read = number_citations(text, self._prepared.example.context_names)
        segment = self._encode(read, first)
        tokens = with_response(self._prepared.tokens, read, segment, tuple(spans))
        last = len(tokens.response_sentence_spans) - 1
        if last < 0 or tokens.response_sentence_spans[last] != sentence:
            return None
        self._sentences.append((sentence, int((tokens.response_sentence == last).sum())))
        overlaps, source = count_overlaps(tokens, SOURCES), None
        if overlaps.sources.size:
            source = tokens.context_sentence_spans[int(overlaps.sources[last][0])]
        if source is None or self._windows == "all":
            layout = self._preprocessor.lay_out(tokens, self._allow_empty_contexts, self._contexts)
        else:
            tokens, layout = self._lay_out_evidence(tokens, overlaps)
        if followed and is_heading(text[sentence.start :]):
            layout = replace(layout, roles=(*layout.roles[:-1], "no_claim"))
        example = replace(self._prepared.example, response=text)
        return PendingSentence(PreprocessedExample(example, tokens, layout), source)

    def _encode(self, text: str, first: int) -> Segment:
        """Return the tokens from a character on, as in the whole text.

        In the middle of a line, "# " begins no heading and "|" no row of a table.
        """
        before = text[max(0, first - _GAP) : first].rstrip(" \t")
        lead = _LEAD if before and not before.endswith("\n") else ""
        (segment,) = self._preprocessor.tokenizer.encode([lead + text[first:]])
        after_lead = segment.offsets[:, 0] >= len(lead)
        return Segment(segment.ids[after_lead], segment.offsets[after_lead] + (first - len(lead)))

    def _lay_out_evidence(
        self, tokens: TokenizedExample, overlaps: Overlaps
    ) -> tuple[TokenizedExample, Layout]:
        """Return an example with only the sources of its last response sentence, laid out."""
        settings = replace(self._preprocessor.settings, evidence_sentences=0)
        question = min(len(tokens.question), settings.size // QUESTION_SHARE)
        answer = min(len(tokens.response), settings.size // RESPONSE_SHARE)
        special = self._preprocessor.tokenizer.special
        frame = replace(settings.frame(tokens, special), passages=SOURCES)
        most = settings.size - question - answer - frame.positions
        evidence, kept = keep_evidence(tokens, overlaps.sources[-1], most, frame.gap)
        values = response_values(tokens, overlaps, self._contexts)
        layout = replace(
            lay_out(evidence, settings, special, self._contexts),
            # Compared with all of the contexts, as in training.
            question_overlap=overlaps.question[kept],
            response_overlap=overlaps.response[kept],
            sentence_features=count_features(tokens, overlaps, values, self._contexts),
            # Their other places are no longer among the sentences.
            values=tuple(
                tuple(value._replace(sentences=()) for value in sentence) for sentence in values
            ),
        )
        return evidence, layout
