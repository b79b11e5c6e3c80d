"""Reports from verdict files, for ``trivet report`` and ``trivet evaluate --report``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trivet.records import DataError
from trivet.report.comparison_page import render_comparison
from trivet.report.tally import Limits
from trivet.report.verdict_files import VerdictFile
from trivet.report.verdicts_page import SHOWN, render_verdicts


def write_report(
    verdicts: Sequence[Path],
    out: Path,
    *,
    logs: Sequence[str] = (),
    limits: Limits | None = None,
    by: Sequence[str] = (),
    shown: int = SHOWN,
) -> None:
    """Write the page of one verdict file, or the comparison of two.

    Args:
        verdicts: One or two files of ``trivet evaluate``.
        out: Page to write.
        logs: Logs with the texts, one for each file or one for both; by default those named in
            the runs' records.
        limits: Limits of the kinds of failure.
        by: Metadata columns to group by.
        shown: Number of answers on the page.

    Raises:
        DataError: A file cannot be read, has no verdicts or would be overwritten, or two runs have
            no row in common.
        ConfigError: ``shown`` is negative.
        OSError: The page cannot be written.
    """
    check_page(out, verdicts, logs)
    if len(verdicts) not in (1, 2) or len(logs) > len(verdicts):
        raise DataError(
            f"{len(verdicts)} verdict files and {len(logs)} logs were given; a report takes one or "
            "two verdict files, each with one log at most"
        )
    own = [logs[min(place, len(logs) - 1)] if logs else None for place in range(len(verdicts))]
    files = [VerdictFile(path, log) for path, log in zip(verdicts, own, strict=True)]
    if len(files) == 2:
        page = _compare(files[0], files[1], limits, by, shown)
    else:
        page = render_verdicts(
            files[0],
            files[0].facts.about,
            title=f"Verdicts: {files[0].path.name}",
            remarks=files[0].facts.remarks,
            limits=limits,
            by=by,
            shown=shown,
        )
    out.write_text(page, encoding="utf-8")


def check_page(out: Path, verdicts: Sequence[Path], logs: Sequence[str] = ()) -> None:
    """Refuse a page that cannot be written, before any row is read.

    Raises:
        DataError: Its folder does not exist, or it is a folder or an input.
    """
    if not out.parent.is_dir():
        raise DataError(f"{out}: there is no folder {out.parent} to write it into")
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file to write")
    if out.resolve() in [path.resolve() for path in (*verdicts, *map(Path, logs))]:
        raise DataError(f"{out} would overwrite an input of the report; name another file")


def _compare(
    first: VerdictFile, second: VerdictFile, limits: Limits | None, by: Sequence[str], shown: int
) -> str:
    same = first.path.name == second.path.name
    names = tuple(str(file.path) if same else file.path.name for file in (first, second))
    remarks = [
        f"{label}: {remark}"
        for label, file in (("A", first), ("B", second))
        for remark in file.facts.remarks
    ]
    judges = (first.facts.judge, second.facts.judge)
    if all(judges) and judges[0] != judges[1]:
        remarks.append(
            "The runs used different bundles or precisions: differences may come from the "
            "evaluator, not from the answers."
        )
    return render_comparison(
        (first, second),
        (names[0], names[1]),
        (first.facts.about, second.facts.about),
        remarks=remarks,
        limits=limits,
        by=by,
        shown=shown,
    )
