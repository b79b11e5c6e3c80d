"""Agreement of two annotators: Cohen's kappa by field, and the weight of a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trivet.annotation.answer import Answer
from trivet.annotation.sentence_keys import KeyedExample

FIELDS: Mapping[str, str] = {
    "adherent": "responses",
    "support": "response sentences",
    "relevant": "context sentences",
    "utilized": "context sentences",
}
"""What the annotators decide, and on what."""

Pairs = Mapping[str, list[tuple[bool, bool]]]
"""The decisions of two annotators on one row, by field."""


def pair_decisions(one: Answer, other: Answer, keyed: KeyedExample) -> Pairs:
    """Return what two annotators decided on each sentence of a row."""
    ours, theirs = one.supported(), other.supported()

    def named(first: list[str], second: list[str]) -> list[tuple[bool, bool]]:
        return [(key in first, key in second) for key in keyed.contexts]

    return {
        "adherent": [(one.overall_supported, other.overall_supported)],
        "support": [(ours[key], theirs[key]) for key in keyed.response],
        "relevant": named(one.all_relevant_sentence_keys, other.all_relevant_sentence_keys),
        "utilized": named(one.all_utilized_sentence_keys, other.all_utilized_sentence_keys),
    }


def agreement(pairs: Pairs) -> dict[str, float]:
    """Return the share of equal decisions in [0, 1] by field."""
    return {
        field: sum(one == other for one, other in decisions) / len(decisions)
        for field, decisions in pairs.items()
    }


def weight(pairs: Pairs) -> float:
    """Return the weight of a row: the mean agreement on support, relevance and utilization."""
    shares = agreement(pairs)
    fields = ("support", "relevant", "utilized")
    return round(sum(shares[field] for field in fields) / len(fields), 4)


class Agreement:
    """Decisions of two annotators over all rows."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[bool, bool]]] = {name: Counter() for name in FIELDS}

    def add(self, pairs: Pairs) -> None:
        """Count the decisions on a row."""
        for field, decisions in pairs.items():
            self._counts[field].update(decisions)

    def to_dict(self) -> dict[str, dict[str, float | int | None]]:
        """Return kappa, the share of equal decisions and their number, by field."""
        return {
            field: {
                "kappa": cohen_kappa(counts),
                "agreement": (counts[True, True] + counts[False, False]) / counts.total(),
                "n": counts.total(),
            }
            for field, counts in self._counts.items()
            if counts
        }


def cohen_kappa(counts: Mapping[tuple[bool, bool], int]) -> float | None:
    """Return Cohen's kappa (1960) of two annotators, in [-1, 1].

    ``None`` if both decide the same everywhere on one side, where it is not defined.
    """
    # In whole numbers, so that agreement by chance is exactly 0.
    total = sum(counts.values())
    equal = total * (counts.get((True, True), 0) + counts.get((False, False), 0))
    first = sum(n for (one, _), n in counts.items() if one)
    second = sum(n for (_, other), n in counts.items() if other)
    chance = first * second + (total - first) * (total - second)
    return None if chance == total**2 else (equal - chance) / (total**2 - chance)
