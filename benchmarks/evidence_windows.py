"""Hallucination AUROC with evidence windows, by the way they are joined with ordinary windows.

python -m benchmarks.evidence_windows --data ragbench:data/ragbench --data ragtruth:data/ragtruth
    [--split dev] [--bundle DIR] [--sentences 1 2 4] [--single-sentences 4] [--for several|all]

Readings: ``today``, ordinary windows alone; ``alone``, evidence windows alone; and both joined by
``max`` or by ``mean``, as the model joins them. ``--single-sentences N`` also reads each response
sentence in a window of its own, with its N best context sentences. ``held whole`` is the share of
supported response sentences with all annotated evidence in one ordinary window, in the evidence
window, and in either.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from trivet.bundle.schema import BundleInfo
from trivet.data.evidence import keep_evidence
from trivet.data.labelled.sources import load_source
from trivet.data.lexical_overlap import count_overlaps
from trivet.data.spans import mark_tokens
from trivet.data.tokenization import (
    BoolArray,
    FloatArray,
    IntArray,
    Segment,
    TokenizedExample,
    tokenize_examples,
)
from trivet.data.windows import FRAME, Layout, WindowSettings, lay_out
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.job import InferenceJob, WorkerPool
from trivet.evaluation.packing import take_windows
from trivet.measures.intervals import Draws, Estimate, auroc
from trivet.model.aggregate import Outputs, join, join_evidence_probs
from trivet.records import LabelledExample, Span

RESAMPLES = 1000
# Of support by ordinary windows, by the evidence window, and the layout of the ordinary windows.
READINGS: Mapping[str, Callable[[FloatArray, FloatArray, Layout], FloatArray]] = {
    "today": lambda support, evidence, layout: support,
    "alone": lambda support, evidence, layout: np.where(np.isnan(evidence), support, evidence),
    "max": lambda support, evidence, layout: np.fmax(support, evidence),
    "mean": lambda support, evidence, layout: join_evidence_probs(
        support, evidence, ~np.isnan(evidence), layout.ordinary_windows(), layout.context_overlap
    ),
}


@dataclass(frozen=True)
class Row:
    """A labelled example with its ordinary windows."""

    labelled: LabelledExample
    tokenized: TokenizedExample
    layout: Layout


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each kind of evidence window."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--data", action="append", required=True, help="such as ragbench:DIR")
    flags.add_argument("--split", default="dev")
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--sentences", type=int, nargs="*", default=[1, 2, 4])
    flags.add_argument("--single-sentences", type=int, nargs="*", default=[])
    flags.add_argument("--for", dest="evidence_for", choices=["several", "all"], default="several")
    flags.add_argument("--limit", type=int, help="rows of each source; all by default")
    given = flags.parse_args(arguments)
    evaluator = Evaluator(given.bundle)
    settings = replace(
        evaluator.preprocessor.settings,
        evidence_sentences=0,
        support_windows=0,
        evidence_for=given.evidence_for,
    )
    sources = {spec: load_source(spec, given.split)[0][: given.limit] for spec in given.data}
    labelled = [row for rows in sources.values() for row in rows if row.labels.adherent is not None]
    tokenizer = evaluator.preprocessor.tokenizer
    read = tokenize_examples([row.example for row in labelled], tokenizer)
    pairs = zip(labelled, read, strict=True)
    rows = [Row(one, each, lay_out(each, settings, tokenizer.special)) for one, each in pairs]

    support, seconds = run(evaluator, [row.layout for row in rows])
    ordinary = sum(len(row.layout.rows) for row in rows)
    each = f"{ordinary / len(rows):.2f} ordinary windows a row"
    print(f"{len(rows)} rows, {each}, {seconds:.1f} CPU seconds\n")
    subsets, info = named_subsets(rows), evaluator.bundle.info
    for number in given.sentences:
        cut = replace(settings, evidence_sentences=number)
        layouts = [lay_out(row.tokenized, cut, tokenizer.special) for row in rows]
        evidence, windows, seconds = run_evidence(evaluator, layouts)
        about = f"{number} context sentences a response sentence"
        report(about, rows, subsets, support, evidence, windows, seconds, info)
        print(f"held whole: {held_whole(rows, layouts)}\n")
    for number in given.single_sentences:
        evidence, windows, seconds = run_single(evaluator, rows, number, settings)
        about = f"each response sentence alone, with {number} context sentences"
        report(about, rows, subsets, support, evidence, windows, seconds, info)


def run(evaluator: Evaluator, layouts: Sequence[Layout]) -> tuple[list[FloatArray], float]:
    """Return each layout's support of the response tokens, and the CPU seconds of all."""
    started = time.process_time()
    pool = WorkerPool(evaluator.workers)
    job = InferenceJob(layouts, evaluator.backend, pool, evaluator.pad, evaluator.limits)
    # Tokens alone are read.
    answers = [each.join("weakest_token", weighs_overlap=False) for each in job.wait()]
    seconds = time.process_time() - started
    return [outputs.support_probs[0] for outputs in answers], seconds


