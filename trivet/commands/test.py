"""``trivet test``: measure a bundle on labelled data."""

from __future__ import annotations

import sys
from collections.abc import Iterable
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
    needs_extra,
    what_was_typed,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trivet.measures.figures import Figure


def test(
    data: Annotated[
        list[str],
        typer.Option(
            metavar="SPEC",
            help="ragbench:, ragtruth:, halubench:, finqa: or eli5:DIR_OR_NAME, or "
            "[jsonl:]FILE.jsonl. Repeatable.",
        ),
    ],
    split: Annotated[str, typer.Option(help="all, fit, dev, or a split of the publisher.")] = "all",
    by_length: Annotated[
        bool, typer.Option(help="Also measure 0-5k, 5k-16k and over 16k tokens.")
    ] = False,
    published: Annotated[
        bool,
        typer.Option(
            help="Also measure the scores of GPT-3.5, RAGAS and TruLens that RAGBench holds."
        ),
    ] = False,
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
    """Measure a bundle on labelled data, with intervals."""
    with needs_extra("train"):
        from trivet.bundle.scores import keep_scores
        from trivet.evaluation import measured_bundle
        from trivet.evaluation.evaluator import Evaluator
        from trivet.report import terminal

        measured_bundle.check_files(json_file, markdown_file, html_file)
        evaluator = Evaluator(bundle, threads, precision=precision, backend=backend, device=device)
        if into_card:
            evaluator.bundle.check_writable()
        found = measured_bundle.measure_bundle(evaluator, data, split, by_length, published)
    terminal.show(render_figures(found.figures))
    print(f"{len(found.rows) - found.failed} evaluated, {found.failed} failed", file=sys.stderr)
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
    if found.failed:
        raise typer.Exit(SOME_FAILED)


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
