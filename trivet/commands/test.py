"""``trivet test``: measure a bundle on labelled data, or on answers with labels of one's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.commands.shared import (
    SOME_FAILED,
    BackendOption,
    BundleOption,
    DeviceOption,
    PrecisionOption,
    ThreadsOption,
    ThresholdOption,
    check_rate,
    needs_extra,
    parse_mapping,
    what_was_typed,
)
from trivet.records import FailedEvaluation

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trivet.data.labelled.plain_labels import PlainRows
    from trivet.evaluation.evaluator import Evaluator
    from trivet.evaluation.measured_bundle import MeasuredBundle
    from trivet.measures.choosing import SetChange
    from trivet.measures.figures import Figure


_FILE_OPTIONS = ("--label", "--false-alarms", "--map", "--format", "--encoding")


def test(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Answers with a column of labels, in any file that `trivet evaluate` reads.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="ragbench:, ragtruth:, halubench:, finqa: or eli5:DIR_OR_NAME, or "
            "[jsonl:]FILE.jsonl with spans as labels; @all, @fit or @dev at its end replaces "
            "--split. Repeatable.",
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="all, fit, dev, or a split of the publisher (column split of FILE).")
    ] = "all",
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Labels in FILE: true or false, 1 or 0, right or wrong, supported or unsupported; "
            "default: adherent, label or gold.",
        ),
    ] = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            callback=check_rate,
            help="Share of the supported answers in FILE that a threshold may flag; default: 0.1.",
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="OURS=THEIRS", help="Name of a field in FILE, or a path. Repeatable."
        ),
    ] = None,
    format: Annotated[  # noqa: A002 (the option's name)
        str | None,
        typer.Option(metavar="FORMAT", help="Format of FILE; default: by its suffix."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoding of FILE; default: UTF-8 or UTF-16."),
    ] = None,
    threshold: ThresholdOption = None,
    by_length: Annotated[
        bool, typer.Option(help="Also measure 0-5k, 5k-16k and over 16k tokens.")
    ] = False,
    published: Annotated[
        bool,
        typer.Option(
            help="Also measure the scores of GPT-3.5, RAGAS and TruLens that RAGBench holds."
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|NAME",
            help="Bundle to compare with on each --data, by the rule of choosing.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="File for the figures as JSON.")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="File for the figures as Markdown.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="File for a page with tables and curves.")
    ] = None,
    into_card: Annotated[
        bool, typer.Option(help="Add the main figures to the bundle and its model card.")
    ] = False,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    backend: BackendOption = None,
    device: DeviceOption = None,
) -> None:
    """Measure a bundle on labelled answers, with intervals.

    FILE has answers of your own with one label each: it is compared with the verdicts in a table,
    with the worst errors and a threshold for `trivet evaluate --threshold`. --data has published
    data sets, or spans as labels.
    """
    if (file is None) == (not data):
        raise typer.BadParameter("give a FILE with a column of labels, or --data SPEC")
    given = (label, false_alarms, mapping, format, encoding)
    if file is None and any(given):
        used = [name for name, value in zip(_FILE_OPTIONS, given, strict=True) if value]
        raise typer.BadParameter(f"{', '.join(used)} is for FILE, not for --data")
    if file is not None and published:
        raise typer.BadParameter("--published is for --data; FILE has no scores of other judges")
    if against is not None and not data:
        raise typer.BadParameter("--against compares on --data")
    if into_card and threshold is not None:
        raise typer.BadParameter("--into-card needs the bundle's own threshold: drop --threshold")
    with needs_extra("train"):
        from trivet.bundle.scores import keep_scores
        from trivet.evaluation import measured_bundle
        from trivet.evaluation.evaluator import Evaluator
        from trivet.report import terminal

        measured_bundle.check_files(json_file, markdown_file, html_file)
        own = None
        if file is not None:
            from trivet.data.labelled.plain_labels import read_plain

            own = read_plain(file, label, split, parse_mapping(mapping or []), format, encoding)
        evaluator = Evaluator(bundle, threads, precision=precision, backend=backend, device=device)
        if into_card:
            evaluator.bundle.check_writable()
        if own is None:
            found = measured_bundle.measure_bundle(
                evaluator, data or [], split, by_length, published, threshold
            )
        else:
            found = _measure_own(evaluator, own, split, by_length, threshold, false_alarms or 0.1)
    terminal.show(render_figures(found.figures) if own is None else _render_own(found, own))
    if against is not None:
        other = Evaluator(against, threads, precision=precision, backend=backend, device=device)
        terminal.show(render_choice(measured_bundle.compare_with(other, found, threshold)))
    print(f"{len(found.rows) - found.failed} evaluated, {found.failed} failed", file=sys.stderr)
    if own is not None:
        _say_left_out(found)
    elif found.report.outside_split:
        print(f"{found.report.outside_split} rows outside split {split!r}", file=sys.stderr)
    print(f"leaks: {found.about['leaks']}", file=sys.stderr)
    measured_bundle.write_measures(found, json_file, markdown_file, html_file)
    if into_card:
        keep_scores(
            evaluator.bundle,
            found.figures,
            split=split,
            command=what_was_typed(),
            precision=evaluator.precision,
        )
    if found.failed or (own is not None and own.unreadable):
        raise typer.Exit(SOME_FAILED)


def _measure_own(
    evaluator: Evaluator,
    own: PlainRows,
    split: str,
    by_length: bool,
    threshold: float | None,
    false_alarms: float,
) -> MeasuredBundle:
    """Evaluate answers with labels of one's own, and compare."""
    from trivet.evaluation.measured_bundle import measure_examples
    from trivet.measures.label_check import check_labels

    source = own.report.source
    found = measure_examples(
        evaluator, own.examples, own.report, source, split, by_length, threshold=threshold
    )
    return replace(found, check=check_labels(found.rows, false_alarms))


