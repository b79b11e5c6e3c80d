"""Verdicts for a terminal: one, one of a file, and the worst of a file; result files."""

from __future__ import annotations

import heapq
import io
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trivet.errors import DataError
from trivet.heads import CONTEXT_HEADS
from trivet.records import Evaluation
from trivet.report.answer import displayed_texts, evaluation_notes, rebuilt_texts
from trivet.report.run_tally import SHOWN_SCORES
from trivet.report.shown_sources import find_sources
from trivet.report.verdict_files import VerdictFile, VerdictRow
from trivet.report.wording import (
    NO_RESPONSE,
    TO_CHECK,
    UNSUPPORTED,
    count,
    find_reasons,
    sentence_word,
    verdict_word,
)
from trivet.verdict_json import read_evaluation, read_scores

UNSUPPORTED_STYLE, TO_CHECK_STYLE = "bold red", "yellow"
_STYLES = {UNSUPPORTED: UNSUPPORTED_STYLE, TO_CHECK: TO_CHECK_STYLE}
_UNSAFE = frozenset({"Cc", "Cf", "Cs"})
_MAX_TEXT = 200  # characters of a sentence or context; the terminal may show fewer
_SHORT = 10  # sentences of a response; in a longer one each shows its best source alone


def show(what: RenderableType) -> None:
    """Print to stdout."""
    Console(highlight=False).print(what)


def check_writable(path: Path) -> None:
    """Raise `DataError` for a result file that cannot be written, before a long run."""
    if not path.parent.is_dir():
        raise DataError(f"{path}: there is no folder {path.parent} to write it into")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file to write")


