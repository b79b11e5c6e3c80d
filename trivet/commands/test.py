"""``trivet test``: a bundle measured on labelled data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.shared import (
    SOME_FAILED,
    BackendOption,
    BundleOption,
    PrecisionOption,
    ThreadsOption,
    needs_extra,
    what_was_typed,
)


def test(
    data: Annotated[
        str, typer.Option(help="ragbench:, ragtruth:, halubench: or jsonl:, and where it is.")
    ],
    split: Annotated[str, typer.Option(help="all, fit, dev, or the publisher's name.")] = "all",
    by_length: Annotated[
        bool, typer.Option(help="Also within 0-5k, 5k-16k and over 16k tokens.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure here too.")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write the table here too.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write a page with tables and curves here.")
    ] = None,
    into_card: Annotated[
        bool, typer.Option(help="Write the main figures into the bundle and its card.")
    ] = False,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    backend: BackendOption = "onnx",
) -> None:
    """Measure a bundle on labelled data; every figure with its interval."""
    with needs_extra("train"):
        from trivet.bundle.scores import keep_scores
        from trivet.evaluation import measured_bundle
        from trivet.evaluation.evaluator import Evaluator
        from trivet.measures.figures import to_markdown

        measured_bundle.check_files(json_file, markdown_file, html_file)
        evaluator = Evaluator(bundle, threads, precision=precision, backend=backend)
        found = measured_bundle.measure_bundle(evaluator, data, split, by_length)
    print(to_markdown(found.figures))
    print(f"{len(found.rows) - found.failed} judged, {found.failed} failed", file=sys.stderr)
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
