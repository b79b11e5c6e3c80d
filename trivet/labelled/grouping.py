"""Groups of rows with common documents or questions, and texts that training and test rows share.

Our split is by group, never by row. Texts are compared by their words: case, punctuation and white
space differ between data sets that hold the same text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

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


def data_set(row: LabelledExample) -> str:
    """Return the data set of a row, without its component set."""
    return row.source.split("/")[0]


def document(row: LabelledExample) -> str:
    """Return the name of a row's source document, unique over data sets."""
    return f"{row.source}\n{row.group}"


def in_part(name: str, part: float = DEV_SHARE) -> bool:
    """Tell whether a name is in a part of all names (0 to 1), by default our dev split's groups.

    Depends only on the name, so the answer never changes when rows are added or reordered.
    """
    return int(digest(name), 16) < part * 2**64


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
    if split in ("fit", "dev"):
        return example.split != "test" and in_part(example.group) == (split == "dev")
    return split in ("all", example.split)


LEAST_WORDS = 5
"""Fewest words of a passage that is compared: headings occur in unrelated documents."""
GENERIC = 3
"""A question before more than this many first passages is an instruction and is not compared, such
as "Summarize the news" of RAGTruth or the clauses that CUAD asks for in every contract."""


@dataclass(frozen=True)
class Leaks:
    """Training groups that were left out because test rows share their texts, and their rows.

    A group is counted under the first of: a test row of the same group, a shared passage, a shared
    question.
    """

    rows: int = 0
    same_groups: int = 0
    passage_groups: int = 0
    question_groups: int = 0

    @property
    def groups(self) -> int:
        """Number of groups."""
        return self.same_groups + self.passage_groups + self.question_groups

    def __str__(self) -> str:
        return (
            f"{self.rows} rows of {self.groups} groups ({self.same_groups} are groups of the test "
            f"rows, {self.passage_groups} share a passage with them, {self.question_groups} a "
            "question)"
        )


def text_digests(rows: Iterable[LabelledExample]) -> frozenset[str]:
    """Return digests (16 hexadecimal digits) of the passages and questions of some rows."""
    rows = list(rows)
    generic = _generic_questions(rows)
    return frozenset().union(*(_passages(row) for row in rows), _questions(rows) - generic)


def shares_text(row: LabelledExample, digests: Set[str]) -> bool:
    """Tell whether a passage or the question of a row is among the digests of other rows."""
    return not _passages(row).isdisjoint(digests) or _question(row) in digests


def drop_leaks(
    rows: Sequence[LabelledExample], test: Sequence[LabelledExample]
) -> tuple[list[LabelledExample], Leaks]:
    """Leave out the groups of training rows that share a group, passage or question with test rows.

    Returns:
        The remaining rows in order, and the count of the others.
    """
    generic = _generic_questions([*rows, *test])
    known = {(row.source, row.group) for row in test}
    passages = frozenset[str]().union(*map(_passages, test))
    questions = _questions(test) - generic
    reasons: dict[tuple[str, str], int] = {}  # the lowest number of each group: the first reason
    for row in rows:
        group = row.source, row.group
        if group in known:
            reasons[group] = 0
        elif not _passages(row).isdisjoint(passages):
            reasons[group] = min(reasons.get(group, 1), 1)
        elif _question(row) in questions:
            reasons.setdefault(group, 2)
    kept = [row for row in rows if (row.source, row.group) not in reasons]
    counts = [list(reasons.values()).count(reason) for reason in range(3)]
    return kept, Leaks(len(rows) - len(kept), *counts)


def _generic_questions(rows: Iterable[LabelledExample]) -> set[str]:
    first: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        first[_question(row)].update(map(_digest, row.example.contexts[:1]))
    return {question for question, passages in first.items() if len(passages) > GENERIC}


def _questions(rows: Iterable[LabelledExample]) -> set[str]:
    return {_question(row) for row in rows} - {""}


def _question(row: LabelledExample) -> str:
    return _digest(row.example.question)


def _passages(row: LabelledExample) -> set[str]:
    return {_digest(text, LEAST_WORDS) for text in row.example.contexts} - {""}


def _digest(text: str, least: int = 1) -> str:
    """Return a digest of a text's words; empty if there are fewer than ``least``."""
    words = re.findall(r"\w+", text.casefold())
    return digest(" ".join(words)) if len(words) >= least else ""
