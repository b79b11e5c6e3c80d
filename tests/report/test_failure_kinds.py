"""The kinds of failure, as a truth table; limits are checked by name."""

from __future__ import annotations

import pytest

from trivet.records import ConfigError
from trivet.report.tally import CONTEXT_IGNORED, MADE_UP, RETRIEVAL_POOR, Limits

SCORES = ("faithfulness", "relevance", "utilization", "completeness")


@pytest.mark.parametrize(
    ("scores", "adherent", "kinds"),
    [
        ((0.9, 0.5, 0.5, 0.9), True, ()),
        ((0.9, 0.5, 0.5, 0.9), False, (MADE_UP,)),
        ((0.4, 0.5, 0.5, 0.9), None, (MADE_UP,)),
        ((0.1, 0.5, 0.5, 0.9), True, ()),
        ((0.9, 0.05, 0.01, 0.1), True, (RETRIEVAL_POOR,)),
        ((0.9, 0.5, 0.01, 0.9), True, (CONTEXT_IGNORED,)),
        ((0.9, 0.5, 0.5, 0.1), True, (CONTEXT_IGNORED,)),
        ((0.1, 0.05, 0.5, 0.9), False, (MADE_UP, RETRIEVAL_POOR)),
        ((None, 0.5, None, None), None, ()),
        ((None, None, None, None), None, ()),
    ],
)
def test_which_scores_are_which_kind(
    scores: tuple[float | None, ...], adherent: bool | None, kinds: tuple[str, ...]
) -> None:
    assert Limits().kinds(dict(zip(SCORES, scores, strict=True)), adherent) == kinds


def test_a_limit_of_ones_own_overrules_the_bundle() -> None:
    scores = dict.fromkeys(SCORES, 0.6)
    limits = Limits.from_words({"faithfulness": 0.7})
    assert limits.kinds(scores, True) == (MADE_UP,)
    assert "faithfulness below 0.7" in limits.meanings()[MADE_UP]


def test_a_wrong_limit_is_named() -> None:
    with pytest.raises(ConfigError, match="no score 'trust'; the scores are faithfulness,"):
        Limits.from_words({"trust": 0.5})
    with pytest.raises(ConfigError, match=r"the limit of relevance is 2; it must lie in \[0, 1\]"):
        Limits.from_words({"relevance": 2.0})
