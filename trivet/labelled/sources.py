"""Load any labelled source: ``ragbench:...``, ``ragtruth:...``, ``jsonl:...``, ``sheet:...``.

Refuses data that would make a training or a measurement worthless: a file without any label, and a
file that puts one group into two splits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from trivet.errors import DataError
from trivet.labelled.grouping import OWN_SPLITS, choose_split
from trivet.labelled.labelled_jsonl import read_jsonl
from trivet.labelled.plain_labels import read_plain
from trivet.labelled.ragbench import read_ragbench
from trivet.labelled.ragtruth import read_ragtruth
from trivet.labelled.source_files import check_published, read_json_lines
from trivet.labelled.source_report import SourceReport
from trivet.labelled.verdict_sets import VERDICT_SETS, read_verdict_set
from trivet.records import LabelledExample, Labels

SPEC_HELP = (
    "ragbench:, ragtruth:, halubench:, finqa: or eli5:DIR_OR_NAME, sheet:FILE with a column of "
    "labels, or [jsonl:]FILE.jsonl"
)


_READERS: dict[str, Callable[[str], tuple[list[LabelledExample], SourceReport]]] = {
    "ragbench": read_ragbench,
    "ragtruth": read_ragtruth,
    **{kind: partial(read_verdict_set, kind) for kind in VERDICT_SETS},
    "jsonl": lambda file: read_jsonl(Path(file)),
}


def check_source(spec: str) -> None:
    """Refuse a source that is certainly not there, without reading it or asking the hub.

    A missing folder of the form ``owner/name`` may be a data set of the hub.

    Raises:
        DataError: The kind is unknown, or there is no such file, nor such a folder or name.
    """
    whole, _, own_split = spec.rpartition("@")
    kind, where = _parts(whole if own_split in OWN_SPLITS else spec)
    if kind not in ("jsonl", "sheet"):
        check_published(where, [kind])
    elif not Path(where).is_file():
        raise DataError(f"no such file: {where}")


def _parts(spec: str) -> tuple[str, str]:
    """Return the kind, and the file, folder or name."""
    kind, separator, where = spec.partition(":")
    if not separator and ".jsonl" in Path(spec).suffixes:
        kind, where = "jsonl", spec
    if not where:
        raise DataError(f"data source {spec!r} must be {SPEC_HELP}")
    if kind not in (*_READERS, "sheet"):
        raise DataError(f"data source {spec!r} is of unknown kind {kind!r}; it must be {SPEC_HELP}")
    return kind, where


def load_source(
    spec: str, split: str = "all", labelled: bool = True, label: str | None = None
) -> tuple[list[LabelledExample], SourceReport]:
    """Read one labelled source; returns the examples of a split, and what was read and dropped.

    Args:
        spec: ``ragbench:DIR_OR_NAME``, likewise ``ragtruth``, ``halubench``, ``finqa`` and
            ``eli5``; ``sheet:FILE``; or ``jsonl:FILE``, whose kind may be left out if FILE has
            ``.jsonl`` in its name. ``@all``, ``@fit`` or ``@dev`` at its end replaces ``split``.
        split: ``all`` rows; or ``fit`` or ``dev``, our own split by group
            (:func:`~trivet.labelled.grouping.in_part`) without the publisher's ``test``; or
            the publisher's name of a split, such as ``train`` or ``validation``.
        labelled: Whether a split without any label is refused.
        label: Column of a sheet's labels; ``None`` looks for it as `trivet test FILE` does.

    Raises:
        DataError: The source is of an unknown kind or cannot be read; none of its rows can be
            used; it has no such split, or no labels in it; or a split is requested and the file
            puts one group into two splits.
    """
    whole, _, own_split = spec.rpartition("@")
    if own_split in OWN_SPLITS:
        spec, split = whole, own_split
    kind, where = _parts(spec)
    if kind == "sheet":
        plain = read_plain(where, label)
        examples, report = list(plain.examples), plain.report
    else:
        examples, report = _READERS[kind](where)
    if report.rows and not examples:
        losses = report.describe(report.dropped)
        raise DataError(f"{spec}: none of its {report.rows} rows can be used: {losses}")
    _check_groups(examples, spec, split, report)
    chosen = choose_split(examples, split, spec)
    if labelled and chosen and all(example.labels == Labels() for example in chosen):
        raise DataError(
            f"{spec}: none of the {len(chosen)} rows in split {split!r} has a label; each "
            "labelled row has at least one of unsupported, adherent, relevant, utilized; use "
            "sheet:FILE for a column of labels, and trivet evaluate for rows without any"
        )
    report.outside_split = len(examples) - len(chosen)
    report.kept = len(chosen)
    report.log()
    return chosen, report


def load_own(file: Path, label: str | None = None) -> list[LabelledExample]:
    """Return the rows of JSON lines with ``labels``, or of a sheet with a column of labels.

    Naming that column tells that it is a sheet. Errors are those of ``load_source``.
    """
    is_sheet = label is not None or ".jsonl" not in file.suffixes
    rows = () if is_sheet else read_json_lines(file)
    has_spans = any(isinstance(row, dict) and "labels" in row for _, row in rows)
    return load_source(f"{'jsonl' if has_spans else 'sheet'}:{file}", label=label)[0]


def _check_groups(
    examples: Sequence[LabelledExample], spec: str, split: str, report: SourceReport
) -> None:
    """Note groups that occur in several of the publisher's splits; refuse them in a JSONL file.

    Such a file names group and split itself, so none of its splits can be trusted then. Groups that
    a reader made of shared documents may cross splits: training refuses rows that test shares.
    """
    splits: defaultdict[str, set[str]] = defaultdict(set)
    for example in examples:
        if example.split is not None:
            splits[example.group].add(example.split)
    divided = sorted(group for group, names in splits.items() if len(names) > 1)
    if not divided:
        return
    first = f"{divided[0]!r} in {', '.join(sorted(splits[divided[0]]))}"
    if spec.startswith("jsonl:") and split != "all":
        raise DataError(
            f"{spec}: {len(divided)} groups are in more than one split, first {first}; give each "
            "group one split, or leave the splits out and use fit and dev, which are made by group"
        )
    report.note("groups that occur in several of the publisher's splits", first, len(divided))


def choose_rows(
    rows: Sequence[LabelledExample], only: Sequence[str], limit: int | None, seed: int
) -> list[LabelledExample]:
    """Return the rows of the sources with any of the prefixes ``only`` (empty for all), in order.

    At most ``limit`` rows, drawn at random by ``seed``; ``None`` for all.
    """
    chosen = [row for row in rows if not only or row.source.startswith(tuple(only))]
    if limit is None or limit >= len(chosen):
        return chosen
    drawn = np.random.default_rng(seed).permutation(len(chosen))[:limit]
    return [chosen[index] for index in sorted(drawn)]
