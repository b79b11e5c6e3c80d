"""``trivet evaluate``: a log of answers, or one answer."""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
import typer.core

from trivet.commands.shared import (
    SOME_FAILED,
    UNDER,
    BackendOption,
    BundleOption,
    DeviceOption,
    PrecisionOption,
    ThreadsOption,
    ThresholdOption,
    end,
    parse_level,
    parse_mapping,
    run_exits,
    say_how_files_are_read,
)
from trivet.data.logs.shapes import described
from trivet.data.traces.spans import TraceFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from trivet.batch.settings import RunSettings
    from trivet.batch.tally import Tally
    from trivet.evaluation.evaluator import Evaluator

_PAIR = re.compile(r"(question|contexts|response|id|context_ids)=")


class MapCommand(typer.core.TyperCommand):
    """A command whose option ``--map`` takes several pairs after each other."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat ``--map`` before each further pair."""
        words: list[str] = []
        for word in args:
            if words[-2:-1] == ["--map"] and _PAIR.match(word):
                words.append("--map")
            words.append(word)
        return super().parse_args(ctx, words)


def _list_shapes(asked: bool) -> None:
    if asked:
        print("\n".join(described()))
        raise typer.Exit


def evaluate(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="JSONL, JSON, CSV, TSV, Parquet, XLSX, also .gz, .xz, .zst; a folder; - is stdin.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File: .jsonl, .json, .csv, .parquet, .xlsx; default: a table, or JSONL in a pipe."
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="OURS=THEIRS",
            help="Name of a field in FILE, or a path (contexts=outputs.docs[].text). Repeatable.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 (the option's name)
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="Format of FILE, by default its suffix: jsonl, json, csv, tsv, parquet, xlsx; the "
            "tool of its spans: otel, openinference, phoenix, langfuse, langsmith; or the shape of "
            "its rows, by default that of the first ones (see --formats).",
        ),
    ] = None,
    formats: Annotated[
        bool,
        typer.Option(
            "--formats", callback=_list_shapes, is_eager=True, help="List the shapes of rows."
        ),
    ] = False,
    turns: Annotated[
        Literal["last", "all"],
        typer.Option(help="Answers of chat messages that are judged, one verdict for each."),
    ] = "last",
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoding of FILE; default: as it looks."),
    ] = None,
    max_characters: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Longest text of a row; default: 2,000,000."),
    ] = None,
    fields: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Fields to write, such as id,faithfulness.")
    ] = None,
    texts: Annotated[bool, typer.Option("--texts", help="Write the texts too.")] = False,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Write this column of FILE; default: those with short, scalar values. Repeatable.",
        ),
    ] = None,
    no_metadata: Annotated[bool, typer.Option("--no-metadata", help="Write no columns.")] = False,
    bad_unicode: Annotated[
        Literal["error", "replace"],
        typer.Option(help="Fail rows with lone surrogates, or read U+FFFD instead."),
    ] = "error",
    shard: Annotated[
        str | None,
        typer.Option(metavar="NUMBER/COUNT", help="Evaluate this part; see `trivet merge`."),
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Overwrite --out.")] = False,
    although_changed: Annotated[
        bool, typer.Option("--although-changed", help="Resume although FILE or settings changed.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first failed row.")] = False,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCORE=MEAN", help=f"Exit with {UNDER} if the mean is lower. Repeatable."
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="VERDICTS", help="Verdicts of an earlier run, to compare with."),
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse", help=f"Exit with {UNDER} if faithfulness fell from --baseline."
        ),
    ] = False,
    scores: Annotated[
        Path | None,
        typer.Option(help="File of the traces' scores to write, in the form their tool imports."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write; needs --out.")] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Go on with the lines that are added to FILE, until interrupted."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.")] = False,
    question: Annotated[str | None, typer.Option(help="Question of a single answer.")] = None,
    context: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Its context. Repeatable.")
    ] = None,
    response: Annotated[str | None, typer.Option(help="The answer itself.")] = None,
    allow_empty_contexts: Annotated[
        bool, typer.Option(help="Evaluate answers without contexts.")
    ] = False,
    threshold: ThresholdOption = None,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    backend: BackendOption = None,
    device: DeviceOption = None,
) -> None:
    """Evaluate a log of answers, or one answer.

    A log gives one verdict for each row, in order; the same command resumes a run that was
    stopped. A single answer is printed, or written as JSON with --out.
    """
    one = question is not None or context is not None or response is not None
    if one == (file is not None):
        raise typer.BadParameter("give a FILE (or -), or --question, --context and --response")
    if file is not None:
        _check_out(file, out, report)
    elif report is not None:
        raise typer.BadParameter("--report is for a FILE with --out; one answer has no report")
    elif out is not None and out.suffix.lower() not in (".json", ".jsonl"):
        raise typer.BadParameter(f"--out {out}: the verdict on one answer is written as .json")
    names, limits = parse_mapping(mapping or []), _parse_limits(fail_under or [])
    if fail_if_worse and baseline is None:
        raise typer.BadParameter("--fail-if-worse needs --baseline VERDICTS")
    if baseline is not None and (file is None or not baseline.is_file()):
        raise typer.BadParameter(f"--baseline {baseline}: no such file, or no FILE to compare")
    if scores is not None and fields is not None:
        raise typer.BadParameter("--scores needs all fields: leave out --fields")
    if baseline is not None and out is not None and baseline.resolve() == out.resolve():
        raise typer.BadParameter(f"--out {out} would overwrite --baseline")
    if scores is not None:
        _check_scores(scores, format, file, out)
    if watch and (file is None or any((out, baseline, scores, shard, strict, encoding))):
        raise typer.BadParameter(
            "--watch is for a FILE and writes to stdout: leave out --out, --baseline, --scores, "
            "--shard, --strict and --encoding"
        )
    if metadata and no_metadata:
        raise typer.BadParameter("give --metadata COLUMN or --no-metadata")
    from trivet.evaluation.evaluator import Evaluator
    from trivet.evaluation.preprocessing import MAX_CHARACTERS

    def load() -> Evaluator:
        most = max_characters or MAX_CHARACTERS
        return Evaluator(
            bundle,
            threads,
            precision=precision,
            backend=backend,
            device=device,
            max_characters=most,
        )

    if file is None:
        from trivet.report import terminal

        contexts, text = context or [], response or ""
        verdict = load().evaluate(
            question or "",
            contexts,
            text,
            allow_empty_contexts=allow_empty_contexts,
            threshold=threshold,
        )
        if out is None:
            terminal.show(terminal.render_verdict(text, contexts, verdict))
        else:
            terminal.write_result(out, verdict.to_json().encode() + b"\n")
        return
    from trivet.batch.out_formats import check_format
    from trivet.batch.progress import show_progress
    from trivet.batch.run import ResumePolicy, evaluate_to_file, evaluate_to_stream
    from trivet.batch.settings import RunSettings, Shard, parse_shard
    from trivet.data.traces.trace_log import TraceLog, open_log

    settings = RunSettings(
        mapping=names,
        format=format,
        encoding=encoding,
        max_characters=max_characters,
        allow_empty_contexts=allow_empty_contexts,
        threshold=threshold,
        bad_unicode=bad_unicode,
        fields=None if fields is None else tuple(name.strip() for name in fields.split(",")),
        metadata=() if no_metadata else None if metadata is None else tuple(metadata),
        turns=turns,
        texts=texts,
        shard=Shard() if shard is None else parse_shard(shard),
    )
    if out is not None:
        check_format(out)  # before a bundle is loaded
    if watch:
        raise _watch(Path(file), load, settings, quiet, limits)
    log = open_log(file, format, encoding)
    if report is not None and out is not None:
        from trivet.report.write_report import check_page

        check_page(report, [out], [] if file == "-" else [file])  # before a long run
    evaluator = load()
    policy = ResumePolicy(restart, although_changed, strict)
    # A person reads a table; what is piped on, or asked for by field, stays JSON lines.
    tabled = out is None and fields is None and sys.stdout.isatty()
    written = out
    with contextlib.ExitStack() as files:
        if written is None and (tabled or baseline is not None or scores is not None):
            folder = files.enter_context(tempfile.TemporaryDirectory())
            written = Path(folder) / "verdicts.jsonl"
        with run_exits(), say_how_files_are_read(quiet), show_progress(log, quiet) as on_block:
            if written is None:
                tally = evaluate_to_stream(
                    evaluator, log, sys.stdout.buffer, settings, on_block, strict=strict
                )
            else:
                tally = evaluate_to_file(evaluator, log, written, settings, on_block, policy).counts
        if tabled and written is not None:
            _show_table(written)
        is_worse = _compare(baseline, written) and fail_if_worse
        if scores is not None and written is not None and isinstance(log, TraceLog):
            from trivet.batch.trace_scores import write_scores

            write_scores(log, written, scores)
    if report is not None and out is not None:
        from trivet.report.write_report import write_report

        write_report([out], report)
    if not quiet:
        places = (
            f"{name}: {path}" for name, path in (("verdicts", out), ("report", report)) if path
        )
        print("\n".join([*tally.lines(), *places]), file=sys.stderr)
    if is_worse:
        raise end("faithfulness is worse than that of --baseline", UNDER)
    _check_result(tally, limits)