def _render_own(found: MeasuredBundle, own: PlainRows) -> RenderableType:
    from trivet.report.label_check import render_label_check

    assert found.check is not None
    auroc = (one for one in found.figures if one.measure == "hallucination_auroc")
    return render_label_check(found.check, next(auroc, None), own.column, own.readings)


def _say_left_out(found: MeasuredBundle) -> None:
    """Say on stderr which rows of a file are not measured, and which failed."""
    report = found.report
    if report.kept < report.rows:
        print(f"measured: {report.kept} of {report.rows} rows", file=sys.stderr)
    if report.outside_split:
        split = found.about["split"]
        print(f"not in split {split!r}: {report.outside_split} rows", file=sys.stderr)
    for reason, count in report.dropped.items():
        places = ", ".join(report.places[reason])
        print(f"{reason}: {count} rows, first at {places}", file=sys.stderr)
    for row in found.rows:
        if isinstance(row.evaluation, FailedEvaluation):
            print(f"{row.example.example.id}: {row.evaluation.message}", file=sys.stderr)


def render_choice(changes: Sequence[SetChange]) -> RenderableType:
    """Return the table of two bundles on several sets, with the decision below it."""
    from rich.console import Group
    from rich.table import Table

    from trivet.measures.choosing import is_kept

    table = Table("set", "n", "hallucinated", "counting words", "against", "bundle", "change")
    for one in changes:
        values = (one.counting.value, one.first.value, one.second.value)
        interval = one.change.interval()
        change = "" if one.change.value is None else f"{one.change.value:+.3f}"
        change += "" if interval is None else f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
        texts = ("" if value is None else f"{value:.3f}" for value in values)
        table.add_row(one.name, f"{one.n:,}", f"{one.positives:,}", *texts, change)
    kept = "kept" if is_kept(changes) else "not kept"
    rule = "the mean must rise, and no set fall by more than .01"
    return Group(table, f"By the rule of choosing, the bundle is {kept}: {rule}.")


def render_figures(figures: Iterable[Figure]) -> RenderableType:
    """Return a table for each source, generator and length, with its notes below."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from trivet.report.terminal import visible

    parts: list[RenderableType] = []
    for title, group in groupby(figures, key=lambda one: one.to_cells()[0]):
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("measure", overflow="fold")  # long names give way to the values
        for name in ("value", "95 % interval", "n", "positives", "groups", "fail"):
            table.add_column(name, justify="right", no_wrap=True)
        notes = []
        for one in group:
            table.add_row(*one.to_cells()[1:-1])  # without source and note
            if one.note:
                notes.append(Text(visible(f"{one.measure}: {one.note}"), style="dim"))
        parts += [Text(visible(title), style="bold"), table]
        parts += [Padding(note, (0, 0, 0, 2)) for note in notes]
    return Group(*parts)
