"""``trivet evaluate``: a log of answers, or one answer."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trivet.batch.run_settings import RunSettings
from trivet.commands.options import Model, options
from trivet.commands.shared import (
    SOME_FAILED,
    UNDER,
    end,
    parse_level,
    run_exits,
    say_how_files_are_read,
)
from trivet.logs.shapes import described
from trivet.settings import RARE, QuietOption, RestartOption, Setting

if TYPE_CHECKING:
    from trivet.report.run_tally import RunTally


_input, _output = partial(Setting, panel="Input"), partial(Setting, panel="Output")
_gate, _rare = partial(Setting, panel="Gates"), partial(Setting, panel=RARE)
# kinds of answers, as counted
_SHARES = {"abstains": "abstaining", "unsupported": "unsupported", "to_check": "to_check"}


class _Gates(NamedTuple):
    """Limits that a run must keep."""

    under: dict[str, float]  # least mean of each score
    over: dict[str, float]  # highest share of the answers of each kind


def _list_shapes(asked: bool) -> None:
    if asked:
        print("\n".join(described()))
        raise typer.Exit


@options
def evaluate(
    file: Annotated[
        str | None,
        Setting(
            "JSONL, JSON, CSV, TSV, Parquet, XLSX, also .gz, .xz, .zst; a folder; - is stdin.",
            "FILE",
        ),
    ] = None,
    *,
    question: Annotated[str | None, _input("Question of a single answer.")] = None,
    context: Annotated[list[str] | None, _input("Its context. Repeatable.", metavar="TEXT")] = None,
    response: Annotated[str | None, _input("The answer itself.")] = None,
    formats: Annotated[
        bool,
        typer.Option(
            "--formats",
            callback=_list_shapes,
            is_eager=True,
            help="List the file formats of other tools.",
            rich_help_panel="Input",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        _output("File: .jsonl, .json, .csv, .parquet; default: a table, or JSONL in a pipe."),
    ] = None,
    report: Annotated[Path | None, _output("HTML report to write; needs --out.")] = None,
    restart: RestartOption = False,
    quiet: QuietOption = False,
    fail_under: Annotated[
        list[str] | None,
        _gate(f"Exit with {UNDER} if the mean is lower. Repeatable.", metavar="SCORE=MEAN"),
    ] = None,
    fail_over: Annotated[
        list[str] | None,
        _gate(f"Exit with {UNDER} if more answers are. Repeatable.", metavar="KIND=SHARE"),
    ] = None,
    baseline: Annotated[
        Path | None, _gate("Verdicts of an earlier run to compare with.", metavar="VERDICTS")
    ] = None,
    fail_if_worse: Annotated[bool, _gate(f"Exit with {UNDER} if it fell from --baseline.")] = False,
    settings: RunSettings,
    model: Model,
    force: Annotated[bool, _rare("Resume even if FILE or settings changed.")] = False,
) -> None:
    """Evaluate a log of answers, or one answer.

    A log gives one verdict a row, in order; the same command resumes a stopped run. A single
    answer is printed, or written as JSON with --out.
    """
    is_single = question is not None or context is not None or response is not None
    if is_single == (file is not None):
        many = "; not both" if is_single else ""
        raise typer.BadParameter(
            f"give a FILE (or -), or --question, --context and --response{many}"
        )
    if file is not None:
        _check_out(file, out, report)
    elif report is not None:
        raise typer.BadParameter("--report is for a FILE with --out; one answer has no report")
    elif out is not None and out.suffix.lower() not in (".json", ".jsonl"):
        raise typer.BadParameter(f"--out {out}: the verdict on one answer is written as .json")
    gates = _parse_gates(fail_under or [], fail_over or [])
    if fail_if_worse and baseline is None:
        raise typer.BadParameter("--fail-if-worse needs --baseline VERDICTS")
    if baseline is not None and (file is None or not baseline.is_file()):
        raise typer.BadParameter(f"--baseline {baseline}: no such file, or no FILE to compare")
    if baseline is not None and settings.fields is not None:
        raise typer.BadParameter("--baseline needs all fields: leave out --fields")
    if baseline is not None and out is not None and baseline.resolve() == out.resolve():
        raise typer.BadParameter(f"--out {out} would overwrite --baseline")
    if file is None:
        from trivet.report import terminal
        from trivet.report.run_tally import RunTally

        used = RunSettings(
            allow_empty_contexts=settings.allow_empty_contexts,
            threshold=settings.threshold,
            strict=settings.strict,
            max_characters=settings.max_characters,
        )
        if settings != used or restart or force:
            raise typer.BadParameter(
                "these options need a FILE: --map, --format, --encoding, --turns, --shard, "
                "--fields, --texts, --metadata, --restart, --force"
            )

        contexts, text = context or [], response or ""
        verdict = model.load(settings.max_characters).evaluate(
            question or "",
            contexts,
            text,
            allow_empty_contexts=settings.allow_empty_contexts,
            threshold=settings.threshold,
            strict=settings.strict,
        )
        if out is None:
            terminal.show(terminal.render_verdict(text, contexts, verdict))
        else:
            terminal.write_result(out, verdict.to_json().encode() + b"\n")
        tally = RunTally()
        tally.add([verdict])
        return _check_result(tally, gates)
    from trivet.batch.out_formats import check_format
    from trivet.batch.progress import show_progress
    from trivet.batch.run import ResumePolicy, evaluate_to_file, evaluate_to_stream
    from trivet.logs.trace_log import open_log

    if out is not None:
        check_format(out)  # before a bundle is loaded
    log = open_log(file, settings.format, settings.encoding, is_mapped=bool(settings.mapping))
    if report is not None and out is not None:
        from trivet.report.write_report import check_page

        check_page(report, [out], [] if file == "-" else [file])  # before a long run
    evaluator = model.load(settings.max_characters)
    policy = ResumePolicy(restart, force)
    # A terminal shows a table; a pipe, or --fields, gets JSON lines.
    tabled = out is None and settings.fields is None and sys.stdout.isatty()
    written = out
    with contextlib.ExitStack() as files:
        if written is None and (tabled or baseline is not None):
            folder = files.enter_context(tempfile.TemporaryDirectory())
            written = Path(folder) / "verdicts.jsonl"
        with run_exits(), say_how_files_are_read(quiet), show_progress(log, quiet) as on_block:
            if written is None:
                tally = evaluate_to_stream(evaluator, log, sys.stdout.buffer, settings, on_block)
            else:
                tally = evaluate_to_file(evaluator, log, written, settings, on_block, policy).counts
        if tabled and written is not None:
            _show_table(written)
        is_worse = _compare(baseline, written) and fail_if_worse
    if report is not None and out is not None:
        from trivet.report.write_report import write_report

        with run_exits():
            write_report([out], report)
    if not quiet:
        places = (
            f"{name}: {path}" for name, path in (("verdicts", out), ("report", report)) if path
        )
        print("\n".join([*tally.lines(), *places]), file=sys.stderr)
    if is_worse:
        raise end("faithfulness is worse than that of --baseline", UNDER)
    _check_result(tally, gates)


def _show_table(verdicts: Path) -> None:
    from trivet.report import terminal
    from trivet.report.terminal import render_table
    from trivet.report.verdict_files import VerdictFile

    terminal.show(render_table(VerdictFile(verdicts)))


def _compare(baseline: Path | None, verdicts: Path | None) -> bool:
    """Print the differences from an earlier run; tell whether the new one is worse."""
    if baseline is None or verdicts is None:
        return False
    from trivet.report.terminal import visible
    from trivet.report.two_runs import compare

    regression = compare(baseline, verdicts)
    print(visible("\n".join(regression.lines())))
    return regression.worse


def _check_result(tally: RunTally, gates: _Gates) -> None:
    """Exit with an error if a mean is too low, a share is too high or a row failed."""
    from trivet.report.wording import count

    faults = []
    for score, limit in gates.under.items():
        mean = tally.mean(score)
        if mean is None and tally.abstaining:
            abstain = f"{tally.abstaining:,} of {count(tally.answers, 'answer')} abstain"
            faults.append(f"{score}: nothing was judged: {abstain}")
        elif mean is None:
            faults.append(f"{score}: no verdict has it")
        elif mean < limit:
            faults.append(f"{score} {mean:.4f} is below {limit:g}")
    for kind, limit in gates.over.items():
        if (share := tally.share(_SHARES[kind])) > limit:
            of_answers = f"of {count(tally.answers, 'answer')}"
            faults.append(f"{kind}: {share:.4f} {of_answers} is above {limit:g}")
    if faults:
        raise end("; ".join(faults), UNDER)
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


def _parse_gates(under: list[str], over: list[str]) -> _Gates:
    from trivet.report.run_tally import SCORES

    means = _parse_limits("--fail-under", "SCORE=MEAN, a mean", under, SCORES)
    return _Gates(means, _parse_limits("--fail-over", "KIND=SHARE, a share", over, tuple(_SHARES)))


def _parse_limits(
    option: str, form: str, pairs: list[str], names: tuple[str, ...]
) -> dict[str, float]:
    limits = {}
    for pair in pairs:
        refusal = f"{option} {pair} must be {form} from 0 to 1 of {', '.join(names)}"
        name, limit = parse_level(pair, refusal)
        if name not in names or not 0.0 <= limit <= 1.0:
            raise typer.BadParameter(refusal)
        limits[name] = limit
    return limits