def _watch(
    path: Path,
    load: Callable[[], Evaluator],
    settings: RunSettings,
    quiet: bool,
    limits: dict[str, float],
) -> typer.Exit:
    """Evaluate a file that grows until an interrupt; return the end of the command."""
    from trivet.batch.tally import Tally
    from trivet.batch.watch import check_watched, watch

    with run_exits(), say_how_files_are_read(quiet):
        check_watched(path)
        evaluator = load()
        tally = Tally()

        def keep(found: Tally, rows: int) -> None:
            nonlocal tally
            tally = found

        with contextlib.suppress(KeyboardInterrupt):
            tally = watch(evaluator, path, settings, sys.stdout.buffer, keep)
    if not quiet:
        print("\n".join(tally.lines()), file=sys.stderr)
    _check_result(tally, limits)
    return typer.Exit()


def _show_table(verdicts: Path) -> None:
    from trivet.report import terminal
    from trivet.report.verdict_files import VerdictFile
    from trivet.report.verdict_table import render_table

    terminal.show(render_table(VerdictFile(verdicts)))


def _compare(baseline: Path | None, verdicts: Path | None) -> bool:
    """Print the differences from an earlier run; tell whether the new one is worse."""
    if baseline is None or verdicts is None:
        return False
    from trivet.report.regression import compare
    from trivet.report.terminal import visible

    regression = compare(baseline, verdicts)
    print(visible("\n".join(regression.lines())))
    return regression.worse


