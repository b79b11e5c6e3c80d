"""Answers judged while they are written: milliseconds a sentence, and quality on labelled rows.

python -m benchmarks.streaming [--backend openvino] [--tokens 1000 4000 16000]
    [--windows evidence]
python -m benchmarks.streaming --data ragtruth:data/ragtruth [--limit 160]

The first form feeds an answer word by word against made-up contexts and times the calls that judge
a sentence. The second one needs rows whose unsupported spans are known. A halt is a sentence with
a claim that is judged unsupported; a false one is in an answer that has no unsupported span. At the
model's own threshold a stream halts as ``guard`` does: at that of single sentences, and never at an
abstention; the 95 % intervals are of source documents. ``same ends`` is the share of sentences that
the splitter finds again in the whole answer.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from trivet.evaluation.answer_stream import PendingSentence, SentenceReader, StreamWindows
from trivet.evaluation.correction import CorrectionMode
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.sources import choose_rows, load_source
from trivet.measures.curves import BoolArray, FloatArray
from trivet.measures.intervals import Draws, auroc, ratio
from trivet.records import Evaluation, LabelledExample, RagExample

MODES: tuple[StreamWindows, ...] = ("evidence", "all")
RECALLS = (0.5, 0.8)
BLOCK = 64
PLACES = ("mill", "bridge", "ferry", "lighthouse", "bakery", "garden", "tower", "harbour")


class Judged(NamedTuple):
    """A sentence of an answer: its place, its support and whether a label marks it."""

    row: int
    start: int
    end: int
    support: float
    supported: bool
    wrong: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    flags = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    flags.add_argument("--backend", choices=["onnx", "openvino", "torch"], default="onnx")
    flags.add_argument("--tokens", type=int, nargs="*", default=[1000, 4000, 16000])
    flags.add_argument("--sentences", type=int, default=40)
    flags.add_argument("--windows", nargs="*", choices=MODES, default=MODES)
    flags.add_argument("--data", help="labelled rows, such as ragtruth:DIR; then no times")
    flags.add_argument("--split", default="dev")
    flags.add_argument("--limit", type=int, help="rows, drawn at random; all by default")
    options = flags.parse_args(arguments)
    evaluator = Evaluator(backend=options.backend)
    if options.data is None:
        measure_times(evaluator, options.tokens, options.sentences, options.windows)
        return
    rows, _ = load_source(options.data, options.split)
    rows = [row for row in rows if row.labels.unsupported is not None]
    measure_quality(evaluator, choose_rows(rows, (), options.limit, seed=0))


def measure_times(
    evaluator: Evaluator,
    tokens: Iterable[int],
    sentences: int,
    modes: Sequence[StreamWindows],
) -> None:
    """Print the milliseconds of each sentence, of the begin and of the end."""
    print(f"{evaluator.backend_name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| context tokens | windows | begin | p50 | p95 | p95 CPU | close |")
    print("|---|---|---|---|---|---|---|")
    answer = "".join(f"In {1900 + n} the {PLACES[n % 8]} was closed. " for n in range(sentences))
    for number, mode in itertools.product(tokens, modes):
        contexts = made_up(evaluator, number)
        began = time.perf_counter()
        stream = evaluator.stream("When was the mill built?", contexts, windows=mode)
        begin = time.perf_counter() - began
        wall, cpu = [], []
        for word in answer.split(" "):
            before, used = time.perf_counter(), time.process_time()
            if stream.feed(f"{word} "):
                wall.append(1000 * (time.perf_counter() - before))
                cpu.append(1000 * (time.process_time() - used))
        began = time.perf_counter()
        stream.close()
        close = time.perf_counter() - began
        figures = [1000 * begin, statistics.median(wall), *(np.percentile([wall, cpu], 95, axis=1))]
        cells = " | ".join(f"{value:.0f} ms" for value in [*figures, 1000 * close])
        print(f"| {number} | {mode} | {cells} |", flush=True)


def made_up(evaluator: Evaluator, tokens: int) -> list[str]:
    """Return passages of about as many tokens."""
    encode = evaluator.preprocessor.tokenizer.encode
    passages, left = list[str](), tokens
    for first in itertools.count(step=10):
        years = range(first, first + 10)
        text = " ".join(
            f"In {1700 + year % 300} the {PLACES[year * 3 % 8]} of stone number {year} was built "
            f"by the people of the town, who used wood for the {PLACES[year % 8]}."
            for year in years
        )
        passages.append(text)
        left -= len(encode([text])[0])
        if left <= 0:
            return passages
    raise AssertionError("counts without end")


def measure_quality(evaluator: Evaluator, rows: Sequence[LabelledExample]) -> None:
    """Print verdicts while the answer is written, and those on the whole answer."""
    wrong = np.array([bool(row.labels.unsupported) for row in rows])
    verdicts = run(evaluator, [row.example for row in rows])
    whole = [
        Judged(n, s.start, s.end, s.support, s.supported, is_wrong(row, s.start, s.end))
        for n, (row, verdict) in enumerate(zip(rows, verdicts, strict=True))
        for s in verdict.sentences
        if s.support is not None and s.supported is not None and not s.abstains
    ]
    read = {"whole answer": whole} | {mode: stream(evaluator, rows, mode) for mode in MODES}
    thresholds = evaluator.bundle.info.thresholds
    assert thresholds is not None, "the bundle has no support head"
    own_threshold = dict.fromkeys(read, thresholds.sentence)
    ends = {sentence[:3]: sentence.supported for sentence in whole}
    draws = Draws([row.group for row in rows], "streaming", 1000)
    print(f"{len(rows)} answers, {wrong.sum()} with unsupported spans, {len(whole)} sentences\n")
    print("| read | same ends | other verdict | AUROC of sentences | of answers |", end="")
    print("".join(f" false halts at recall {recall} (threshold) |" for recall in RECALLS), end="")
    print(f" recall, false halts at the model's |\n|{'---|' * (6 + len(RECALLS))}")
    for name, judged in read.items():
        known = [sentence for sentence in judged if sentence[:3] in ends]
        other = np.mean([sentence.supported != ends[sentence[:3]] for sentence in known])
        support = np.array([sentence.support for sentence in judged])
        weakest = np.ones(len(rows))
        np.minimum.at(weakest, [sentence.row for sentence in judged], support)
        cells = [f"{len(known) / len(judged):.3f}", f"{other:.3f}"]
        cells += [f"{area(1 - support, np.array([sentence.wrong for sentence in judged])):.3f}"]
        cells += [f"{area(1 - weakest, wrong):.3f}"]
        for recall in RECALLS:
            limit = np.quantile(weakest[wrong], recall)
            cells.append(f"{np.mean(weakest[~wrong] <= limit):.3f} ({limit:.2f})")
        halted = np.zeros(len(rows), dtype=np.bool_)
        halted[[sentence.row for sentence in judged if not sentence.supported]] = True
        shares = [share(halted, among, draws) for among in (wrong, ~wrong)]
        cells.append(f"{shares[0]}, {shares[1]} ({own_threshold[name]:.2f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    first, two = ({e[:3]: e.supported for e in read[mode]} for mode in MODES)
    differ = np.mean([first[at] != two[at] for at in first.keys() & two.keys()])
    print(f"\nverdicts that differ between {' and '.join(MODES)}: {differ:.3f}\n")
    for mode in ("drop", "quote"):
        report_correction(evaluator, rows, verdicts, mode)


def report_correction(
    evaluator: Evaluator,
    rows: Sequence[LabelledExample],
    verdicts: Sequence[Evaluation],
    mode: CorrectionMode,
) -> None:
    """Print the supported share before and after a correction, by labels and by the model."""
    corrected = [
        evaluator.correct(
            row.example.question, row.example.contexts, row.example.response, mode=mode
        )
        for row in rows
    ]
    after = run(
        evaluator,
        [
            RagExample(row.example.question, row.example.contexts, correction.text)
            for row, correction in zip(rows, corrected, strict=True)
        ],
    )
    sentences = [
        (s.supported, is_wrong(row, s.start, s.end))
        for row, verdict in zip(rows, verdicts, strict=True)
        for s in verdict.sentences
    ]
    before = np.mean([not wrong for _, wrong in sentences])
    left = np.mean([not wrong for supported, wrong in sentences if supported is not False])
    shares = [
        np.mean([v.supported_share for v in results if v.supported_share is not None])
        for results in (verdicts, after)
    ]
    kept = np.mean([correction.kept for correction in corrected])
    labels = f", by labels {before:.3f} -> {left:.3f}" if mode == "drop" else ""
    print(f"{mode}: text kept {kept:.3f}; supported share by the model ", end="")
    print(f"{shares[0]:.3f} -> {shares[1]:.3f}{labels}", flush=True)


def stream(
    evaluator: Evaluator, rows: Sequence[LabelledExample], mode: StreamWindows
) -> list[Judged]:
    """Return the sentences of each answer as a stream judges them."""
    pending: list[tuple[int, PendingSentence]] = []
    for number, row in enumerate(rows):
        bare = RagExample(row.example.question, tuple(row.example.contexts), "")
        reader = SentenceReader(evaluator.preprocessor, bare, mode)
        sentences = reader.feed(row.example.response) + reader.flush()
        pending += [(number, sentence) for sentence in sentences]
    verdicts = run(evaluator, [sentence.prepared for _, sentence in pending])
    all_judged = []
    for (number, sentence), verdict in zip(pending, verdicts, strict=True):
        event = sentence.event(verdict)
        wrong = is_wrong(rows[number], event.start, event.end)
        if event.support is not None and event.supported is not None and not event.abstains:
            judged = event.start, event.end, event.support, event.supported
            all_judged.append(Judged(number, *judged, wrong))
    return all_judged


def run(evaluator: Evaluator, examples: Sequence[Any]) -> list[Evaluation]:
    """Return the verdict on each example; raise the error of one that has none."""
    verdicts: list[Evaluation] = []
    for start in range(0, len(examples), BLOCK):
        for outcome in evaluator.begin(examples[start : start + BLOCK]).verdicts():
            if not isinstance(outcome, Evaluation):
                raise outcome
            verdicts.append(outcome)
    return verdicts


def area(scores: FloatArray, positive: BoolArray) -> float:
    """Return the area under the ROC curve."""
    return float(auroc(scores, positive)(np.ones((1, len(scores))))[0])


def share(halted: BoolArray, among: BoolArray, draws: Draws) -> str:
    """Return which share of some answers is halted, with the 95 % interval of source documents."""
    every = np.ones(among.sum())
    flagged = ratio(halted[among].astype(float), every, every)
    estimate = draws.estimate(flagged, np.flatnonzero(among))
    low, high = estimate.interval() or (np.nan, np.nan)
    return f"{estimate.value:.3f} ({low:.3f} to {high:.3f})"


def is_wrong(row: LabelledExample, start: int, end: int) -> bool:
    """Return whether a label marks a part of a sentence."""
    return any(span.start < end and start < span.end for span in row.labels.unsupported or ())


if __name__ == "__main__":
    main()
