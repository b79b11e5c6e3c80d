"""A verdict and a bundle as a person reads them in a terminal; nothing is printed here."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trivet.model.bundle_info import BundleInfo
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


def render_info(info: BundleInfo, folder: str) -> RenderableType:
    """Return what a bundle is and how it scored."""
    about = Table.grid(padding=(0, 2))
    graphs = ", ".join(f"{graph.file} ({graph.precision})" for graph in info.graphs) or "none"
    data = ", ".join(f"{data.name} ({data.licence})" for data in info.training.data) or "none"
    rows = {
        "bundle": info.name,
        "folder": folder,
        "encoder": f"{info.encoder.source} ({info.encoder.licence}), {info.encoder.layers} layers",
        "windows": f"{' or '.join(map(str, info.window.sizes or (info.window.size,)))} tokens, "
        f"overlap {info.window.overlap}",
        "heads": ", ".join(info.heads),
        "faithfulness": info.faithfulness,
        "thresholds": f"adherence {info.thresholds.adherence:.3f}, "
        f"sentence {info.thresholds.sentence:.3f}, span {info.thresholds.span:.3f}",
        "graphs": graphs,
        "trained on": data,
        "written by": f"trivet {info.package_version}, {info.training.date}",
    }
    for name, value in rows.items():
        about.add_row(Text(name, style="bold"), Text(visible(value)))
    if not info.scores:
        return about
    scores = Table(*("data", "split", "measure", "value", "95 % interval", "n", "precision"))
    for score in info.scores:
        cells = (
            score.data,
            score.split,
            score.measure,
            _number(score.value),
            "-" if score.low is None else f"{_number(score.low)} to {_number(score.high)}",
            str(score.n),
            score.precision,
        )
        # As text: a plain string would be read as markup.
        scores.add_row(*(Text(visible(cell)) for cell in cells))
    return Group(about, Text(), scores)


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
        table.add_row(Text(name, style="bold"), _number(value), Text(remark, style="dim"))
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
        table.add_row(_number(sentence.support), judged, Text(_start(sentence.text)))
    return table


def _start(text: str) -> str:
    return visible(" ".join(text.split())[:60])


def _contexts(contexts: list[str], verdict: Evaluation) -> Table:
    table = Table("context", "relevance", "utilization", "text", box=None, padding=(0, 2, 0, 0))
    for number, (text, context) in enumerate(zip(contexts, verdict.contexts, strict=True)):
        shares = (_number(context.relevance), _number(context.utilization))
        table.add_row(str(number), *shares, Text(_start(text)))
    return table


def _notes(verdict: Evaluation) -> Iterable[str]:
    if verdict.cut_question_tokens:
        yield f"{verdict.cut_question_tokens} tokens of the question did not fit and were not read"
    if verdict.response_chunks > 1:
        yield f"the response was read in {verdict.response_chunks} chunks"
    if verdict.replaced_characters:
        yield f"{verdict.replaced_characters} characters could not be encoded, read as U+FFFD"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
