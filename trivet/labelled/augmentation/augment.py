"""Random alterations of training rows, each drawn by (seed, epoch, row); labels stay true.

After Luna (arXiv 2406.00975, 3.3): contexts dropped, foreign contexts inserted, questions and
responses exchanged. Our own: contexts reordered, responses cut, removed, quoted from the
contexts, twins added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass

import numpy as np

from trivet.data.sentences import split_sentences
from trivet.errors import DataError
from trivet.labelled.augmentation import altered_contexts, altered_responses
from trivet.labelled.augmentation.altered_contexts import insert_contexts
from trivet.labelled.augmentation.removed_sentences import (
    context_sentences,
    distinct_words,
    text_of,
)
from trivet.labelled.augmentation.twins import make_twin
from trivet.records import LabelledExample, Labels, Span

_MAX_FOREIGN = 3  # passages inserted into one example
_FOREIGN_CHARACTERS = 2000  # length of a foreign passage, unless the contexts together are longer
# In order; shuffle is first because the others treat the new pair like the old one.
_ALTERATIONS = (
    *("shuffle", "quote_contexts", "drop_contexts", "insert_contexts"),
    *("permute_contexts", "cut_response", "empty_response"),
)
_MAX_QUOTED = 3  # sentences of the contexts that become a response
_QUOTED_WORDS = range(3, 41)  # distinct words of such a sentence
_LOOKS = 8  # rows drawn in search of an unrelated one


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Probability of each alteration of a row, in [0, 1]; they are drawn independently."""

    drop_contexts: float = 0.0  # leave out some contexts, never all
    insert_contexts: float = 0.0  # insert contexts of an unrelated row
    shuffle: float = 0.0  # replace question and response by those of an unrelated row of the batch
    permute_contexts: float = 0.0  # reorder the contexts
    cut_response: float = 0.0  # keep the first sentences of the response
    empty_response: float = 0.0  # remove the response
    # replace the response by sentences of the contexts; also if it is empty
    quote_contexts: float = 0.0
    # add a copy of a model's right answer with one small change (``twins``) to its batch
    twins: float = 0.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
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
    """Alter the examples of one batch and append the twins of some.

    ``rows`` are the examples' indices in the training data.

    An alteration is skipped if it is impossible (one context, one sentence, no unrelated row) or
    if it would leave no label; a row that is not altered is returned as the same object. Foreign
    contexts come from ``pool``, and pairs too if the batch has no unrelated row.
    """
    altered, twins = [], []
    for example, row in zip(examples, rows, strict=True):
        draw = _Draw(examples, pool, np.random.default_rng((seed, epoch, row)), [example])
        # Drawn at once, so that no probability affects another draw.
        chances = draw.random.random(len(_ALTERATIONS))
        for name, chance in zip(_ALTERATIONS, chances, strict=True):
            if chance < getattr(augmentation, name):
                new = _alter(name, example, draw)
                lost = new.labels == Labels() != example.labels
                example = example if lost else new
        altered.append(example)
        if draw.random.random() < augmentation.twins and _is_right_answer(example):
            other = _draw_unrelated(pool, draw)
            twins.append(make_twin(example, draw.random, other.example.contexts if other else ()))
    return [*altered, *(twin for twin in twins if twin is not None)]


def _is_right_answer(example: LabelledExample) -> bool:
    """Tell whether a model wrote the response and it is adherent.

    A changed quotation is found by comparing words; a changed answer is what must be learnt.
    """
    return example.generator is not None and example.labels.adherent is True


def _alter(name: str, example: LabelledExample, draw: _Draw) -> LabelledExample:
    """Make one alteration, or return the example if it is impossible."""
    texts, random = example.example, draw.random
    count = len(texts.contexts)
    if name == "empty_response":
        return altered_responses.empty_response(example)
    if name == "shuffle":
        other = _draw_unrelated(draw.batch, draw) or _draw_unrelated(draw.pool, draw)
        return example if other is None else altered_responses.take_pair(example, other)
    if name == "quote_contexts":
        return _quote(example, random)
    if name == "insert_contexts":
        return _insert(example, _draw_unrelated(draw.pool, draw), random)
    if name == "cut_response":
        sentences = len(texts.response_sentences or split_sentences(texts.response))
        if sentences < 2:
            return example
        return altered_responses.cut_response(example, int(random.integers(1, sentences)))
    if count < 2:
        return example
    order = random.permutation(count)
    if name == "permute_contexts":
        return altered_contexts.permute_contexts(example, order.tolist())
    return altered_contexts.drop_contexts(example, order[: random.integers(1, count)].tolist())


