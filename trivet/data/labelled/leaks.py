"""Texts that training and test rows share.

Texts are compared by their words: case, punctuation and white space differ between data sets that
hold the same text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from trivet.data.labelled.grouping import digest
from trivet.records import LabelledExample

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
        place = row.source, row.group
        if place in known:
            reasons[place] = 0
        elif not _passages(row).isdisjoint(passages):
            reasons[place] = min(reasons.get(place, 1), 1)
        elif _question(row) in questions:
            reasons.setdefault(place, 2)
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
