"""All figures of the rule of choosing: answers and relevance decide, F1 and pairs are shown."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trivet.labelled.grouping import document
from trivet.measures.choosing import (
    COUNTING,
    Pair,
    SetChange,
    compare_auroc,
    compare_sets,
    draws_of_documents,
    is_kept,
    mean_change,
)
from trivet.measures.curves import FloatArray, IntArray
from trivet.measures.intervals import Draws, Estimate, average, ratio, root_mean_square
from trivet.measures.predictions import Prediction, counted_probs, response_units, verdicts_of
from trivet.measures.relevance_ranking import Method, Ranking, Units, rankings
from trivet.measures.rule_sets import ANSWERS, PAIRED, RAGBENCH, RAGTRUTH, RANKED, TOPICS
from trivet.measures.samples import true_score

_CLOSED = "gpt-"  # first letters of the generators whose weights are not open


@dataclass(frozen=True)
class RuleFigures:
    """The figures of two bundles; those of answers and of relevance end with their mean."""

    answers: Sequence[SetChange]
    relevance: Sequence[SetChange]
    shown: Sequence[SetChange]  # these do not decide

    def kept(self) -> bool:
        """Tell whether the second bundle is kept, by answers and by relevance."""
        return is_kept(self.answers) and is_kept(self.relevance)

    def to_dict(self) -> dict[str, Any]:
        """Return all figures with their intervals as plain dictionaries."""

        def plain(change: SetChange) -> dict[str, Any]:
            named = {**change.plain, "first": change.first, "second": change.second}
            estimates = {**named, "change": change.change}
            return {
                "set": change.name,
                "measure": change.measure,
                "n": change.n,
                "positives": change.positives,
                **{
                    name: [estimate.value, estimate.interval()]
                    for name, estimate in estimates.items()
                },
            }

        parts = {"answers": self.answers, "relevance": self.relevance, "shown": self.shown}
        return {"kept": self.kept()} | {
            name: [plain(change) for change in changes] for name, changes in parts.items()
        }


def measure_rule(sets: Mapping[str, Pair], methods: Mapping[str, Method]) -> RuleFigures:
    """Return the figures on the sets of `read_rule_sets`, judged by two bundles.

    ``methods`` are compared with the ranking by relevance; they need no training.
    """
    shown = [_in_order(name, *sets[name]) for name in PAIRED.values()]
    for name in RAGTRUTH.values():
        first, second = sets[name]
        at = [i for i, row in enumerate(first) if not _generator(row).startswith(_CLOSED)]
        of_open = f"{name}, open", [first[i] for i in at], [second[i] for i in at]
        shown += [_f1(name, first, second), _f1(*of_open), compare_auroc(*of_open)]
    relevance = [_ranking(name, "sentences", *sets[name], methods) for name in RANKED.values()]
    relevance.append(_ranking(TOPICS, "contexts", *sets[TOPICS], methods))
    relevance.append(_errors(RAGBENCH, *sets[RAGBENCH]))
    answers = compare_sets({name: sets[name] for name in ANSWERS})
    return RuleFigures(answers, [*relevance, mean_change(relevance)], shown)


def _generator(row: Prediction) -> str:
    return row.example.generator or ""


def _f1(name: str, first: Sequence[Prediction], second: Sequence[Prediction]) -> SetChange:
    """Return the F1 of hallucinated answers by the verdicts, at each bundle's own threshold."""
    known = [
        verdicts_of(rows, lambda labels: labels.adherent is not None, "adherent")
        for rows in (first, second)
    ]
    rows: IntArray = np.intersect1d(known[0][0], known[1][0])
    gold = np.array([first[i].example.labels.adherent is False for i in rows], dtype=float)
    draws, both = draws_of_documents(name, first), []
    for kept, verdicts, _ in known:
        judged = np.array([verdict.adherent is False for verdict in verdicts], dtype=float)
        flagged = judged[np.isin(kept, rows)]
        both.append(draws.estimate(ratio(2 * flagged * gold, flagged + gold, gold), rows))
    return SetChange(name, "F1", len(rows), int(gold.sum()), {}, *both)