def _quote(example: LabelledExample, random: np.random.Generator) -> LabelledExample:
    fit = [
        sentence
        for sentence in context_sentences(example)
        if len(distinct_words(text_of(example, sentence))) in _QUOTED_WORDS
    ]
    count = min(len(fit), int(random.integers(1, _MAX_QUOTED + 1)))
    chosen = random.permutation(len(fit))[:count].tolist()
    if not chosen:
        return example
    return altered_responses.quote_contexts(example, [fit[index] for index in chosen])


def _insert(
    example: LabelledExample, other: LabelledExample | None, random: np.random.Generator
) -> LabelledExample:
    foreign = () if other is None else other.example.contexts
    longest = max(_FOREIGN_CHARACTERS, sum(map(len, example.example.contexts)))
    fit = [index for index, text in enumerate(foreign) if len(text) <= longest]
    if other is None or not fit:
        return example
    max_foreign = min(_MAX_FOREIGN, len(fit))
    chosen = random.permutation(fit)[: random.integers(1, max_foreign + 1)].tolist()
    places = random.integers(0, len(example.example.contexts) + 1, len(chosen)).tolist()
    foreign_spans = other.example.context_sentences
    sentences = None if foreign_spans is None else [foreign_spans[index] for index in chosen]
    return altered_contexts.insert_contexts(
        example, [foreign[index] for index in chosen], places, sentences
    )


def _draw_unrelated(others: Sequence[LabelledExample], draw: _Draw) -> LabelledExample | None:
    """Draw a row unrelated to all that are present, preferably of the same source."""
    unrelated: LabelledExample | None = None
    for index in draw.random.integers(0, len(others), _LOOKS).tolist() if others else ():
        other: LabelledExample = others[index]
        if any(are_related(other, present) for present in draw.present):
            continue
        if other.source == draw.present[0].source:
            unrelated = other
            break
        unrelated = unrelated or other
    if unrelated is not None:
        draw.present.append(unrelated)
    return unrelated


def are_related(labelled: LabelledExample, other: LabelledExample) -> bool:
    """Tell whether the contexts of one example may support or answer texts of the other.

    One question may be used for many groups ("Summarize the following"): it relates rows only if
    they have relevance labels.
    """
    here, there = labelled.example, other.example
    has_relevance = labelled.labels.relevant is not None or other.labels.relevant is not None
    return (
        labelled.group == other.group
        or not set(here.contexts).isdisjoint(there.contexts)
        or (bool(here.response.strip()) and here.response == there.response)
        or (has_relevance and bool(here.question.strip()) and here.question == there.question)
    )


def lengthen(rows: Sequence[LabelledExample], passages: int, seed: int) -> list[LabelledExample]:
    """Insert passages of unrelated rows among those of each row; its labels stay true.

    The same rows, seed and number always give the same texts, so that models can be compared.

    Raises:
        DataError: The unrelated rows of a row do not have enough passages.
    """
    if not passages:
        return list(rows)
    lengthened = []
    for number, row in enumerate(rows):
        random = np.random.default_rng((seed, number))
        texts: dict[str, tuple[Span, ...] | None] = {}
        for index in random.permutation(len(rows)).tolist():
            example = rows[index].example
            if len(texts) < passages and not are_related(row, rows[index]):
                spans = example.context_sentences or (None,) * len(example.contexts)
                for text, sentences in zip(example.contexts, spans, strict=True):
                    if len(texts) < passages:
                        texts.setdefault(text, sentences)
        if len(texts) < passages:
            raise DataError(
                f"row {number} ({row.group}): its unrelated rows have {len(texts)} passages, not "
                f"{passages}; request fewer foreign passages, or measure on more rows"
            )
        known = [sentences for sentences in texts.values() if sentences is not None]
        places = random.integers(0, len(row.example.contexts) + 1, passages).tolist()
        all_known = known if len(known) == passages else None
        lengthened.append(insert_contexts(row, list(texts), places, all_known))
    return lengthened