def run_evidence(
    evaluator: Evaluator, layouts: Sequence[Layout]
) -> tuple[list[FloatArray], int, float]:
    """Return the support by evidence windows (NaN without), their number and the CPU seconds."""
    parts, at = [], []
    for number, layout in enumerate(layouts):
        if layout.row_is_evidence.any():
            part, _ = take_windows(layout, np.flatnonzero(layout.row_is_evidence).tolist())
            nothing = (np.zeros(0, dtype=np.int64),) * len(part.rows)  # the part owns no context
            ordinary = np.zeros(len(part.rows), dtype=np.bool_)
            parts.append(
                replace(part, row_is_evidence=ordinary, row_context=nothing, row_columns=nothing)
            )
            at.append(number)
    found, seconds = run(evaluator, parts)
    evidence = [np.full(len(layout.response_row), np.nan, np.float32) for layout in layouts]
    for number, part, probs in zip(at, parts, found, strict=True):
        shown = (part.response_row >= 0).any(axis=1)
        evidence[number][shown] = probs[shown]
    return evidence, sum(len(part.rows) for part in parts), seconds


def run_single(
    evaluator: Evaluator, rows: Sequence[Row], number: int, settings: WindowSettings
) -> tuple[list[FloatArray], int, float]:
    """Return the support by a window for each response sentence, as ``run_evidence`` does."""
    special, parts, at = evaluator.preprocessor.tokenizer.special, [], []
    for index, row in enumerate(rows):
        if settings.evidence_for == "several" and len(row.layout.rows) == 1:
            continue
        for part, first, last in _sentences_alone(row, number, settings):
            alone = lay_out(part, settings, special)
            overlap = row.layout.context_overlap[first:last]
            parts.append(replace(alone, context_overlap=overlap))
            at.append((index, first, last))
    found, seconds = run(evaluator, parts)
    evidence = [np.full(len(row.tokenized.response), np.nan, np.float32) for row in rows]
    for (index, first, last), probs in zip(at, found, strict=True):
        evidence[index][first:last] = probs
    return evidence, sum(len(part.rows) for part in parts), seconds


