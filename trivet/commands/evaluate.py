"""``trivet evaluate``: a file of answers, or one answer, judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from trivet.commands.shared import (
    SOME_FAILED,
    BundleOption,
    EngineOption,
    PrecisionOption,
    ThreadsOption,
)


def evaluate(
    file: Annotated[
        str | None,
        typer.Argument(help="JSONL, plain, .gz, .xz or .zst; - reads stdin.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the verdicts go; stdout if not given.")
    ] = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", help="OURS=THEIRS, for other field names.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="Judge one answer: the question.")] = None,
    context: Annotated[list[str] | None, typer.Option(help="... a passage; repeat it.")] = None,
    response: Annotated[str | None, typer.Option(help="... and the answer.")] = None,
    allow_empty_contexts: Annotated[
        bool, typer.Option(help="Judge answers without passages against nothing.")
    ] = False,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    engine: EngineOption = "onnx",
) -> None:
    """Judge a file of answers, or one answer given as options.

    A file becomes one JSON object a line, in order. One answer is printed for a person, or written
    as JSON with --out.
    """
    one = question is not None or context is not None or response is not None
    if one == (file is not None):
        raise typer.BadParameter("give a FILE (or -), or --question, --context and --response")
    if out is not None and file not in (None, "-") and out.resolve() == Path(str(file)).resolve():
        raise typer.BadParameter(f"--out {out} would overwrite the input")
    names = _parse_mapping(mapping or [])
    from trivet.serve import console, files, terminal
    from trivet.serve.evaluator import Evaluator

    evaluator = Evaluator(bundle, threads, precision=precision, engine=engine)
    if file is not None:
        counts = files.evaluate_file(evaluator, file, out, names, allow_empty_contexts)
        print(f"{counts.judged} judged, {counts.failed} failed", file=sys.stderr)
        if counts.failed:
            raise typer.Exit(SOME_FAILED)
        return
    contexts, answer = context or [], response or ""
    verdict = evaluator.evaluate(
        question or "", contexts, answer, allow_empty_contexts=allow_empty_contexts
    )
    if out is None:
        console.show(terminal.render_verdict(answer, contexts, verdict))
        return
    with console.output(out) as sink:
        sink.write(files.to_line(verdict))


def _parse_mapping(pairs: list[str]) -> dict[str, str]:
    mapping = {}
    for pair in pairs:
        ours, separator, theirs = pair.partition("=")
        if not separator or not ours or not theirs:
            raise typer.BadParameter(f"--map {pair} must be OURS=THEIRS, such as question=prompt")
        mapping[ours] = theirs
    return mapping
