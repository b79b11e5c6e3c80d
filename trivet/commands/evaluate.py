"""``trivet evaluate``: a whole log, or one answer, judged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trivet.commands.shared import (
    SOME_FAILED,
    BackendOption,
    BundleOption,
    PrecisionOption,
    ThreadsOption,
    parse_level,
)

if TYPE_CHECKING:
    from trivet.batch.tally import Tally
    from trivet.evaluation.evaluator import Evaluator

UNDER = 8  # the exit code of --fail-under


def evaluate(
    file: Annotated[
        str | None,
        typer.Argument(
            help="JSONL, JSON, CSV, TSV or Parquet, also .gz, .xz or .zst; a folder; - is stdin.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the verdicts go, .jsonl or .parquet; stdout if not given."),
    ] = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", help="OURS=THEIRS, for other field names.")
    ] = None,
    format: Annotated[  # noqa: A002 (the option's name)
        Literal["jsonl", "json", "csv", "tsv", "parquet"] | None,
        typer.Option(help="Of FILE; its suffix says it if not given."),
    ] = None,
    fields: Annotated[
        str | None, typer.Option(help="Keep these of a verdict: id,faithfulness,unsupported.")
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Write question, contexts and response too.")
    ] = False,
    metadata: Annotated[
        list[str] | None,
        typer.Option(help="Write this column of FILE too; short and scalar ones if not given."),
    ] = None,
    no_metadata: Annotated[bool, typer.Option("--no-metadata", help="Write none.")] = False,
    bad_unicode: Annotated[
        Literal["error", "replace"],
        typer.Option(help="Lone surrogates fail their row, or are read as U+FFFD."),
    ] = "error",
    shard: Annotated[
        str | None, typer.Option(help="NUMBER/COUNT: judge this part; see `trivet merge`.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin anew, whatever --out holds.")
    ] = False,
    although_changed: Annotated[
        bool,
        typer.Option("--although-changed", help="Go on although FILE or the settings changed."),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first row that cannot be judged.")
    ] = False,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(help=f"SCORE=MEAN: exit with {UNDER} where the mean is below it; repeat it."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page to read the verdicts on; needs --out.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show neither progress nor summary.")
    ] = False,
    question: Annotated[str | None, typer.Option(help="Judge one answer: the question.")] = None,
    context: Annotated[list[str] | None, typer.Option(help="... a passage; repeat it.")] = None,
    response: Annotated[str | None, typer.Option(help="... and the answer.")] = None,
    allow_empty_contexts: Annotated[
        bool, typer.Option(help="Judge answers without passages against nothing.")
    ] = False,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    backend: BackendOption = "onnx",
) -> None:
    """Judge a log of answers, or one answer given as options.

    A log becomes one verdict a row, in order; a run that was stopped goes on with the same command.
    One answer is printed for a person, or written as JSON with --out.
    """
    one = question is not None or context is not None or response is not None
    if one == (file is not None):
        raise typer.BadParameter("give a FILE (or -), or --question, --context and --response")
    if file is not None:
        _check_out(file, out, report)
    names, bars = _parse_mapping(mapping or []), _parse_bars(fail_under or [])
    if metadata and no_metadata:
        raise typer.BadParameter("give --metadata COLUMN or --no-metadata")
    from trivet.evaluation.evaluator import Evaluator

    if file is None:
        judge = Evaluator(bundle, threads, precision=precision, backend=backend)
        _one(judge, question or "", context or [], response or "", allow_empty_contexts, out)
        return
    from trivet.batch.progress import show_progress
    from trivet.batch.run import Going, judge_to_file, judge_to_stream
    from trivet.batch.settings import RunSettings, Shard, parse_shard
    from trivet.commands.run_exits import run_exits
    from trivet.data.logs.log import Log

    settings = RunSettings(
        mapping=names,
        format=format,
        allow_empty_contexts=allow_empty_contexts,
        bad_unicode=bad_unicode,
        fields=None if fields is None else tuple(name.strip() for name in fields.split(",")),
        metadata=() if no_metadata else None if metadata is None else tuple(metadata),
        texts=texts,
        shard=Shard() if shard is None else parse_shard(shard),
    )
    log = Log(file, format)
    if report is not None and out is not None:
        from trivet.report.write_report import check_page

        check_page(report, [out], [] if file == "-" else [file])  # before hours of judging
    judge = Evaluator(bundle, threads, precision=precision, backend=backend)
    going = Going(restart, although_changed, strict)
    with run_exits(), show_progress(log, quiet) as on_block:
        if out is None:
            tally = judge_to_stream(
                judge, log, sys.stdout.buffer, settings, on_block, strict=strict
            )
        else:
            tally = judge_to_file(judge, log, out, settings, on_block, going).counts
    if report is not None and out is not None:
        from trivet.report.write_report import write_report

        write_report([out], report)
    if not quiet:
        print("\n".join(tally.lines()), file=sys.stderr)
    _end(tally, bars)


def _end(tally: Tally, bars: dict[str, float]) -> None:
    """Exit as the run deserves."""
    under = [
        f"{score}: no verdict has it" if mean is None else f"{score} {mean:.4f} is below {bar:g}"
        for score, bar in bars.items()
        if (mean := tally.mean(score)) is None or mean < bar
    ]
    if under:
        print(f"trivet: {'; '.join(under)}", file=sys.stderr)
        raise typer.Exit(UNDER)
    if tally.failed:
        raise typer.Exit(SOME_FAILED)


def _one(
    judge: Evaluator,
    question: str,
    contexts: list[str],
    response: str,
    allow_empty_contexts: bool,
    out: Path | None,
) -> None:
    """Judge one answer."""
    from trivet.report import terminal

    verdict = judge.evaluate(
        question, contexts, response, allow_empty_contexts=allow_empty_contexts
    )
    if out is None:
        terminal.show(terminal.render_verdict(response, contexts, verdict))
        return
    terminal.write_result(out, verdict.to_json().encode() + b"\n")


def _check_out(file: str, out: Path | None, report: Path | None) -> None:
    """Refuse outputs that would overwrite what is read, or are read themselves next time."""
    if report is not None and out is None:
        raise typer.BadParameter("--report reads the verdicts again: give --out as well")
    if out is None or file == "-":
        return
    source, target = Path(file).resolve(), out.resolve()
    if target == source:
        raise typer.BadParameter(f"--out {out} would overwrite the input")
    if source.is_dir() and target.is_relative_to(source):
        raise typer.BadParameter(f"--out {out} would stand in the folder that is read")


def _parse_bars(pairs: list[str]) -> dict[str, float]:
    from trivet.batch.tally import SCORES

    bars = {}
    for pair in pairs:
        scores = ", ".join(SCORES)
        refusal = f"--fail-under {pair} must be SCORE=MEAN, a mean from 0 to 1 of {scores}"
        score, bar = parse_level(pair, refusal)
        if score not in SCORES or not 0.0 <= bar <= 1.0:
            raise typer.BadParameter(refusal)
        bars[score] = bar
    return bars


def _parse_mapping(pairs: list[str]) -> dict[str, str]:
    mapping = {}
    for pair in pairs:
        ours, separator, theirs = pair.partition("=")
        if not separator or not ours or not theirs:
            raise typer.BadParameter(f"--map {pair} must be OURS=THEIRS, such as question=prompt")
        mapping[ours] = theirs
    return mapping
