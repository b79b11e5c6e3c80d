"""One way in to every labelled source: ``ragbench:...``, ``ragtruth:...``, ``jsonl:...``."""

from __future__ import annotations

from pathlib import Path

from trivet.data.grouping import is_dev
from trivet.data.jsonl import read_jsonl
from trivet.data.ragbench import read_ragbench
from trivet.data.ragtruth import read_ragtruth
from trivet.data.source_report import SourceReport
from trivet.records import DataError, LabelledExample

SPEC_HELP = "ragbench:DIR_OR_NAME, ragtruth:DIR or jsonl:FILE"
OWN_SPLITS = ("all", "fit", "dev")


def load_source(spec: str, split: str = "all") -> tuple[list[LabelledExample], SourceReport]:
    """Read one labelled source.

    Args:
        spec: ``ragbench:DIR_OR_NAME``, ``ragtruth:DIR`` or ``jsonl:FILE``.
        split: ``all`` rows; or ``fit`` or ``dev``, our own split of the rows by their group (see
            :func:`trivet.data.grouping.is_dev`), which never touches rows that the publisher calls
            ``test``; or the publisher's own name, such as ``train`` or ``validation``.

    Returns:
        The examples of that split, and the account of what was read and why rows are missing.

    Raises:
        DataError: The source is of an unknown kind or cannot be read, or has no such split.
    """
    kind, separator, where = spec.partition(":")
    if not separator or not where:
        raise DataError(f"data source {spec!r} must be {SPEC_HELP}")
    if kind == "ragbench":
        examples, report = read_ragbench(where)
    elif kind == "ragtruth":
        examples, report = read_ragtruth(Path(where))
    elif kind == "jsonl":
        examples, report = read_jsonl(Path(where))
    else:
        raise DataError(f"data source {spec!r} is of unknown kind {kind!r}; it must be {SPEC_HELP}")
    chosen = [example for example in examples if _belongs(example, split)]
    if examples and not chosen and split not in OWN_SPLITS:
        present = sorted({example.split for example in examples if example.split is not None})
        raise DataError(
            f"{spec} has no split {split!r}; it has {', '.join((*OWN_SPLITS, *present))}"
        )
    report.outside_split = len(examples) - len(chosen)
    report.kept = len(chosen)
    report.log()
    return chosen, report


def _belongs(example: LabelledExample, split: str) -> bool:
    if split == "all":
        return True
    if split in ("fit", "dev"):
        return example.split != "test" and is_dev(example.group) == (split == "dev")
    return example.split == split
