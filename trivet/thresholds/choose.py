"""Thresholds on support, chosen on labelled rows, or kept if the rows do not justify new ones.

The sentence thresholds are chosen by whole responses: one is flagged if the support of a sentence
is **below** it. The span threshold follows: the words below it are marked in
the flagged sentences, or, where there are none, the whole sentence. A threshold that replaces
another needs an AUROC above .5 with confidence.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trivet.bundle.info import Thresholds
from trivet.errors import DataError
from trivet.labelled.grouping import data_set, document
from trivet.measures.best_threshold import DEFAULT_THRESHOLD, best_threshold
from trivet.measures.curves import FloatArray
from trivet.measures.false_alarms import (
    AlarmBound,
    Alarms,
    TooFewDocuments,
    alarm_bounds,
    are_faithful,
    conformal_threshold,
    count_alarms,
    faithful_responses,
    needed_documents,
    too_small,
)
from trivet.measures.intervals import Draws, auroc
from trivet.model.architecture import Reduction
from trivet.records import LabelledExample, Labels
from trivet.settings import FALSE_ALARMS, ThresholdName
from trivet.thresholds.columns import DevScores, ScoredItems, marked_words, threshold_columns
from trivet.thresholds.fit import LinearMap, probabilities
from trivet.thresholds.joining import HeadLogits

if TYPE_CHECKING:  # it needs torch, and thresholds do not
    from trivet.labelled.datamodule import Item

logger = logging.getLogger(__name__)

_SENTENCE_CANDIDATES, _SPAN_CANDIDATES = 1000, 200  # thresholds that are tried
# Rates of false alarms of the other thresholds, as multiples of that of the default.
_CAREFUL, _STRICT = 1 / 3, 5 / 3
_RESAMPLES = 500
_UNITS = {"sentence": "responses", "span": "words"}


@dataclass(frozen=True)
class UseThreshold:
    """The threshold of one use, and its quality on the rows that chose it."""

    use: str  # sentence or span
    threshold: float | None  # None if none is justified and the bundle's is kept
    why_not: str
    precision: float | None  # unsupported share of what is flagged (characters, for spans)
    recall: float | None
    f1: float | None
    flagged: int  # responses, sentences or words
    n: int
    auroc: float | None  # of support; None with one class
    low: float | None  # lower end of its 95 % interval by groups
    high: float | None

    def words(self) -> str:
        """Return the outcome in one sentence."""
        if self.threshold is None:
            return f"{self.use}: no clean separation, {self.why_not}; the threshold is kept"
        precision = "undefined" if self.precision is None else f"{self.precision:.3f}"
        return (
            f"{self.use}: threshold {self.threshold:.4f}, precision {precision}, recall "
            f"{self.recall:.3f}, F1 {self.f1:.3f}, {self.flagged} of {self.n} "
            f"{_UNITS[self.use]} flagged"
        )


@dataclass(frozen=True)
class ChosenThresholds:
    """Thresholds with their quality on the rows that chose them."""

    thresholds: Thresholds | None  # None without a support head
    uses: tuple[UseThreshold, ...] = ()
    bounds: tuple[AlarmBound, ...] = ()  # of the data sets that chose, for a rate of false alarms
    too_few: tuple[TooFewDocuments, ...] = ()  # data sets in which this rate is not kept
    sources: tuple[Alarms, ...] = ()  # of all rows
    rate: float | None = None  # of false alarms, by which it was chosen; None: by the best F1


class Judged(NamedTuple):
    """The n labelled responses of a set, and the least support of a sentence of each."""

    rows: Sequence[LabelledExample]
    support: FloatArray  # in [0, 1] [n]


def named_thresholds(
    bounded: Sequence[Judged], rate: float, also: Sequence[Judged] = ()
) -> dict[ThresholdName, float]:
    """Return the sentence thresholds for a rate of false alarms in (0, 1); empty if none keeps it.

    ``careful`` and ``strict`` are the highest ones that keep a third and five thirds of the rate in
    each set that has enough documents, ``balanced`` of those that keep the rate the one with the
    highest mean balanced accuracy over all sets; the sets ``also`` bound none.
    """

    def highest(share: float) -> float | None:
        limits = []
        for judged in bounded:
            good = are_faithful(judged.rows)
            documents = [
                document(row) for row, is_good in zip(judged.rows, good, strict=True) if is_good
            ]
            limits.append(conformal_threshold(judged.support[good], documents, share))
        return min((limit for limit in limits if limit is not None), default=None)

    limit = highest(rate)
    if limit is None:
        return {}
    sets = [(are_faithful(judged.rows), judged.support) for judged in (*bounded, *also)]
    sets = [(good, support) for good, support in sets if good.any() and not good.all()]
    values = np.concatenate([support for _, support in sets]) if sets else np.zeros(1)
    values = np.unique(np.quantile(values, np.linspace(0, 1, _SENTENCE_CANDIDATES)))
    candidates = [*values[values < limit].tolist(), limit]

    def accuracy(threshold: float) -> float:
        return sum(
            float((support[~good] < threshold).mean() - (support[good] < threshold).mean())
            for good, support in sets
        )

    # The highest of equals.
    balanced = max(reversed(candidates), key=accuracy)
    named: dict[ThresholdName, float] = {"balanced": balanced}
    careful, strict = highest(rate * _CAREFUL), highest(min(rate * _STRICT, 0.99))
    if careful is not None:
        named["careful"] = min(careful, balanced)
    if strict is not None:
        named["strict"] = max(strict, balanced)
    return named


def choose_sentence_thresholds(
    column: ScoredItems, scores: Sequence[DevScores], false_alarms: float | None
) -> dict[ThresholdName, float]:
    """Return the named thresholds for a rate of false alarms, or without one that of best F1.

    The rate is kept in each data set that has enough documents; empty if none has.
    """
    if false_alarms is None:
        best = best_threshold(column.support, column.unsupported)
        return {"balanced": best.threshold} if best else {}
    rows = column.rows(scores)
    names = np.array([data_set(row) for row in rows])
    places = [np.flatnonzero(names == name) for name in np.unique(names)]
    return named_thresholds(
        [Judged([rows[index] for index in indices], column.support[indices]) for indices in places],
        false_alarms,
    )


def choose_span_threshold(words: ScoredItems, sentence: float) -> float | None:
    """Return the span threshold of the best F1 of marked characters, given that of sentences."""
    below = words.deciding_support < sentence
    if not (words.unsupported[below] > 0).any():
        return None
    values = np.unique(np.quantile(words.support[below], np.linspace(0, 1, _SPAN_CANDIDATES)))
    values = np.append((values[1:] + values[:-1]) / 2, 1.0)

    def f1(threshold: float) -> float:
        marked = marked_words(words, sentence, threshold)
        hits, flagged = words.unsupported[marked].sum(), words.size[marked].sum()
        return float(2 * hits / (flagged + words.unsupported.sum()))

    return float(max(values, key=f1))


def choose_thresholds(
    scores: Sequence[DevScores], false_alarms: float | None = FALSE_ALARMS
) -> Thresholds:
    """Choose the thresholds on a dev split; unknown labels are left out.

    With too few documents for the rate the sentence threshold has the best F1; with one class, a
    threshold is .5. Both are logged, and so is a data set with too few documents.
    """
    columns = threshold_columns(scores)
    responses, words = columns["sentence"], columns["span"]
    one_class = "%s threshold stays at %s: the labels of %d dev examples hold one class or none"
    wrong, named = responses.unsupported > 0, dict[ThresholdName, float]()
    if wrong.any() and not wrong.all():
        named = choose_sentence_thresholds(responses, scores, false_alarms)
        faithful = faithful_responses(responses.rows(scores), responses.support)
        for small in too_small(faithful, false_alarms):
            logger.warning("%s", small.words())
        if not named:
            logger.warning("too few dev documents for the rate of false alarms; best F1 instead")
            named = choose_sentence_thresholds(responses, scores, None)
    if not named:
        logger.warning(one_class, "sentence", DEFAULT_THRESHOLD, responses.examples)
    sentence = named.get("balanced", DEFAULT_THRESHOLD)
    span = choose_span_threshold(words, sentence)
    if span is None:
        logger.warning(one_class, "span", DEFAULT_THRESHOLD, words.examples)
        span = DEFAULT_THRESHOLD
    return Thresholds(sentence, span, named.get("careful"), named.get("strict"))


def justified_thresholds(
    scores: Sequence[DevScores], rate: float | None, kept: float = DEFAULT_THRESHOLD
) -> list[UseThreshold]:
    """Choose the sentence threshold and then that of spans, or give the reason for none.

    ``kept`` is the sentence threshold of the bundle, for the case that none is justified.
    """
    groups = [document(score.example) for score in scores]
    columns = threshold_columns(scores)
    responses, words = columns["sentence"], columns["span"]
    chosen = choose_sentence_thresholds(responses, scores, rate).get("balanced")
    none = "nothing can be flagged"
    if rate is not None:
        least = needed_documents(rate)
        none = f"no data set has {least} documents with a faithful response"
    sentence = _justified("sentence", responses, groups, chosen, none)
    deciding = kept if sentence.threshold is None else sentence.threshold
    span = choose_span_threshold(words, deciding)
    none = "no unsupported word is in an unsupported sentence"
    return [sentence, _justified("span", words, groups, span, none, deciding)]


def _justified(
    use: str,
    column: ScoredItems,
    groups: Sequence[str],
    chosen: float | None,
    none: str,
    sentence: float | None = None,
) -> UseThreshold:
    support, unsupported, size = column.support, column.unsupported, column.size
    n, wrong = len(support), unsupported > 0
    if not wrong.any() or wrong.all():
        why = f"the labels of {column.examples} examples hold one class or none"
        return UseThreshold(use, None, why, None, None, None, 0, n, None, None, None)
    draws = Draws([groups[index] for index in column.example], use, _RESAMPLES)
    area = draws.estimate(auroc(-support, wrong), np.arange(n))
    interval = area.interval()
    low, high = interval or (None, None)
    why = ""
    if interval is None:
        why = f"AUROC {area.value:.3f} has no interval: too few groups"
    elif interval[0] <= 0.5:
        why = f"AUROC {area.value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}] includes .5 or less"
    elif chosen is None:
        why = none
    if why or chosen is None:
        return UseThreshold(use, None, why, None, None, None, 0, n, area.value, low, high)
    flagged = support < chosen if sentence is None else marked_words(column, sentence, chosen)
    hits, amount, gold = unsupported[flagged].sum(), size[flagged].sum(), unsupported.sum()
    precision = float(hits / amount) if amount else None
    quality = (precision, float(hits / gold), float(2 * hits / (amount + gold)))
    return UseThreshold(use, chosen, "", *quality, int(flagged.sum()), n, area.value, low, high)


def same_share(before: ScoredItems, threshold: float, after: ScoredItems) -> float:
    """Return the threshold that flags as many items as another did before a calibration."""
    flagged = int((before.support < threshold).sum())
    ranked = np.sort(after.support)
    if not flagged:
        return float(min(threshold, ranked[0])) if len(ranked) else threshold
    above = ranked[flagged] if flagged < len(ranked) else 1.0
    middle = (ranked[flagged - 1] + above) / 2
    return float(middle if middle > ranked[flagged - 1] else above)


def dev_scores(
    items: Sequence[Item], support: HeadLogits, linear_map: LinearMap, faithfulness: Reduction
) -> Iterator[DevScores]:
    """Return each example's scores under a map of the support head's logits."""
    joined = probabilities(support, linear_map, faithfulness)
    tokens, sentences = joined.tokens, joined.sentences
    first_token = first_sentence = 0
    for item in items:
        predicted = sentences[first_sentence:], tokens[first_token:]
        yield DevScores.of(item.labelled, item.tokenized, *predicted)
        first_token += len(item.tokenized.response)
        first_sentence += len(item.tokenized.response_sentence_spans)


def choose_or_keep(
    old: Thresholds,
    before: Sequence[DevScores],
    after: Sequence[DevScores],
    sources: Sequence[str],
    rate: float | None,
) -> ChosenThresholds:
    """Return the thresholds that the rows justify; the others are kept.

    A kept threshold is moved with a changed support, so that it flags as many rows as before.
    ``sources`` are the prefixes of those that choose; all if empty.

    Raises:
        DataError: No row has such a source.
    """
    prefixes = tuple(sources) or ("",)
    places = [i for i, score in enumerate(after) if score.example.source.startswith(prefixes)]
    if not places:
        raise DataError(f"thresholds from {', '.join(prefixes)}: no row has such a source")
    was, now = (_every_column([scores[i] for i in places]) for scores in (before, after))

    def moved(use: str, value: float) -> float:
        same = np.array_equal(was[use].support, now[use].support)
        return value if same else same_share(was[use], value, now[use])

    thresholds = Thresholds(
        moved("sentence", old.sentence),
        moved("span", old.span),
        None if old.careful is None else moved("sentence", old.careful),
        None if old.strict is None else moved("sentence", old.strict),
    )
    choosing = [after[index] for index in places]
    uses = justified_thresholds(choosing, rate, thresholds.sentence)
    sentence, span = (use.threshold for use in uses)
    if sentence is not None:
        column = threshold_columns(choosing)["sentence"]
        named = choose_sentence_thresholds(column, choosing, rate)
        others = named.get("careful"), named.get("strict")
        thresholds = Thresholds(sentence, thresholds.span, *others)
    if span is not None:
        thresholds = replace(thresholds, span=span)
    responses = threshold_columns(choosing)["sentence"]
    faithful = faithful_responses(responses.rows(choosing), responses.support)
    bounds: list[AlarmBound] = []
    # A threshold that is kept, or chosen by F1, has no bound.
    if rate is not None and uses[0].threshold is not None:
        bounds = alarm_bounds(faithful, thresholds.sentence, rate)
    responses = threshold_columns(after)["sentence"]
    rows = responses.rows(after)
    names = [row.source for row in rows]
    return ChosenThresholds(
        thresholds,
        tuple(uses),
        tuple(bounds),
        tuple(too_small(faithful, rate)),
        count_alarms(names, rows, responses.support, thresholds.sentence),
        rate,
    )


def _every_column(scores: Sequence[DevScores]) -> dict[str, ScoredItems]:
    """Return the columns of all scores, as if every example had labels."""
    labels = Labels(unsupported=(), adherent=True)
    return threshold_columns(
        replace(score, example=replace(score.example, labels=labels)) for score in scores
    )