def _check_result(tally: Tally, limits: dict[str, float]) -> None:
    """Exit with an error if a mean is too low or a row failed."""
    under = [
        f"{score}: no verdict has it" if mean is None else f"{score} {mean:.4f} is below {limit:g}"
        for score, limit in limits.items()
        if (mean := tally.mean(score)) is None or mean < limit
    ]
    if under:
        raise end("; ".join(under), UNDER)
    if tally.failed:
        raise typer.Exit(SOME_FAILED)


def _check_out(file: str, out: Path | None, report: Path | None) -> None:
    """Refuse outputs that overwrite the input or lie in its folder."""
    if report is not None and out is None:
        raise typer.BadParameter("--report needs --out: give --out as well")
    if out is None or file == "-":
        return
    source, target = Path(file).resolve(), out.resolve()
    if target == source:
        raise typer.BadParameter(f"--out {out} would overwrite the input")
    if source.is_dir() and target.is_relative_to(source):
        raise typer.BadParameter(f"--out {out} is in the input folder")


def _check_scores(scores: Path, format_: str | None, file: str | None, out: Path | None) -> None:
    """Refuse scores of anything but traces, and a file that cannot be written."""
    from trivet.report.terminal import check_writable

    tools = get_args(TraceFormat)
    if format_ not in tools:
        raise typer.BadParameter(f"--scores is for traces: give --format {', '.join(tools)}")
    if scores.resolve() in [Path(path).resolve() for path in (file, out) if path is not None]:
        raise typer.BadParameter(f"--scores {scores} would overwrite FILE or --out")
    check_writable(scores)


def _parse_limits(pairs: list[str]) -> dict[str, float]:
    from trivet.batch.tally import SCORES

    limits = {}
    for pair in pairs:
        scores = ", ".join(SCORES)
        refusal = f"--fail-under {pair} must be SCORE=MEAN, a mean from 0 to 1 of {scores}"
        score, limit = parse_level(pair, refusal)
        if score not in SCORES or not 0.0 <= limit <= 1.0:
            raise typer.BadParameter(refusal)
        limits[score] = limit
    return limits
