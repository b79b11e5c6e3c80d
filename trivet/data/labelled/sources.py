"""One way in to every labelled source: ``ragbench:...``, ``ragtruth:...``, ``jsonl:...``.

What would make a training or a figure worthless is refused here, whatever the source: a file that
says nothing of its rows, and a file that puts one group on two sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trivet.data.labelled.grouping import is_dev
from trivet.data.labelled.halubench import read_halubench
from trivet.data.labelled.labelled_jsonl import read_jsonl
from trivet.data.labelled.ragbench import read_ragbench
from trivet.data.labelled.ragtruth import read_ragtruth
from trivet.data.labelled.source_report import SourceReport
from trivet.records import DataError, LabelledExample, Labels

SPEC_HELP = "ragbench:DIR_OR_NAME, ragtruth:DIR, halubench:DIR_OR_NAME or jsonl:FILE"
OWN_SPLITS = ("all", "fit", "dev")


def load_source(spec: str, split: str = "all") -> tuple[list[LabelledExample], SourceReport]:
    """Read one labelled source.

    Args:
        spec: ``ragbench:DIR_OR_NAME``, ``ragtruth:DIR``, ``halubench:DIR_OR_NAME`` or
            ``jsonl:FILE``.
        split: ``all`` rows; or ``fit`` or ``dev``, our own split of the rows by their group (see
            :func:`~trivet.data.labelled.grouping.is_dev`), which never takes rows that the publisher
            ``test``; or the publisher's own name, such as ``train`` or ``validation``.

    Returns:
        The examples of that split, and the account of what was read and why rows are missing.

    Raises:
        DataError: The source is of an unknown kind or cannot be read; none of its rows can be
            used; it has no such split, or nothing is known of any row in it; or a split was asked
            for and the file puts one group into two.
    """
    kind, separator, where = spec.partition(":")
    if not separator or not where:
        raise DataError(f"data source {spec!r} must be {SPEC_HELP}")
    if kind == "ragbench":
        examples, report = read_ragbench(where)
    elif kind == "ragtruth":
        examples, report = read_ragtruth(Path(where))
    elif kind == "halubench":
        examples, report = read_halubench(where)
    elif kind == "jsonl":
        examples, report = read_jsonl(Path(where))
    else:
        raise DataError(f"data source {spec!r} is of unknown kind {kind!r}; it must be {SPEC_HELP}")
    if report.rows and not examples:
        raise DataError(f"{spec}: none of its {report.rows} rows can be used: {report.losses()}")
    _check_groups(examples, spec, split, report)
    chosen = [example for example in examples if _belongs(example, split)]
    if examples and not chosen and split not in OWN_SPLITS:
        present = sorted({example.split for example in examples if example.split is not None})
        raise DataError(
            f"{spec} has no split {split!r}; it has {', '.join((*OWN_SPLITS, *present))}"
        )
    if chosen and all(example.labels == Labels() for example in chosen):
        raise DataError(
            f"{spec}: nothing is known of any of the {len(chosen)} rows in split {split!r}; each "
            "labelled row says at least one of unsupported, adherent, relevant, utilized; "
            "trivet evaluate judges rows without labels"
        )
    report.outside_split = len(examples) - len(chosen)
    report.kept = len(chosen)
    report.log()
    return chosen, report


def _check_groups(
    examples: Sequence[LabelledExample], spec: str, split: str, report: SourceReport
) -> None:
    """Take note of groups that stand in several of the publisher's splits, or refuse them.

    Where the file itself names group and split it contradicts itself, and no split of it is to be
    trusted. Groups that a reader has made of shared documents may cross a publisher's line: there
    the published test stays what it is, and training refuses what it shares with dev.
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
            f"{spec}: {len(divided)} groups stand in more than one split, first {first}; give each "
            "group one split, or leave the splits out and take fit and dev, which are made by group"
        )
    report.note("groups that stand in several of the publisher's splits", first, len(divided))


def choose_rows(
    rows: Sequence[LabelledExample], only: Sequence[str], limit: int | None, seed: int
) -> list[LabelledExample]:
    """Return the rows of some sources, and at most so many of them, in their order.

    Args:
        rows: As ``load_source`` gave them.
        only: Sources by prefix; empty for all.
        limit: At most so many, drawn by the seed; ``None`` for all.
        seed: Of the draw.
    """
    chosen = [row for row in rows if not only or row.source.startswith(tuple(only))]
    if limit is None or limit >= len(chosen):
        return chosen
    drawn = np.random.default_rng(seed).permutation(len(chosen))[:limit]
    return [chosen[index] for index in sorted(drawn)]


def _belongs(example: LabelledExample, split: str) -> bool:
    if split == "all":
        return True
    if split in ("fit", "dev"):
        return example.split != "test" and is_dev(example.group) == (split == "dev")
    return example.split == split
