"""One row made ready for the page: texts cut, notes written, every number checked.

The template that draws it, ``templates/answer.html``, serves the pages and the notebook alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trivet.records import DataError, Evaluation
from trivet.report.cutting_marks import ContextPiece, Stretch, cut_context, cut_response
from trivet.report.verdict_row import VerdictRow
from trivet.report.verdict_texts import Placed, matches, rebuilt_contexts, rebuilt_response
from trivet.verdict_json import read_evaluation, read_scores

_LONGEST = 20_000  # characters of one text that a page shows
_LONGEST_CONTEXTS = 60_000  # of all contexts of one answer


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A passage.

    Attributes:
        name: Its own name, or its number.
        relevance: ``None`` where it has no token.
        utilization: Likewise, and without a response.
        pieces: Its sentences and what stands between them.
        left_out: How many of its characters are not shown.
    """

    name: str
    relevance: float | None
    utilization: float | None
    pieces: Sequence[ContextPiece]
    left_out: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page says about one row.

    Attributes:
        row: Its number in the input.
        id: Its name; ``None`` where it has none.
        scores: The four, by name.
        question: ``None`` where the text is not at hand.
        response: Sentence by sentence; empty where there is none.
        contexts: In order.
        metadata: Column and value, as text.
        notes: What was cut, windowed or rebuilt.
    """

    row: int
    id: str | None
    scores: dict[str, float | None]
    question: str | None = None
    response: Sequence[Stretch] = ()
    contexts: Sequence[ShownContext] = ()
    metadata: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()


def read_answer(row: VerdictRow) -> Answer:
    """Return what a page says about a row that was judged.

    A verdict whose details cannot be read is shown with its scores, and says so.

    Raises:
        DataError: A score is neither a probability nor null.
    """
    scores = read_scores(row.verdict or {})
    metadata = [(name, str(value)) for name, value in row.metadata.items()]
    try:
        verdict = read_evaluation(row.verdict or {})
    except DataError as error:
        notes = [f"the details of this verdict cannot be read: {error}"]
        return Answer(row.row, row.id, scores, row.question, metadata=metadata, notes=notes)
    notes = list(_notes(verdict))
    response, contexts = _texts(row, verdict, notes)
    shown = response[:_LONGEST]
    for name, text in (("question", row.question or ""), ("response", response)):
        if len(text) > _LONGEST:
            notes.append(f"{len(text) - _LONGEST} more characters of the {name} are not shown")
    return Answer(
        row=row.row,
        id=row.id,
        scores=scores,
        question=None if row.question is None else row.question[:_LONGEST],
        response=cut_response(shown, verdict.sentences, verdict.unsupported),
        contexts=_contexts(contexts, verdict, row.context_ids),
        metadata=metadata,
        notes=notes,
    )


def _texts(row: VerdictRow, verdict: Evaluation, notes: list[str]) -> tuple[str, tuple[str, ...]]:
    """Return response and contexts: the row's own where the verdict is on these, else rebuilt."""
    response, contexts = row.response, row.contexts
    parts: list[Placed] = [*verdict.sentences, *verdict.unsupported]
    if response is not None and not matches(response, parts):
        notes.append(_OTHER_TEXT.format("the response"))
        response = None
    if contexts is not None and (
        (verdict.contexts and len(verdict.contexts) != len(contexts))
        or not all(
            matches(text, one.sentences)
            for text, one in zip(contexts, verdict.contexts, strict=False)
        )
    ):
        notes.append(_OTHER_TEXT.format("the contexts"))
        contexts = None
    return (
        rebuilt_response(verdict) if response is None else response,
        rebuilt_contexts(verdict) if contexts is None else contexts,
    )


_OTHER_TEXT = (
    "{} at hand is not the text that was judged; shown from the sentences of the verdict instead"
)


def _contexts(
    texts: Sequence[str], verdict: Evaluation, names: Sequence[str | None]
) -> list[ShownContext]:
    left = _LONGEST_CONTEXTS
    shown = []
    for number, text in enumerate(texts):
        judged = verdict.contexts[number] if number < len(verdict.contexts) else None
        name = names[number] if number < len(names) else None
        kept = text[: min(_LONGEST, left)]
        left -= len(kept)
        shown.append(
            ShownContext(
                name=f"{number + 1}" if name is None else f"{number + 1} · {name}",
                relevance=judged.relevance if judged else None,
                utilization=judged.utilization if judged else None,
                pieces=cut_context(kept, judged.sentences if judged else ()),
                left_out=len(text) - len(kept),
            )
        )
    return shown


def _notes(verdict: Evaluation) -> list[str]:
    """Say what was windowed, cut or replaced before it was read."""
    notes = []
    if verdict.windows > 1:
        notes.append(f"read in {verdict.windows} windows of {verdict.window_size} tokens")
    if verdict.cut_question_tokens:
        notes.append(f"{verdict.cut_question_tokens} tokens of the question did not fit, not read")
    if verdict.response_chunks > 1:
        notes.append(f"the response was read in {verdict.response_chunks} chunks")
    if verdict.replaced_characters:
        notes.append(f"{verdict.replaced_characters} characters could not be encoded, read as �")
    return notes
