"""Reports from verdict files, for ``trivet report`` and ``trivet evaluate --report``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from trivet.errors import DataError, PageError
from trivet.report.terminal import check_writable
from trivet.report.two_runs import render_comparison
from trivet.report.verdict_files import VerdictFile
from trivet.report.verdicts_page import SHOWN, render_verdicts


def write_report(
    verdicts: Sequence[Path],
    out: Path,
    *,
    logs: Sequence[str] = (),
    by: Sequence[str] = (),
    shown: int = SHOWN,
) -> None:
    """Write the page of one verdict file, or the comparison of two.

    ``logs`` with the texts are one for each file or one for both; by default those named in the
    runs' records. The other arguments are those of `render_verdicts`.

    Raises:
        DataError: A file cannot be read, has no verdicts or would be overwritten, or two runs have
            no row in common.
        PageError: The page cannot be written.
    """
    check_page(out, verdicts, logs)
    if len(verdicts) not in (1, 2) or len(logs) > len(verdicts):
        raise DataError(
            f"{len(verdicts)} verdict files and {len(logs)} logs were given; a report takes one or "
            "two verdict files, each with one log at most"
        )
    chosen = [logs[min(index, len(logs) - 1)] if logs else None for index in range(len(verdicts))]
    first, *others = [VerdictFile(path, log) for path, log in zip(verdicts, chosen, strict=True)]
    if others:
        second = others[0]
        names = (first.path.name, second.path.name)
        page = render_comparison(
            (first, second),
            names if len(set(names)) == 2 else (str(first.path), str(second.path)),
            (first.about, second.about),
            remarks=_comparison_remarks(first, second),
            by=by,
            shown=shown,
        )
    else:
        page = render_verdicts(
            first,
            first.about,
            title=f"Verdicts: {first.path.name}",
            remarks=first.remarks,
            errors=first.errors,
            by=by,
            shown=shown,
        )
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise PageError(
            f"{out}: cannot be written: {error.strerror or error}; the verdicts are complete: "
            f"trivet report {shlex.join(map(str, verdicts))} --out PAGE writes it elsewhere"
        ) from error


def check_page(out: Path, verdicts: Sequence[Path], logs: Sequence[str]) -> None:
    """Raise `DataError` for a page that cannot be written or would overwrite an input."""
    check_writable(out)
    if out.resolve() in [path.resolve() for path in (*verdicts, *map(Path, logs))]:
        raise DataError(f"{out} would overwrite an input of the report; name another file")


def _comparison_remarks(first: VerdictFile, second: VerdictFile) -> list[str]:
    remarks = [f"A: {remark}" for remark in first.remarks]
    remarks += [f"B: {remark}" for remark in second.remarks]
    judges = [
        (file.run.bundle["manifest_sha256"], file.run.backend["precision"])
        for file in (first, second)
        if file.run
    ]
    if len(set(judges)) == 2:
        remarks.append(
            "The runs used different bundles or precisions: differences may come from the "
            "evaluator, not from the answers."
        )
    return remarks