def _in_order(name: str, first: Sequence[Prediction], second: Sequence[Prediction]) -> SetChange:
    """Return the share of pairs in which the right answer has the higher score; ties are half.

    A pair is a right and a wrong answer of one source and document, with the same contexts or the
    same response.
    """
    units = response_units(first), response_units(second)
    rows: IntArray = np.intersect1d(units[0].rows, units[1].rows)
    members: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows.tolist():
        members[document(first[row].example)].append(row)
    pairs = [
        pair
        for document_rows in members.values()
        for pair in itertools.permutations(document_rows, 2)
        if _is_pair(*(first[row] for row in pair))
    ]
    right, wrong = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    draws, scores = draws_of_documents(name, first), np.zeros((3, len(first)))
    scores[0, rows] = counted_probs(first, rows)
    for probs, unit in zip(scores[1:], units, strict=True):
        probs[unit.rows] = unit.probs
    counted, *both = (
        _mean(draws, right, (np.sign(probs[wrong] - probs[right]) + 1) / 2) for probs in scores
    )
    return SetChange(name, "pairs", len(pairs), None, {COUNTING: counted}, *both)


def _is_pair(right: Prediction, wrong: Prediction) -> bool:
    answer, other = right.example, wrong.example
    texts, twin = answer.example, other.example
    same = texts.response == twin.response or texts.contexts == twin.contexts
    return same and answer.labels.adherent is True and other.labels.adherent is False


def _ranking(
    name: str,
    units: Units,
    first: Sequence[Prediction],
    second: Sequence[Prediction],
    methods: Mapping[str, Method],
) -> SetChange:
    """Return the mean average precision of sentences, or how often the right context is first."""
    before, after = rankings(first, units), rankings(second, units)
    rows: IntArray = np.array(sorted(before.keys() & after.keys()), dtype=np.int64)
    earlier, ranked = ([rankings_[row] for row in rows.tolist()] for rankings_ in (before, after))
    draws = draws_of_documents(name, first)

    def quality(of: Sequence[Ranking], scores: Sequence[FloatArray]) -> Estimate:
        values = [
            ranking.quality(units, texts_scores)
            for ranking, texts_scores in zip(of, scores, strict=True)
        ]
        return _mean(draws, rows, np.array(values))

    scored = methods if ranked else {}
    plain = {method: quality(ranked, score(ranked)) for method, score in scored.items()}
    both = (
        quality(ranked_, [ranking.scores for ranking in ranked_]) for ranked_ in (earlier, ranked)
    )
    measure = "MAP" if units == "sentences" else "top-1"
    return SetChange(name, measure, len(rows), None, plain, *both)


def _errors(name: str, first: Sequence[Prediction], second: Sequence[Prediction]) -> SetChange:
    """Return 1 - RMSE of relevance: the mean over sets, and that of each set's best constant."""
    parts: defaultdict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(first):
        parts[row.example.source].append(index)
    columns: list[list[Estimate]] = [[], [], []]
    count = 0
    for source, places in parts.items():
        errors = [_relevance_errors([rows[i] for i in places]) for rows in (first, second)]
        rows: IntArray = np.array(sorted(errors[0].keys() & errors[1].keys()), dtype=np.int64)
        truth = np.array([errors[1][row][0] for row in rows.tolist()])
        of_both = (np.array([by_row[row][1] for row in rows.tolist()]) for by_row in errors)
        draws = draws_of_documents(source, [first[i] for i in places])
        for column, values in zip(columns, (truth - truth.mean(), *of_both), strict=True):
            column.append(draws.estimate(root_mean_square(values), rows))
        count += len(rows)
    constant, *both = (_one_less(average(column)) for column in columns)
    return SetChange(name, "1 - RMSE", count, None, {"constant": constant}, *both)


def _relevance_errors(rows: Sequence[Prediction]) -> dict[int, tuple[float, float]]:
    """Return the true relevance and the error of each row that has both, by position."""
    kept, verdicts, _ = verdicts_of(rows, lambda _: True, "relevance")
    errors = {}
    for row, verdict in zip(kept.tolist(), verdicts, strict=True):
        truth = true_score(rows[row].example.labels, verdict, "relevance")
        if truth is not None and verdict.relevance is not None:
            errors[row] = truth, verdict.relevance - truth
    return errors


def _one_less(estimate: Estimate) -> Estimate:
    value = None if estimate.value is None else 1 - estimate.value
    return Estimate(value, 1 - estimate.resampled)


def _mean(draws: Draws, rows: IntArray, values: FloatArray) -> Estimate:
    """Return the mean of values, each of a row of the set; a row may have several."""
    return draws.estimate(ratio(values, np.ones(len(values)), np.ones(len(values))), rows)
