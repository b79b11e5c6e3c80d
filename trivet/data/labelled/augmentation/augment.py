"""Random alterations of training rows, each drawn by (seed, epoch, row); labels stay true.

After Luna (arXiv 2406.00975, 3.3): contexts dropped, foreign contexts inserted, questions and
responses exchanged. Our own: contexts reordered, responses cut or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from trivet.data.labelled.augmentation.altered_contexts import (
    drop_contexts,
    insert_contexts,
    permute_contexts,
)
from trivet.data.labelled.augmentation.altered_responses import (
    cut_response,
    empty_response,
    take_pair,
)
from trivet.data.sentences import split_sentences
from trivet.records import LabelledExample, Labels

_MOST_FOREIGN = 3  # passages inserted into one example
_FOREIGN_CHARACTERS = 2000  # length of a foreign passage, unless the contexts together are longer
_LOOKS = 8  # rows drawn in search of an unrelated one


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Probability of each alteration of a row, in [0, 1]; they are drawn independently.

    Attributes:
        drop_contexts: Leave out some contexts, never all.
        insert_contexts: Insert contexts of an unrelated row.
        shuffle: Replace question and response by those of an unrelated row of the batch.
        permute_contexts: Reorder the contexts.
        cut_response: Keep the first sentences of the response.
        empty_response: Remove the response.
    """

    drop_contexts: float = 0.0
    insert_contexts: float = 0.0
    shuffle: float = 0.0
    permute_contexts: float = 0.0
    cut_response: float = 0.0
    empty_response: float = 0.0

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} ({value}) must be a probability in [0, 1]")

    @property
    def alters(self) -> bool:
        """Whether anything is ever altered."""
        return any(astuple(self))


@dataclass(frozen=True, slots=True)
class _Draw:
    """Input of one row's alterations; ``present`` lists the rows whose texts it has by now."""

    batch: Sequence[LabelledExample]
    pool: Sequence[LabelledExample]
    random: np.random.Generator
    present: list[LabelledExample]


def augment_batch(
    examples: Sequence[LabelledExample],
    rows: Sequence[int],
    augmentation: Augmentation,
    seed: int,
    epoch: int,
    pool: Sequence[LabelledExample],
) -> list[LabelledExample]:
    """Alter the examples of one batch.

    An alteration is skipped if it is impossible (one context, one sentence, no unrelated row) or
    if it would leave no label; a row that is not altered is returned as the same object.

    Args:
        examples: The unaltered batch.
        rows: Index of each example in the training data.
        augmentation: Probabilities.
        seed: Seed of the run.
        epoch: Epoch, counted from 0.
        pool: Rows for foreign contexts, and for pairs if the batch has no unrelated row.
    """
    return [
        _augment(
            example,
            augmentation,
            _Draw(examples, pool, np.random.default_rng((seed, epoch, row)), [example]),
        )
        for example, row in zip(examples, rows, strict=True)
    ]


def _augment(example: LabelledExample, augmentation: Augmentation, draw: _Draw) -> LabelledExample:
    chances = draw.random.random(
        len(_ALTERATIONS)
    )  # drawn at once, so that no probability affects another draw
    for (name, alter), chance in zip(_ALTERATIONS.items(), chances, strict=True):
        if chance < getattr(augmentation, name):
            altered = alter(example, draw)
            if altered.labels != Labels():
                example = altered
    return example


def _shuffle(example: LabelledExample, draw: _Draw) -> LabelledExample:
    other = _draw_unrelated(draw.batch, draw) or _draw_unrelated(draw.pool, draw)
    return example if other is None else take_pair(example, other)


def _drop(example: LabelledExample, draw: _Draw) -> LabelledExample:
    count = len(example.example.contexts)
    if count < 2:
        return example
    kept = draw.random.permutation(count)[: draw.random.integers(1, count)]
    return drop_contexts(example, kept.tolist())


def _insert(example: LabelledExample, draw: _Draw) -> LabelledExample:
    other = _draw_unrelated(draw.pool, draw)
    if other is None:
        return example
    theirs, given = other.example.contexts, other.example.context_sentences
    longest = max(_FOREIGN_CHARACTERS, sum(map(len, example.example.contexts)))
    fit = [place for place, text in enumerate(theirs) if len(text) <= longest]
    if not fit:
        return example
    most = min(_MOST_FOREIGN, len(fit))
    chosen = draw.random.permutation(fit)[: draw.random.integers(1, most + 1)].tolist()
    places = draw.random.integers(0, len(example.example.contexts) + 1, len(chosen))
    return insert_contexts(
        example,
        [theirs[place] for place in chosen],
        places.tolist(),
        None if given is None else [given[place] for place in chosen],
    )


def _permute(example: LabelledExample, draw: _Draw) -> LabelledExample:
    count = len(example.example.contexts)
    if count < 2:
        return example
    return permute_contexts(example, draw.random.permutation(count).tolist())


def _cut(example: LabelledExample, draw: _Draw) -> LabelledExample:
    texts = example.example
    count = len(texts.response_sentences or split_sentences(texts.response))
    if count < 2:
        return example
    return cut_response(example, int(draw.random.integers(1, count)))


def _empty(example: LabelledExample, draw: _Draw) -> LabelledExample:
    return empty_response(example)


def _draw_unrelated(others: Sequence[LabelledExample], draw: _Draw) -> LabelledExample | None:
    """Draw a row unrelated to all that are present, preferably of the same source."""
    found: LabelledExample | None = None
    for place in draw.random.integers(0, len(others), _LOOKS).tolist() if others else ():
        other: LabelledExample = others[place]
        if any(are_related(other, present) for present in draw.present):
            continue
        if other.source == draw.present[0].source:
            found = other
            break
        found = found or other
    if found is not None:
        draw.present.append(found)
    return found


def are_related(one: LabelledExample, other: LabelledExample) -> bool:
    """Tell whether the contexts of one example may support or answer texts of the other.

    One question may be used for many groups ("Summarize the following"): it relates rows only if
    they have relevance labels.
    """
    here, there = one.example, other.example
    has_relevance = one.labels.relevant is not None or other.labels.relevant is not None
    return (
        one.group == other.group
        or not set(here.contexts).isdisjoint(there.contexts)
        or (bool(here.response.strip()) and here.response == there.response)
        or (has_relevance and bool(here.question.strip()) and here.question == there.question)
    )


_ALTERATIONS: dict[str, Callable[[LabelledExample, _Draw], LabelledExample]] = {
    "shuffle": _shuffle,  # first: the others treat the new pair like the old one
    "drop_contexts": _drop,
    "insert_contexts": _insert,
    "permute_contexts": _permute,
    "cut_response": _cut,
    "empty_response": _empty,
}
