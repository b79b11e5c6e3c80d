"""Groups of rows with common documents or questions; our split is by group, never by row."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence

from trivet.errors import DataError
from trivet.records import LabelledExample

OWN_SPLITS = ("all", "fit", "dev")
DEV_SHARE = 0.15
"""Share of the groups in our own dev split."""


def digest(*texts: str) -> str:
    """Return a short stable digest (16 hexadecimal digits) of a sequence of texts."""
    total = hashlib.sha256()
    for text in texts:
        # The length keeps ("ab", "c") and ("a", "bc") apart; lone surrogates occur in real data.
        encoded = text.encode("utf-8", "surrogatepass")
        total.update(len(encoded).to_bytes(8, "big") + encoded)
    return total.hexdigest()[:16]


def is_dev(group: str) -> bool:
    """Tell whether a group is on the dev side of our own split.

    Depends only on the group's name, so the answer never changes when rows are added or reordered.
    """
    return int(digest(group), 16) < DEV_SHARE * 2**64


def group_by_documents(
    questions: Sequence[str], documents: Sequence[Sequence[str]], largest: int
) -> tuple[tuple[str, ...], int]:
    """Group rows so that as few documents as possible are in two groups.

    Rows with the same question always share a group. Groups that share a document are joined, the
    rarest documents first, unless the result would outgrow ``largest``: some sets retrieve a few
    documents for nearly every question, and joining through those would leave one group that
    cannot be split. A group is named by a digest of its smallest question, so names do not depend
    on the order of the rows. Also returns the number of documents in several groups.
    """
    keys = [question.strip() for question in questions]
    parent = {key: key for key in keys}
    size = Counter(keys)

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    asked: defaultdict[str, set[str]] = defaultdict(set)
    for key, row_documents in zip(keys, documents, strict=True):
        for document in row_documents:
            asked[digest(document)].add(key)
    for _, shared in sorted(asked.items(), key=lambda item: (len(item[1]), item[0])):
        roots = sorted({root(key) for key in shared})
        if sum(size[key] for key in roots) <= largest:
            for key in roots[1:]:
                parent[key] = roots[0]
                size[roots[0]] += size[key]

    # Each root is the smallest of the roots it absorbed: the smallest question of its group.
    divided = sum(len({root(key) for key in shared}) > 1 for shared in asked.values())
    return tuple(digest(root(key)) for key in keys), divided


def choose_split(
    examples: Sequence[LabelledExample], split: str, source: str
) -> list[LabelledExample]:
    """Return the examples of a split, as `load_source` does; ``DataError`` without such a split."""
    chosen = [example for example in examples if _belongs(example, split)]
    if examples and not chosen and split not in OWN_SPLITS:
        present = sorted({example.split for example in examples if example.split is not None})
        names = ", ".join((*OWN_SPLITS, *present))
        raise DataError(f"{source} has no split {split!r}; it has {names}")
    return chosen


def _belongs(example: LabelledExample, split: str) -> bool:
    if split == "all":
        return True
    if split in ("fit", "dev"):
        return example.split != "test" and is_dev(example.group) == (split == "dev")
    return example.split == split
