"""Measures of peers against scikit-learn and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score

from tests.peers.rows import predicted, row
from trivet.errors import DataError
from trivet.llm.budget import Price
from trivet.measures.curves import FloatArray
from trivet.measures.figures import Figure
from trivet.peers.columns import read_columns
from trivet.peers.measures import measure_peers
from trivet.peers.peer import PeerScore
from trivet.peers.predictions import Predictions
from trivet.records import LabelledExample, Labels, RagExample, Span

RANDOM = np.random.default_rng(0)
WRONG = RANDOM.random(120) < 0.3
ROWS = [
    row(n, bool(wrong), f"toy/{'ab'[n % 2]}", f"model-{n % 4}") for n, wrong in enumerate(WRONG)
]
FIRST = np.clip(0.5 + 0.3 * RANDOM.normal(size=120) - 0.3 * WRONG, 0, 1)
SECOND = np.clip(0.5 + 0.3 * RANDOM.normal(size=120), 0, 1)


def scored(values: FloatArray) -> list[PeerScore]:
    return [PeerScore.at(0.5, float(value), seconds=1.0) for value in values]


def figures(
    peers: dict[str, Predictions], prices: dict[str, Price] | None = None
) -> dict[tuple[str, str | None, str], Figure]:
    found = measure_peers(ROWS, read_columns(ROWS, peers), peers, prices or {}, resamples=100)
    return {
        (one.measure, one.judge, ", ".join(filter(None, (one.source, one.rows)))): one
        for one in found
    }


@pytest.fixture(scope="module")
def both() -> dict[tuple[str, str | None, str], Figure]:
    return figures({"a": predicted(ROWS, scored(FIRST)), "b": predicted(ROWS, scored(SECOND))})


def test_measures_are_scikit_learns(both: dict[tuple[str, str | None, str], Figure]) -> None:
    area = roc_auc_score(WRONG, 1 - FIRST)
    assert both["auroc", "a", "toy/pooled"].value == pytest.approx(area)
    assert both["f1", "b", "toy/pooled"].value == pytest.approx(f1_score(WRONG, SECOND < 0.5))
    balanced = balanced_accuracy_score(WRONG, FIRST < 0.5)
    assert both["balanced_accuracy", "a", "toy/pooled"].value == pytest.approx(balanced)
    rates = [
        both[f"true_{sign}_rate", "a", "toy/pooled"].value for sign in ("positive", "negative")
    ]
    assert np.mean(rates) == pytest.approx(balanced)  # type: ignore[arg-type]


def test_the_mean_is_over_sources_and_a_difference_is_to_the_first_peer(
    both: dict[tuple[str, str | None, str], Figure],
) -> None:
    parts = [both["auroc", "b", f"toy/{each}"].value or 0.0 for each in "ab"]
    assert both["auroc", "b", "toy/mean"].value == pytest.approx(sum(parts) / 2)
    values = [both["auroc", peer, "toy/pooled"].value or 0.0 for peer in "ab"]
    difference = both["auroc_difference", "b", "toy/pooled"]
    assert difference.value == pytest.approx(values[1] - values[0])
    assert ("auroc_difference", "a", "toy/pooled") not in both


def test_every_measure_has_a_paired_difference_with_an_interval() -> None:
    def marked(values: FloatArray, size: int) -> list[PeerScore]:
        span = (Span(0, size),)
        return [PeerScore.at(0.5, float(value), spans=span) for value in values]

    peers = {"a": marked(FIRST, 17), "b": marked(SECOND, 12)}
    found = figures({name: predicted(ROWS, scores) for name, scores in peers.items()})
    whole = {key[0]: one for key, one in found.items() if key[1:] == ("b", "toy/pooled")}
    single = [name for name in whole if not name.endswith("_difference")]
    assert {"true_negative_rate", "kendall_tau", "span_f1"} < set(single) and len(single) == 17
    for name in single:
        assert whole[name].low is not None and whole[name].high is not None
        difference = whole[f"{name}_difference"]
        first, second = (found[name, peer, "toy/pooled"].value for peer in "ab")
        assert difference.value == pytest.approx((second or 0) - (first or 0), abs=1e-12)
        assert difference.low is not None and difference.high is not None


def test_equal_peers_differ_by_exactly_nothing_and_agree_fully() -> None:
    same = predicted(ROWS, scored(FIRST))
    found = figures({"a": same, "b": same})
    whole = [one for key, one in found.items() if key[1:] == ("b", "toy/pooled")]
    differences = [one for one in whole if one.measure.endswith("_difference")]
    assert len(differences) == 14
    for one in differences:
        assert (one.value, one.low, one.high) == (0.0, 0.0, 0.0)
    for measure in ("kappa", "flagged_overlap"):
        assert found[measure, "a and b", "toy/pooled"].value == 1.0


def test_failed_rows_are_counted_and_compared_on_the_common_rows() -> None:
    part = [
        one if n % 3 else PeerScore(None, failed="refused") for n, one in enumerate(scored(SECOND))
    ]
    found = figures({"a": predicted(ROWS, scored(FIRST)), "b": predicted(ROWS, part)})
    kept = np.arange(120) % 3 > 0
    one = found["auroc", "b", "toy/pooled"]
    assert (one.n, one.failed) == (80, 40)
    area = roc_auc_score(WRONG[kept], 1 - SECOND[kept])
    assert one.value == pytest.approx(area)
    common = found["auroc", "a", "toy/pooled, scored by all"]
    assert common.n == 80
    assert found["auroc_difference", "b", "toy/pooled"].value == pytest.approx(
        area - (common.value or 0.0)
    )
    assert found["failed", "b", "all rows"].value == pytest.approx(1 / 3)


def test_a_fitted_threshold_never_sees_the_document_it_decides() -> None:
    peers = {"a": predicted(ROWS, scored(FIRST))}
    before = read_columns(ROWS, peers).columns[0].fitted
    for group in ("doc-3", "doc-11"):
        flipped = [
            LabelledExample(
                one.example, Labels(adherent=not one.labels.adherent), one.source, one.group
            )
            if one.group == group
            else one
            for one in ROWS
        ]
        after = read_columns(flipped, peers).columns[0].fitted
        own = [n for n, one in enumerate(ROWS) if one.group == group]
        assert (before[own] == after[own]).all()


def test_spans_are_measured_by_characters() -> None:
    gold = [PeerScore.at(0.5, 0.1, spans=one.labels.unsupported) for one in ROWS]
    # Half of each span, and as many characters beside it.
    half = [
        PeerScore.at(0.5, 0.1, spans=tuple(Span(s.start - 3, s.start + 2) for s in one.spans or ()))
        for one in gold
    ]
    assert figures({"a": predicted(ROWS, gold)})["span_f1", "a", "toy/pooled"].value == 1.0
    found = figures({"a": predicted(ROWS, half)})
    for name in ("span_precision", "span_recall", "span_f1"):
        assert found[name, "a", "toy/pooled"].value == pytest.approx(2 / 5)


@pytest.mark.parametrize("price", [None, Price(2.0, 10.0)])
def test_costs_are_per_row_and_a_missing_price_leaves_dollars_out(price: Price | None) -> None:
    asked = [
        PeerScore.at(0.5, 0.4, calls=2, prompt_tokens=1000, completion_tokens=50, seconds=float(n))
        for n in range(120)
    ]
    found = figures({"a": predicted(ROWS, asked)}, {"gpt": price} if price else {})
    assert found["prompt_tokens", "a", "all rows"].value == 1000
    assert found["seconds_p50", "a", "all rows"].value == 59
    assert found["seconds_p95", "a", "all rows"].value == 113
    dollars = found.get(("dollars_per_1000_rows", "a", "all rows"))
    assert (dollars and dollars.value) == (pytest.approx(2.5) if price else None)


def test_a_peer_that_asks_no_llm_costs_nothing_beside_one_that_does() -> None:
    asked = [PeerScore.at(0.5, 0.4, calls=1, prompt_tokens=1000, seconds=1.0) for _ in ROWS]
    unknown = [PeerScore.at(0.5, 0.4) for _ in ROWS]
    peers = {"llm": predicted(ROWS, asked)}
    for name, scores in (("local", scored(FIRST)), ("stored", unknown)):
        found = predicted(ROWS, scores)
        peers[name] = replace(found, header=replace(found.header, model=""))
    costs = figures(peers, {"gpt": Price(2.0, 10.0)})
    dollars = {name: costs.get(("dollars_per_1000_rows", name, "all rows")) for name in peers}
    assert {name: one and one.value for name, one in dollars.items()} == {
        "llm": pytest.approx(2.0),
        "local": 0.0,
        "stored": None,
    }
    assert ("dollars_per_1000_rows", "local", "all rows") not in figures(peers)


def test_flips_are_rows_that_a_repeat_decides_otherwise() -> None:
    other = FIRST.copy()
    other[:12] = np.where(FIRST[:12] < 0.5, 0.9, 0.1)
    found = figures({"a": predicted(ROWS, scored(FIRST), scored(FIRST), scored(other))})
    assert found["flips", "a", "labelled rows"].value == pytest.approx(0.1)


def test_rows_without_any_verdict_label_are_refused() -> None:
    rows = [LabelledExample(RagExample("", ("c",), "r"), Labels(relevant=()), "s", "g")]
    with pytest.raises(DataError, match="none of the 1 rows says whether"):
        read_columns(rows, {"a": predicted(rows, [PeerScore(0.5)])})