def write_result(path: Path, content: bytes) -> None:
    """Write a result file, or raise `DataError`."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error


def render_verdict(response: str, contexts: Sequence[str], verdict: Evaluation) -> RenderableType:
    """Return scores, the response with its marked spans in brackets, and the contexts."""
    parts: list[RenderableType] = [_scores(verdict)]
    if verdict.sentences:
        parts += [Text(), mark_unsupported(response, verdict), Text(), _sentences(verdict)]
    for reason in find_reasons(verdict, contexts):
        why = visible(str(reason).removeprefix(reason.text))
        style = TO_CHECK_STYLE if reason.to_check else UNSUPPORTED_STYLE
        parts.append(Text.assemble((visible(reason.text), style), why))
    if verdict.contexts:
        parts += [Text(), _contexts(contexts, verdict)]
    parts += [Text(note, style="yellow") for note in evaluation_notes(verdict)]
    return Group(*parts)


def render_evaluation(verdict: Evaluation) -> RenderableType:
    """Return a verdict with texts rebuilt from its own sentences."""
    return render_verdict(*rebuilt_texts(verdict), verdict)


def plain_text(verdict: Evaluation) -> str:
    """Return a verdict as ``print`` shows it, 100 characters wide and without colours."""
    console = Console(file=io.StringIO(), width=100, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(render_evaluation(verdict))
    return captured.get().rstrip()


def visible(text: str) -> str:
    """Return text that cannot control a terminal.

    Control, format and surrogate characters become U+FFFD, except line breaks, tabs and the
    joiners U+200C and U+200D of emoji and scripts.
    """
    return "".join(
        character
        if character in "\n\t\u200c\u200d" or unicodedata.category(character) not in _UNSAFE
        else "\ufffd"
        for character in text
    )


def number(value: float | None, form: str = ".3f") -> str:
    """Format a score; ``-`` for none."""
    return "-" if value is None else f"{value:{form}}"


def _scores(verdict: Evaluation) -> Table:
    table = Table.grid(padding=(0, 2))
    remarks = {
        "faithfulness": verdict_word(verdict),
        "supported_share": count(len(verdict.sentences), "sentence"),
        "relevance": count(len(verdict.contexts), "context"),
    }
    for name in SHOWN_SCORES:
        remark = Text(remarks.get(name, ""), style="dim")
        title = Text(name.replace("_", " "), style="bold")
        table.add_row(title, number(getattr(verdict, name)), remark)
    return table


def mark_unsupported(response: str, verdict: Evaluation) -> Text:
    """Return a response with its unsupported spans in brackets, those to check after a ``?``."""
    marked, end = Text(), 0
    spans = [(span, "[", UNSUPPORTED_STYLE) for span in verdict.unsupported]
    spans += [(span, "?[", TO_CHECK_STYLE) for span in verdict.to_check]
    for span, opening, style in sorted(spans, key=lambda marking: marking[0].start):
        marked.append(visible(response[end : span.start]))
        # Brackets, for output without colours.
        marked.append(f"{opening}{visible(response[span.start : span.end])}]", style=style)
        end = span.end
    return marked.append(visible(response[end:]))


def _sentences(verdict: Evaluation) -> Table:
    """Return the sentences, each followed by its sources or, if unsupported, what is nearest."""
    table = Table("support", "", "sentence", box=None, padding=(0, 2, 0, 0))
    for sentence, sources in zip(verdict.sentences, find_sources(verdict), strict=True):
        word = sentence_word(sentence, verdict)
        supported = Text(word, _STYLES.get(word, ""), no_wrap=True)
        table.add_row(number(sentence.support), supported, shortened(sentence.text))
        name = "source" if sentence.supported else "nearest"
        shown = sources if len(verdict.sentences) <= _SHORT else sources[:1]
        more = f" +{len(sources) - len(shown)}" if len(shown) < len(sources) else ""
        for source in shown:
            text = verdict.contexts[source.context].sentences[source.sentence].text
            line = Text(f"[{source.context + 1}] ", no_wrap=True, overflow="ellipsis")
            table.add_row("", f"{name}{more}", line.append_text(shortened(text)), style="dim")
    return table


def _contexts(contexts: Iterable[str], verdict: Evaluation) -> Table:
    table = Table("contexts", *CONTEXT_HEADS, "text", box=None, padding=(0, 2, 0, 0))
    pairs = zip(contexts, verdict.contexts, strict=True)
    for index, (text, context) in enumerate(pairs, start=1):
        shares = (number(getattr(context, head)) for head in CONTEXT_HEADS)
        name = " ".join((f"[{index}]", *filter(None, (context.id, context.title))))
        table.add_row(shortened(name), *shares, shortened(text))
    return table


def shortened(text: str) -> Text:
    """Return the start of a text on one line; an ellipsis marks truncated text."""
    line = " ".join(text.split())
    line = line if len(line) <= _MAX_TEXT else f"{line[: _MAX_TEXT - 1].rstrip()}…"
    return Text(visible(line), no_wrap=True, overflow="ellipsis")


def find_row(rows: VerdictFile, name: str | None) -> VerdictRow:
    """Return the row with an id, else with a row number; without a name the least faithful one.

    Raises:
        DataError: There is no such row.
    """
    numbered = least = None
    lowest, count = 2.0, 0
    for row in rows:
        count += 1
        if name is not None and row.id == name:
            return row
        if name is not None and str(row.row) == name:
            numbered = row
        faithfulness = read_scores(row.verdict or {})["faithfulness"]
        score = 1.5 if faithfulness is None else faithfulness
        if least is None or score < lowest:
            least, lowest = row, score
    chosen = least if name is None else numbered
    if chosen is None:
        wanted = "" if name is None else f" with the id or the number {name}"
        raise DataError(f"{rows.path}: no row{wanted} among its {count} rows")
    return chosen


def render_row(row: VerdictRow) -> RenderableType:
    """Return the place, the question and the verdict of a row, or the reason why it has none."""
    parts: list[RenderableType] = [Text(visible(f"row {row.row}, id {row.id}"), style="dim")]
    if row.question:
        parts.append(Text(visible(row.question), style="bold"))
    if row.error is not None:
        parts.append(Text(visible(f"no verdict ({row.error.code}): {row.error.message}")))
        return Group(*parts)
    verdict = read_evaluation(row.verdict or {})
    response, contexts, notes = displayed_texts(row, verdict)
    parts += [Text(), render_verdict(response, contexts, verdict)]
    return Group(*parts, *(Text(note, style="yellow") for note in notes))


_MAX_ROWS = 40  # rows
_MAX_NAME = 24  # characters of a name
_LAST = 2.0  # above every score


def render_table(rows: Iterable[VerdictRow]) -> RenderableType:
    """Return the rows with the lowest faithfulness, and how many are left out."""
    count = 0

    def ranked() -> Iterable[tuple[float, int, VerdictRow]]:
        nonlocal count
        for count, row in enumerate(rows, start=1):  # noqa: B007 (the last one is the number)
            score = read_scores(row.verdict or {})["faithfulness"]
            yield _LAST if score is None else score, row.row, row

    table = Table("row", "verdict", "faithfulness", "why", box=None, padding=(0, 2, 0, 0))
    for _, _, row in heapq.nsmallest(_MAX_ROWS, ranked()):
        table.add_row(Text(visible(_name(row)), no_wrap=True), *_cells(row))
    if count <= _MAX_ROWS:
        return table
    more = f"{count - _MAX_ROWS:,} more rows; --out FILE keeps them all, and --report makes a page"
    return Group(table, Text(more, style="dim"))


def _name(row: VerdictRow) -> str:
    name = " ".join((row.id or str(row.row)).split())
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"


def _cells(row: VerdictRow) -> tuple[Text, str, Text]:
    if row.error is not None:
        return Text("failed", no_wrap=True), "-", shortened(row.error.message)
    try:
        verdict = read_evaluation(row.verdict or {})
    except DataError as error:
        return Text("failed", no_wrap=True), "-", shortened(str(error))
    word = verdict_word(verdict) or NO_RESPONSE
    return (
        Text(word, _STYLES.get(word, ""), no_wrap=True),
        number(verdict.faithfulness, ".2f"),
        _why(row, verdict),
    )


def _why(row: VerdictRow, verdict: Evaluation) -> Text:
    """Return the reason of the first marked value, or else the first unsupported text."""
    if not (verdict.unsupported or verdict.to_check):
        return Text()
    if any(span.reason != "not_supported" for span in (*verdict.unsupported, *verdict.to_check)):
        return shortened(str(find_reasons(verdict, displayed_texts(row, verdict)[1])[0]))
    return shortened(verdict.unsupported[0].text)
