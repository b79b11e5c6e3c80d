"""Verdicts as rich renderables for a terminal; nothing is printed here."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trivet.records import Evaluation
from trivet.report.verdict_texts import rebuilt_contexts, rebuilt_response

# Shown without colours too: what is piped into a file must say it as clearly.
_OPEN, _CLOSE = "[", "]"
_MARK = "bold red"


def render_verdict(response: str, contexts: Iterable[str], verdict: Evaluation) -> RenderableType:
    """Return scores, the response with its unsupported spans in brackets, and the contexts."""
    parts: list[RenderableType] = [_scores(verdict)]
    if verdict.sentences:
        parts += [Text(), _marked(response, verdict), Text(), _sentences(verdict)]
    parts += [
        Text.assemble(
            "unsupported ",
            (visible(span.text), _MARK),
            f"  characters {span.start} to {span.end}, probability {span.probability:.2f}",
        )
        for span in verdict.unsupported
    ]
    if verdict.contexts:
        parts += [Text(), _contexts(list(contexts), verdict)]
    parts += [Text(note, style="yellow") for note in _notes(verdict)]
    return Group(*parts)


def render_evaluation(verdict: Evaluation) -> RenderableType:
    """Return a verdict for which no text is at hand: its own sentences stand for them."""
    return render_verdict(rebuilt_response(verdict), rebuilt_contexts(verdict), verdict)


def visible(text: str) -> str:
    """Return text that cannot command a terminal: controls and direction marks become U+FFFD.

    Line breaks and tabs stay; every other character of the categories control, format and surrogate
    is replaced, except the joiners that emoji and scripts are written with.
    """
    return "".join(
        character
        if character in "\n\t\u200c\u200d" or unicodedata.category(character) not in _UNSAFE
        else "\ufffd"
        for character in text
    )


_UNSAFE = frozenset({"Cc", "Cf", "Cs"})


def _scores(verdict: Evaluation) -> Table:
    table = Table.grid(padding=(0, 2))
    judged = {None: "", True: "adherent", False: "not adherent"}[verdict.adherent]
    for name, value, remark in (
        ("faithfulness", verdict.faithfulness, judged),
        ("supported share", verdict.supported_share, f"{len(verdict.sentences)} sentences"),
        ("relevance", verdict.relevance, f"{len(verdict.contexts)} contexts"),
        ("utilization", verdict.utilization, ""),
        ("completeness", verdict.completeness, ""),
    ):
        table.add_row(Text(name, style="bold"), number(value), Text(remark, style="dim"))
    return table


def _marked(response: str, verdict: Evaluation) -> Text:
    marked, end = Text(), 0
    for span in verdict.unsupported:
        marked.append(visible(response[end : span.start]))
        marked.append(f"{_OPEN}{visible(response[span.start : span.end])}{_CLOSE}", style=_MARK)
        end = span.end
    return marked.append(visible(response[end:]))


def _sentences(verdict: Evaluation) -> Table:
    table = Table("support", "", "sentence", box=None, padding=(0, 2, 0, 0))
    for sentence in verdict.sentences:
        judged = Text("supported") if sentence.supported else Text("not supported", style=_MARK)
        table.add_row(number(sentence.support), judged, Text(_start(sentence.text)))
    return table


def _start(text: str) -> str:
    return visible(" ".join(text.split())[:60])


def _contexts(contexts: list[str], verdict: Evaluation) -> Table:
    table = Table("context", "relevance", "utilization", "text", box=None, padding=(0, 2, 0, 0))
    for at, (text, context) in enumerate(zip(contexts, verdict.contexts, strict=True)):
        shares = (number(context.relevance), number(context.utilization))
        table.add_row(str(at), *shares, Text(_start(text)))
    return table


def _notes(verdict: Evaluation) -> Iterable[str]:
    if verdict.cut_question_tokens:
        yield f"{verdict.cut_question_tokens} tokens of the question did not fit and were not read"
    if verdict.response_chunks > 1:
        yield f"the response was read in {verdict.response_chunks} chunks"
    if verdict.replaced_characters:
        yield f"{verdict.replaced_characters} characters could not be encoded, read as U+FFFD"


def number(value: float | None) -> str:
    """Return a score with three decimals, or ``-`` where there is none."""
    return "-" if value is None else f"{value:.3f}"
