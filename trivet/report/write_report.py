"""Verdict files in, one page out: what ``trivet report`` and ``trivet evaluate --report`` do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trivet.records import DataError
from trivet.report.comparison_page import render_comparison
from trivet.report.failure_kinds import Limits
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
    """Write the page of one verdict file, or of two compared.

    Args:
        verdicts: One file of ``trivet evaluate``, or two over the same questions.
        out: The page.
        logs: Where the texts are, for each file or for both; without any, the logs that the runs'
            records name.
        limits: Of the kinds of failure.
        by: Columns of the metadata to group by.
        shown: How many answers the page shows.

    Raises:
        DataError: A file cannot be read, holds no verdicts, or would be overwritten by the page;
            or two runs have no row in common.
        ConfigError: ``shown`` is negative.
        OSError: The page cannot be written.
    """
    check_page(out, verdicts, logs)
    if len(verdicts) not in (1, 2) or len(logs) > len(verdicts):
        raise DataError(
            f"{len(verdicts)} verdict files and {len(logs)} logs were given; a report is of one "
            "verdict file, or compares two, each with one log at most"
        )
    own = [logs[min(place, len(logs) - 1)] if logs else None for place in range(len(verdicts))]
    files = [VerdictFile(path, log) for path, log in zip(verdicts, own, strict=True)]
    first, *others = files
    if not others:
        page = render_verdicts(
            first,
            first.facts.about,
            title=f"Verdicts: {first.path.name}",
            remarks=first.facts.remarks,
            limits=limits,
            by=by,
            shown=shown,
        )
    else:
        page = _compare(first, others[0], limits, by, shown)
    out.write_text(page, encoding="utf-8")


def check_page(out: Path, verdicts: Sequence[Path], logs: Sequence[str] = ()) -> None:
    """Refuse, before anything is judged or read, a page that could not be written.

    Raises:
        DataError: Its folder does not exist, a folder stands in its place, or it is an input.
    """
    if not out.parent.is_dir():
        raise DataError(f"{out}: there is no folder {out.parent} to write it into")
    if out.is_dir():
        raise DataError(f"{out} is a folder; name a file to write")
    if out.resolve() in [path.resolve() for path in (*verdicts, *map(Path, logs))]:
        raise DataError(f"{out} would overwrite what the report is about; name another file")


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
            "The runs were judged by different bundles or precisions: a difference may be the "
            "judge's and not the answers'."
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
