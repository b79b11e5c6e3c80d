"""Tokenized examples with given ids, without any text; labelled examples; JSON; Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trivet.data.tokenization import IntArray, Segment, TokenizedExample
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

Sentences = Sequence[Sequence[int]]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def make_tokenized(
    question: Sequence[int], passages: Sequence[Sentences], response: Sentences
) -> TokenizedExample:
    """Return an example whose sentences have these token ids."""

    def segment(sentences: Sentences) -> tuple[Segment, IntArray]:
        ids = np.asarray([token for sentence in sentences for token in sentence], dtype=np.int64)
        number = np.repeat(np.arange(len(sentences)), [len(sentence) for sentence in sentences])
        numbers = np.arange(len(ids))
        return Segment(ids, np.stack([numbers, numbers + 1], axis=1)), number.astype(np.int64)

    owners = [number for number, passage in enumerate(passages) for _ in passage]
    context, context_sentence = segment([sentence for passage in passages for sentence in passage])
    answer, response_sentence = segment(response)
    return TokenizedExample(
        question=segment([question])[0],
        context=context,
        context_index=np.asarray(owners, dtype=np.int64)[context_sentence],
        context_sentence=context_sentence,
        context_sentence_spans=tuple(ContextSpan(owner, 0, 1) for owner in owners),
        response=answer,
        response_sentence=response_sentence,
        response_sentence_spans=(Span(0, 1),) * len(response),
        replaced_characters=0,
        example=RagExample("", ("w",) * len(passages), "w"),
        first_copy=np.arange(len(passages)),
    )


def labelled_row(
    number: int, contexts: int = 3, group: str = "", source: str = "a"
) -> LabelledExample:
    """Return an example whose first passage is relevant and used; its second sentence is wrong."""
    passages = tuple(f"Passage {number}.{n} is red." for n in range(contexts))
    answer = f"It is red, {number}. It is not blue."
    first, wrong = (ContextSpan(0, 0, len(passages[0])),), answer.index("It is not")
    labels = Labels(
        unsupported=(Span(wrong, len(answer)),),
        adherent=False,
        relevant=first,
        utilized=first,
        relevance=1 / contexts,
        utilization=1 / contexts,
        evidence=(Evidence(Span(0, wrong - 1), first),),
    )
    example = RagExample(f"What is {number}?", passages, answer, id=str(number))
    return LabelledExample(example, labels, source, group or f"group-{number}")


def write_parquet(path: Path, *rows: Mapping[str, Any]) -> None:
    """Write rows to a Parquet file, and make its folder."""
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
