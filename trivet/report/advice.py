"""Advice about a run: what to do, in sentences, the most urgent first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trivet.measures.figures import ErrorRates
from trivet.report.tally import Column, Tally
from trivet.report.wording import ABSTAINS, NO_RESPONSE, TO_CHECK, UNSUPPORTED, count

_LONG_ANSWER = 8  # sentences of a mean answer, from which the domain of long ones is nearest


def advice(counted: Tally, errors: Sequence[ErrorRates]) -> list[str]:
    """Return sentences about the answers of a run, the judge, and groups that surely differ.

    ``errors`` are those that the judge was measured with.
    """
    sentences = [*_unsupported(counted), *_to_check(counted), *_abstaining(counted)]
    if counted.judged.any():
        sentences.append(_judge(counted, errors))
    for column in counted.columns:
        sentences += _apart(counted, column)
    if without := int(counted.kinds[NO_RESPONSE].sum()):
        sentences.append(f"{count(without, 'row')} without a response: relevance alone.")
    if failed := int(counted.failed.sum()):
        sentences.append(f"{count(failed, 'row')} without a verdict: see the failed rows below.")
    return sentences


def _unsupported(counted: Tally) -> Iterator[str]:
    answers, unsupported = int(counted.judged.sum()), counted.kinds[UNSUPPORTED]
    if not answers:
        return
    if not unsupported.any():
        yield f"None of {count(answers, 'answer')} is unsupported."
        return
    yield (
        f"{int(unsupported.sum()):,} of {count(answers, 'answer')} unsupported. Read them first; "
        "then change the prompt, the generator, or the passages that it is given."
    )


def _to_check(counted: Tally) -> Iterator[str]:
    if number := int(counted.kinds[TO_CHECK].sum()):
        yield (
            f"{count(number, 'answer')} to check: supported, but with a value, a quotation or an "
            "identifier that its sources do not have, or with support that just suffices."
        )


def _abstaining(counted: Tally) -> Iterator[str]:
    abstaining = int(counted.kinds[ABSTAINS].sum())
    answers = int(counted.judged.sum()) + abstaining
    if abstaining:
        yield (
            f"{abstaining:,} of {count(answers, 'answer')} abstain ({abstaining / answers:.0%}): "
            "they say that there is no answer. Check whether the documents contain the answer."
        )


def _judge(counted: Tally, errors: Sequence[ErrorRates]) -> str:
    """Return how often the judge errs, on the measured domain that is nearest to the answers."""
    if not errors:
        return (
            "How often this judge errs was not measured with its bundle; label 30 of these "
            "answers, and trivet test says it."
        )
    kinds: tuple[str, ...] = ("rag",)
    if counted.cites[counted.judged].mean() >= 0.5:
        kinds = ("search",)
    elif counted.sentences[counted.judged].mean() >= _LONG_ANSWER:
        kinds = ("long", "lfqa")
    near = [
        rates for rates in errors if any(kind in rates.data.casefold() for kind in kinds)
    ] or errors
    nearest = max(near, key=lambda rates: rates.supported + rates.unsupported)
    return (
        f"Expect errors: on {nearest.data} ({nearest.split}), the test set most like this log, "
        f"the judge found {_share(nearest.finds, nearest.unsupported)} of the unsupported answers "
        f"and wrongly flagged {_share(nearest.flagged, nearest.supported)} of the supported ones."
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%} ({part:,} of {whole:,})" if whole else "none (0 of 0)"


def _apart(counted: Tally, column: Column) -> Iterator[str]:
    """Yield a sentence if the best and the worst group have intervals that do not overlap."""
    means = [
        (mean, value)
        for code, value in enumerate(column.values)
        if (mean := counted.mean("faithfulness", column.codes == code)).low is not None
    ]
    if len(means) < 2:
        return
    (low, worst), *_, (high, best) = sorted(means, key=lambda pair: pair[0].value or 0.0)
    if low.high is not None and high.low is not None and low.high < high.low:
        yield (
            f"By {column.name}, faithfulness is lowest for {worst} ({low.value:.2f}) and highest "
            f"for {best} ({high.value:.2f}), and their intervals do not overlap."
        )
