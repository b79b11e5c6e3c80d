"""Quality where no single window shows all of the evidence, by window size and in long contexts.

python -m benchmarks.scattered_evidence --ragbench ragbench:data/ragbench
    --ragtruth ragtruth:data/ragtruth [--split dev] [--bundle DIR] [--sizes 256 384 512]
    [--sentences 1] [--foreign 0 8 24] [--limit 200]

The first table has the rows with a supported sentence whose annotated evidence no ordinary window
of the bundle's own size shows whole; they are the same at every size. The second has rows among
foreign passages, which leave their labels true. Each line is without or with evidence windows of
``--sentences`` context sentences for each response sentence. ``sentence F1``: of unsupported
sentences, at the bundle's threshold. ``scattered flagged``: share of those supported sentences that
count as unsupported. Seconds are those of all cores.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.report import Table
from trivet.bundle.schema import BundleInfo, Thresholds
from trivet.data.labelled.augmentation.context_padding import lengthen
from trivet.data.labelled.sources import load_source
from trivet.data.spans import mark_tokens
from trivet.data.tokenization import BoolArray, FloatArray, TokenizedExample, tokenize_examples
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.measures.intervals import Draws, auroc
from trivet.model.aggregate import Outputs
from trivet.records import LabelledExample, Span

RESAMPLES = 1000
HEADER = ("windows of", "evidence windows", "windows", "CPU seconds", "AUROC")


@dataclass(frozen=True)
class Row:
    """A labelled example with its ordinary windows."""

    labelled: LabelledExample
    tokenized: TokenizedExample
    layout: Layout


class Scores(NamedTuple):
    """Support of a response and of its sentences, and the number of windows that were read."""

    faithfulness: float
    sentences: FloatArray  # [S]
    windows: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--ragbench", help="source with annotated evidence, such as ragbench:DIR")
    flags.add_argument("--ragtruth", help="source of the rows among foreign passages")
    flags.add_argument("--split", default="dev")
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--sizes", type=int, nargs="+", default=[256, 384, 512])
    flags.add_argument("--sentences", type=int, default=1)
    flags.add_argument("--foreign", type=int, nargs="+", default=[0, 8, 24])
    flags.add_argument("--limit", type=int, help="rows of the second table; all by default")
    given = flags.parse_args(arguments)
    evaluator = Evaluator(given.bundle)
    own = replace(evaluator.preprocessor.settings, evidence_sentences=0)
    if given.ragbench:
        rows = read(evaluator, load_source(given.ragbench, given.split)[0], own)
        marks = [scattered(row) for row in rows]
        chosen = [(row, mark) for row, mark in zip(rows, marks, strict=True) if mark.any()]
        kept, scattered_marks = [row for row, _ in chosen], [mark for _, mark in chosen]
        title = f"{len(kept)} of {len(rows)} rows have scattered evidence ({positives(kept)})"
        table = Table(title, (*HEADER, "sentence F1", "scattered flagged"), [])
        for size in given.sizes:
            settings = replace(own, size=size, sizes=())
            lines = measured(evaluator, kept, settings, given.sentences, scattered_marks)
            table.rows.extend(lines)
        print(f"{table.to_markdown()}\n", flush=True)
    if given.ragtruth:
        loaded = load_source(given.ragtruth, given.split)[0]
        plain = [row for row in loaded if row.labels.adherent is not None]
        count = f"{len(plain[: given.limit])} of {len(plain)} rows"
        table = Table(f"Foreign passages, {count}", ("foreign", *HEADER, "sentence F1"), [])
        for foreign in given.foreign:
            rows = read(evaluator, lengthen(plain, foreign, seed=0)[: given.limit], own)
            lines = measured(evaluator, rows, own, given.sentences)
            table.rows.extend((foreign, *line) for line in lines)
        print(table.to_markdown(), flush=True)


def read(
    evaluator: Evaluator, labelled: Sequence[LabelledExample], settings: WindowSettings
) -> list[Row]:
    """Return the rows with a verdict, tokenized and laid out."""
    known = [row for row in labelled if row.labels.adherent is not None]
    tokenizer = evaluator.preprocessor.tokenizer
    tokenized = tokenize_examples([row.example for row in known], tokenizer)
    return [
        Row(row, each, lay_out(each, settings, tokenizer.special))
        for row, each in zip(known, tokenized, strict=True)
        if len(each.response)
    ]


def scattered(row: Row) -> BoolArray:
    """Tell which response sentences are supported by what no single window shows. *Shape:* [S]."""
    whole, found = row.tokenized, np.zeros(row.layout.sentences, dtype=np.bool_)
    for evidence in row.labelled.labels.evidence or ():
        marks = np.zeros(len(whole.context), dtype=np.bool_)
        for span in evidence.contexts:
            own = whole.context_index == span.context
            marks[own] |= mark_tokens(whole.context.offsets[own], [Span(span.start, span.end)])
        said = mark_tokens(whole.response.offsets, [evidence.response])
        if not marks.any() or not said.any():
            continue
        shown = np.unique(row.layout.response_row[said])
        rows = [row.layout.row_context[number] for number in shown[shown >= 0]]
        if not any(marks[each].sum() == marks.sum() for each in rows):
            found[np.unique(whole.response_sentence[said])] = True
    return found & ~unsupported(row)


def unsupported(row: Row) -> BoolArray:
    """Tell which response sentences touch a span that nothing supports. *Shape:* [S]."""
    spans = row.labelled.labels.unsupported or ()
    marked = mark_tokens(row.tokenized.response.offsets, spans)
    return np.bincount(row.tokenized.response_sentence[marked], minlength=row.layout.sentences) > 0


def measured(
    evaluator: Evaluator,
    rows: Sequence[Row],
    settings: WindowSettings,
    sentences: int,
    marks: Sequence[BoolArray] | None = None,
) -> Iterator[tuple[object, ...]]:
    """Yield a line of the table without evidence windows, and one with them."""
    info = evaluator.bundle.info
    for name, count in (("without", 0), ("with", sentences)):
        cut = replace(settings, evidence_sentences=count)
        evaluator.preprocessor = replace(evaluator.preprocessor, settings=cut)
        started = time.process_time()
        found = evaluator.begin([row.labelled.example for row in rows]).outcomes(read_scores)
        seconds = time.process_time() - started
        scores = [each for each in found if isinstance(each, Scores)]
        yield (
            settings.size,
            name,
            sum(each.windows for each in scores),
            f"{seconds:.0f}",
            area(rows, scores),
            *of_sentences(info, rows, scores, marks),
        )


def read_scores(example: PreprocessedExample, outputs: Outputs, _: Thresholds | None) -> Scores:
    """Read the scores of one response."""
    faithfulness, support = outputs.faithfulness[0], outputs.sentence_support[0]
    return Scores(float(faithfulness), support, len(example.layout.rows))


def area(rows: Sequence[Row], scores: Sequence[Scores]) -> str:
    """Return the AUROC of hallucinated responses with its interval by source document."""
    doubt = np.array([1 - each.faithfulness for each in scores])
    wrong = np.array([not row.labelled.labels.adherent for row in rows])
    if wrong.all() or not wrong.any():
        return "one class"
    draws = Draws([row.labelled.group for row in rows], "rows", RESAMPLES, seed=0)
    found = draws.estimate(auroc(doubt, wrong), np.arange(len(rows)))
    low, high = found.interval() or (float("nan"), float("nan"))
    return f"{found.value:.3f} [{low:.3f}, {high:.3f}]"


def of_sentences(
    info: BundleInfo,
    rows: Sequence[Row],
    scores: Sequence[Scores],
    marks: Sequence[BoolArray] | None,
) -> tuple[str, ...]:
    """Return the F1 of unsupported sentences and, with ``marks``, how many of these are flagged."""
    assert info.thresholds is not None  # a verdict needs a support head
    threshold = info.thresholds.sentence
    hits, flagged, gold, wrong, of = 0, 0, 0, 0, 0
    for place, (row, each) in enumerate(zip(rows, scores, strict=True)):
        count = row.layout.sentences
        real = np.bincount(row.tokenized.response_sentence, minlength=count) > 0
        below = (np.maximum(each.sentences[:count], each.faithfulness) < threshold) & real
        if row.labelled.labels.unsupported is not None:
            labels = unsupported(row)
            hits, flagged = hits + int((below & labels).sum()), flagged + int(below.sum())
            gold += int(labels.sum())
        if marks is not None:
            wrong, of = wrong + int((below & marks[place]).sum()), of + int(marks[place].sum())
    f1 = f"{2 * hits / max(1, flagged + gold):.3f}"
    return (f1,) if marks is None else (f1, f"{wrong / max(1, of):.3f} of {of}")


def positives(rows: Sequence[Row]) -> str:
    """Return the number of hallucinated rows in words."""
    return f"{sum(not row.labelled.labels.adherent for row in rows)} hallucinated"


if __name__ == "__main__":
    main()