def _sentences_alone(
    row: Row, number: int, settings: WindowSettings
) -> Iterator[tuple[TokenizedExample, int, int]]:
    """Yield an example for each response sentence, with its token range."""
    whole = row.tokenized
    sources = count_overlaps(whole, number).sources
    if not sources.size:
        return
    room = settings.size - min(len(whole.question), settings.size // 4) - FRAME
    ends = np.flatnonzero(np.diff(whole.response_sentence)) + 1
    most = settings.size // 2
    pairs = pairwise([0, *ends.tolist(), len(whole.response)])
    for ranked, (start, stop) in zip(sources, pairs, strict=True):
        last = min(stop, start + most)
        evidence, _ = keep_evidence(whole, ranked, room - (last - start))
        yield (
            replace(
                evidence,
                response=_some(whole.response, np.arange(start, last)),
                response_sentence=np.zeros(last - start, dtype=np.int64),
                response_sentence_spans=whole.response_sentence_spans[:1],
            ),
            start,
            last,
        )


def _some(segment: Segment, tokens: IntArray) -> Segment:
    return Segment(segment.ids[tokens], segment.offsets[tokens])


def named_subsets(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return the rows of each source, and those of them that have several ordinary windows."""
    subsets: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        kind = row.labelled.source.partition("/")[0]
        subsets.setdefault(kind, []).append(number)
        if len(row.layout.rows) > 1:
            subsets.setdefault(f"{kind}, several windows", []).append(number)
    return subsets


def report(
    about: str,
    rows: Sequence[Row],
    subsets: Mapping[str, Sequence[int]],
    support: Sequence[FloatArray],
    evidence: Sequence[FloatArray],
    windows: int,
    seconds: float,
    info: BundleInfo,
) -> None:
    """Print the AUROC of each reading on each subset, and its paired difference to ``today``."""
    names = [f"{name} (n {len(chosen)})" for name, chosen in subsets.items()]
    print(f"{about}: {windows / len(rows):.2f} more windows a row, {seconds:.1f} CPU seconds\n")
    print(f"| reading | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}")
    before: dict[str, Estimate] = {}
    for reading, read in READINGS.items():
        supports = [
            read(ordinary, gathered, row.layout)
            for row, ordinary, gathered in zip(rows, support, evidence, strict=True)
        ]
        scores = [
            1
            - float(
                joined(one, row, info, ~np.isnan(own) if reading == "mean" else None).faithfulness[
                    0
                ]
            )
            for row, one, own in zip(rows, supports, evidence, strict=True)
        ]
        cells = []
        for name, chosen in subsets.items():
            groups = [rows[i].labelled.group for i in chosen]
            positive = np.array([not rows[i].labelled.labels.adherent for i in chosen])
            statistic = auroc(np.array([scores[i] for i in chosen]), positive)
            estimate = Draws(groups, name, RESAMPLES, seed=0).estimate(
                statistic, np.arange(len(chosen))
            )
            cells.append(f"{estimate.value:.3f}")
            if reading != "today":
                moved = estimate.resampled - before[name].resampled
                low, high = np.nanpercentile(moved, [2.5, 97.5])
                cells[-1] += f" [{low:+.3f}, {high:+.3f}]"
            else:
                before[name] = estimate
        print(f"| {reading} | {' | '.join(cells)} |")
    print()


def joined(
    support: FloatArray, row: Row, info: BundleInfo, gathered: BoolArray | None = None
) -> Outputs:
    """Return the scores of a row with support by each token, joined as by the bundle, with B = 1.

    ``gathered`` tells which tokens have an evidence window; without it none has. A response without
    a token has a faithfulness of 1.
    """
    numbers, length = row.tokenized.response_sentence, max(1, len(support))
    tokens, mask, overlap = np.zeros((3, 1, length), dtype=np.float32)
    pool = np.zeros((1, max(1, row.layout.sentences), length), dtype=np.float32)
    own = np.arange(len(support))
    tokens[0, own], mask[0, own] = support, 1
    pool[0, numbers, own] = 1 / np.bincount(numbers)[numbers]
    if gathered is not None:
        overlap[0, own] = np.where(gathered, row.layout.context_overlap, 0)
    copied = overlap if info.calibration.weighs_overlap else None
    nothing = np.zeros((1, 0), dtype=np.float32)
    return join(tokens, None, None, mask > 0, nothing, pool, info.faithfulness, copied)


def held_whole(rows: Sequence[Row], layouts: Sequence[Layout]) -> str:
    """Return the shares of response sentences whose evidence is whole in a window, as text."""
    counts = np.zeros(4)
    for row, layout in zip(rows, layouts, strict=True):
        read = row.tokenized
        for evidence in row.labelled.labels.evidence or ():
            marks = np.zeros(len(read.context), dtype=np.bool_)
            for span in evidence.contexts:
                own = read.context_index == span.context
                offsets = read.context.offsets[own]
                marks[own] |= mark_tokens(offsets, [Span(span.start, span.end)])
            said = np.flatnonzero(mark_tokens(read.response.offsets, [evidence.response]))
            if not marks.any() or not len(said):
                continue
            whole = np.array([marks[shown].sum() == marks.sum() for shown in layout.row_context])
            shown = np.unique(layout.response_row[said])
            shown = shown[shown >= 0]
            gathered = layout.row_is_evidence[shown]
            somewhere = bool(whole[shown[~gathered]].any())
            # Without an evidence window, the only ordinary window shows all.
            there = bool(whole[shown[gathered]].any()) if gathered.any() else somewhere
            counts += [1, somewhere, there, somewhere or there]
    sentences, *held = counts
    if not sentences:
        return "no evidence is annotated"
    names = ("ordinary", "evidence", "either")
    shares = (f"{name} {share / sentences:.3f}" for name, share in zip(names, held, strict=True))
    return f"{', '.join(shares)} (n {sentences:.0f} sentences)"


if __name__ == "__main__":
    main()
