"""Long examples made by inserting foreign passages, to measure the effect of length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trivet.data.labelled.augmentation.altered_contexts import insert_contexts
from trivet.data.labelled.augmentation.augment import are_related
from trivet.errors import DataError
from trivet.records import LabelledExample, Span


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
        for place in random.permutation(len(rows)).tolist():
            example = rows[place].example
            if len(texts) < passages and not are_related(row, rows[place]):
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
