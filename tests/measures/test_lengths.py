"""Measures by length: the right bucket, the right rows, the change against the shortest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.measures.verdicts import predicted, verdict
from trivet.data.tokenization import SegmentTokenizer
from trivet.measures.figures import Figure
from trivet.measures.lengths import count_tokens, measure_by_length
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import Labels, RagExample

SHORT, MIDDLE, LONG = 4_000, 5_001, 20_000


def row_of(source: str, adherent: bool, faithfulness: float, group: str) -> Prediction:
    labels = Labels(adherent=adherent, relevance=1.0)
    return predicted(labels, verdict(faithfulness, relevance=faithfulness), source, group)


def bucket_rows(source: str, wrong: int, count: int = 20) -> list[Prediction]:
    """Half hallucinated at .4; adherent at .8, but ``wrong`` of them at .2."""
    rows = [row_of(source, False, 0.4, f"{source} bad {i}") for i in range(count // 2)]
    return rows + [
        row_of(source, True, 0.2 if i < wrong else 0.8, f"{source} good {i}")
        for i in range(count // 2)
    ]


def named(figures: list[Figure]) -> dict[tuple[str, str | None, str], Figure]:
    keys = {(figure.source, figure.length, figure.measure): figure for figure in figures}
    assert len(keys) == len(figures), "two figures of one name"
    return keys


def test_figures_of_a_bucket_are_those_of_its_rows_alone() -> None:
    short = bucket_rows("logs", 0)
    middle = [
        replace(row, example=replace(row.example, group=f"long {row.example.group}"))
        for row in bucket_rows("logs", 2)
    ]
    rows = [row for pair in zip(short, middle, strict=True) for row in pair]
    by_name = named(measure_by_length(rows, [SHORT, MIDDLE] * 20, resamples=200))
    # Two of ten adherent rows stand below every hallucinated one: 8 of 10 pairs are right.
    assert by_name["logs", "0-5k", "hallucination_auroc"].value == 1.0
    long = by_name["logs", "5k-16k", "hallucination_auroc"]
    assert long.value == pytest.approx(0.8)
    assert (long.n, long.positives, long.groups) == (20, 10, 20)
    change = by_name["logs", "5k-16k", "hallucination_auroc_change"]
    assert change.value == pytest.approx(-0.2)
    assert change.low is not None and change.high is not None
    assert -0.6 < change.low < -0.2 < change.high <= 0
    assert change.note == "share of the value at 0-5k"
    assert ("logs", "0-5k", "hallucination_auroc_change") not in by_name
    assert not any(length == "over 16k" for _, length, _ in by_name)
    # The same rows alone give the same value.
    alone = {figure.measure: figure for figure in measure(middle, resamples=10)}
    for name in ("hallucination_accuracy", "hallucination_f1", "relevance_rmse"):
        assert by_name["logs", "5k-16k", name].value == alone[name].value


def test_a_family_is_pooled_and_the_shortest_bucket_with_rows_is_the_base() -> None:
    rows = bucket_rows("set/a", 0) + bucket_rows("set/b", 5)
    figures = measure_by_length(rows, [MIDDLE] * 20 + [LONG] * 20, resamples=100)
    by_name = named(figures)
    assert by_name["set/pooled", "5k-16k", "hallucination_auroc"].value == 1.0
    assert by_name["set/pooled", "over 16k", "hallucination_auroc"].value == pytest.approx(0.5)
    change = by_name["set/pooled", "over 16k", "hallucination_auroc_change"]
    assert change.value == pytest.approx(-0.5)
    assert change.note == "share of the value at 5k-16k"
    # Each set has one length alone: nothing to be compared with.
    assert {source for source, _, name in by_name if name.endswith("_change")} == {"set/pooled"}
    assert list(dict.fromkeys(figure.source for figure in figures)) == [
        "set/a",
        "set/b",
        "set/pooled",
    ]


def test_tokens_of_contexts_question_and_response_are_counted(tokenizer: SegmentTokenizer) -> None:
    contexts = ("The mill is old.", "", "It is old.")
    examples = [RagExample("What?", contexts[n % 3 :], "It. " * (n % 5)) for n in range(150)]
    counts = [
        sum(map(len, tokenizer.encode([example.question, *example.contexts, example.response])))
        for example in examples
    ]
    assert len(set(counts)) > 5 and count_tokens(iter(examples), tokenizer) == counts
