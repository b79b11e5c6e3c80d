"""Evaluation of a bundle on labelled rows and its result files, for ``trivet test``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from trivet.backends.opening import load_tokenizer
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.grouping import shares_text
from trivet.labelled.source_report import SourceReport
from trivet.labelled.sources import load_source
from trivet.measures.cascade import CascadeStep, cascade
from trivet.measures.choosing import SetChange, compare_sets
from trivet.measures.figures import Figure, to_json, to_markdown
from trivet.measures.label_check import LabelCheck, check_labels, judge_answers
from trivet.measures.lengths import count_buckets, count_tokens, measure_by_length
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import FailedEvaluation, LabelledExample
from trivet.report import terminal
from trivet.report.measures_page import render_measures
from trivet.settings import THRESHOLD_NAMES, ThresholdName

if TYPE_CHECKING:
    from trivet.labelled.plain_labels import PlainRows


@dataclass(frozen=True)
class MeasuredBundle:
    """Predictions of a bundle on labelled rows, with their figures."""

    rows: Sequence[Prediction]
    figures: Sequence[Figure]  # of all rows, of leak-free rows, of other judges, by length
    report: SourceReport  # counts of rows read and left out
    about: Mapping[str, str]  # names of bundle, backend, data and split, and the leaks
    lengths: Mapping[str, int] | None  # number of rows of each length, if measured by length
    check: LabelCheck | None = None  # verdicts compared with labels of whole answers, if any
    cascade: Sequence[CascadeStep] = ()  # what two thresholds decide, if asked for
    sets: Sequence[tuple[str, int]] = ()  # each source with the number of its rows, in order

    @property
    def failed(self) -> int:
        """Number of rows without a verdict."""
        return sum(isinstance(row.evaluation, FailedEvaluation) for row in self.rows)

    def left_out(self) -> Iterator[str]:
        """Yield a line for each reason why rows are not measured, and for each failed row."""
        report = self.report
        if report.kept < report.rows:
            yield f"measured: {report.kept} of {report.rows} rows"
        if report.outside_split:
            yield f"not in split {self.about['split']!r}: {report.outside_split} rows"
        for reason, count in report.dropped.items():
            yield f"{reason}: {count} rows, first at {', '.join(report.places[reason])}"
        for row in self.rows:
            if isinstance(row.evaluation, FailedEvaluation):
                yield f"{row.example.example.id}: {row.evaluation.message}"


def measure_own(
    evaluator: Evaluator,
    rows: PlainRows,
    split: str,
    by_length: bool,
    threshold: float | ThresholdName | None,
    false_alarms: float,
    with_cascade: bool = False,
) -> MeasuredBundle:
    """Evaluate answers with labels of one's own, and compare.

    ``false_alarms`` is the share of supported answers that the advised threshold may flag, and
    ``with_cascade`` asks for two thresholds; the others are as in ``measure_examples``.
    """
    measured = measure_examples(
        *(evaluator, rows.examples, rows.report, rows.report.source, split, by_length),
        threshold=threshold,
    )
    steps = cascade(judge_answers(measured.rows)) if with_cascade else ()
    own_thresholds = evaluator.bundle.info.thresholds
    named: dict[str, float] = {}
    if own_thresholds is not None:
        named |= {name: own_thresholds.named(name) for name in THRESHOLD_NAMES}
    check = check_labels(measured.rows, false_alarms, named)
    return replace(measured, check=check, cascade=steps)


def check_files(*files: Path | None) -> None:
    """Refuse result files that cannot be written, before the evaluation starts.

    Raises:
        DataError: A file's folder does not exist, or the file is a folder.
    """
    for file in files:
        if file is not None:
            terminal.check_writable(file)


def measure_bundle(
    evaluator: Evaluator,
    data: Sequence[str],
    split: str,
    by_length: bool = False,
    threshold: float | ThresholdName | None = None,
) -> MeasuredBundle:
    """Evaluate the rows of sources and measure the verdicts, with a progress bar on stderr.

    Args:
        evaluator: Evaluator with the bundle.
        data: Sources, as `trivet.labelled.sources` takes them.
        split: Split of each source.
        by_length: Whether to measure each range of lengths as well.
        threshold: Sentence threshold of the verdicts; ``None`` means that of the bundle.

    Raises:
        DataError: A source is refused or has no row to evaluate.
    """
    examples: list[LabelledExample] = []
    reports, sets = [], []
    for spec in data:
        rows, report = load_source(spec, split)
        if not rows:
            raise DataError(f"{spec}: no row in split {split!r} is left to evaluate")
        examples += rows
        sets.append((spec, len(rows)))
        reports.append(report)
    names = ", ".join(data)
    report = SourceReport.total(reports)
    measured = measure_examples(
        evaluator,
        examples,
        report,
        names,
        split,
        by_length,
        threshold=threshold,
    )
    return replace(measured, sets=sets)


def measure_examples(
    evaluator: Evaluator,
    examples: Sequence[LabelledExample],
    report: SourceReport,
    data: str,
    split: str,
    by_length: bool = False,
    *,
    threshold: float | ThresholdName | None = None,
) -> MeasuredBundle:
    """Evaluate labelled rows and measure the verdicts; arguments as in ``measure_bundle``.

    ``report`` has the counts of the rows, and ``data`` is the name of all sources.
    """
    results = evaluator.evaluate_many(
        (example.example for example in examples), threshold=threshold
    )
    console = Console(stderr=True)
    shown = track(
        zip(examples, results, strict=True),
        "test",
        total=len(examples),
        console=console,
        disable=not console.is_terminal,
    )
    rows = [Prediction(example, result) for example, result in shown]
    figures = measure(rows)
    trained = evaluator.bundle.training_texts()
    leaks = "not known, because the bundle has no record of its training texts"
    if trained is not None:
        free = [row for row in rows if not shares_text(row.example, trained)]
        leaks = f"{len(rows) - len(free)} of {len(rows)} rows share a text with training rows"
        if len(free) < len(rows):
            figures += [replace(figure, rows="leak-free") for figure in measure(free)]
    lengths = None
    if by_length:
        tokenizer = load_tokenizer(evaluator.bundle)
        tokens = count_tokens((example.example for example in examples), tokenizer)
        figures += measure_by_length(rows, tokens)
        lengths = count_buckets(tokens)
    about = {"bundle": evaluator.bundle.info.name, "backend": evaluator.backend_name}
    about |= {"data": data, "split": split, "leaks": leaks}
    return MeasuredBundle(rows, figures, report, about, lengths)


def compare_with(
    other: Evaluator, measured: MeasuredBundle, threshold: float | ThresholdName | None = None
) -> list[SetChange]:
    """Judge the same rows by another bundle, and compare them set by set; it is the first."""
    inputs = (row.example.example for row in measured.rows)
    verdicts = track(
        other.evaluate_many(inputs, threshold=threshold),
        "the other bundle",
        total=len(measured.rows),
        console=Console(stderr=True),
        transient=True,
    )
    pairs = zip(measured.rows, verdicts, strict=True)
    judged = [replace(row, evaluation=verdict) for row, verdict in pairs]
    sets, start = {}, 0
    for name, size in measured.sets:
        part = slice(start, start + size)
        sets[name] = (judged[part], measured.rows[part])
        start += size
    return compare_sets(sets)


def write_measures(
    measured: MeasuredBundle, json: Path | None, markdown: Path | None, html: Path | None
) -> None:
    """Write the figures into the given files; raise ``DataError`` if one cannot be written."""
    texts: dict[Path, str] = {}
    if json is not None:
        report = measured.report.to_dict()
        about: dict[str, Any] = {**measured.about, "report": report, "lengths": measured.lengths}
        if measured.check is not None:
            about["thresholds"] = [asdict(threshold) for threshold in measured.check.thresholds]
        if measured.cascade:
            about["cascade"] = [asdict(step) for step in measured.cascade]
        texts[json] = to_json(measured.figures, **about)
    if markdown is not None:
        texts[markdown] = to_markdown(measured.figures)
    if html is not None:
        texts[html] = render_measures(
            measured.rows,
            measured.figures,
            measured.report,
            measured.about,
            measured.lengths,
            measured.cascade,
        )
    for path, text in texts.items():
        # UTF-8 has no lone surrogates; names of sources may.
        terminal.write_result(path, f"{text.rstrip()}\n".encode(errors="backslashreplace"))
