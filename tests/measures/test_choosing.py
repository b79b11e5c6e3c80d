"""The rule of choosing between two bundles, on made-up verdicts of two sets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.measures.verdicts import FAILED, verdict
from trivet.measures.choosing import COUNTING, MEAN, compare_sets, is_kept
from trivet.measures.predictions import Prediction
from trivet.records import LabelledExample, Labels, RagExample

# The second and the last of the four are hallucinated.
ADHERENT = (True, False, True, False)
# Faithfulness of the four by the AUROC that it gives.
AUROC = {
    0.0: (0.1, 0.8, 0.2, 0.9),
    0.25: (0.3, 0.2, 0.1, 0.4),
    0.5: (0.4, 0.2, 0.1, 0.3),
    1.0: (0.8, 0.1, 0.9, 0.2),
}
# Counting words finds one wrong answer alone of two right and two wrong ones.
RESPONSES = ("foxes sleep", "dogs bark", "foxes", "owls sleep")


def judged(faithfulness: Sequence[float | None]) -> list[Prediction]:
    """Return a set of four rows; None is a failure."""
    rows = []
    for n, (value, adherent) in enumerate(zip(faithfulness, ADHERENT, strict=True)):
        texts = RagExample("q", ("Foxes and owls sleep.",), RESPONSES[n])
        example = LabelledExample(texts, Labels(adherent=adherent), "s", f"document {n}")
        rows.append(Prediction(example, FAILED if value is None else verdict(value)))
    return rows


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ((0.5, 0.5), (1.0, 0.5), True),
        ((0.5, 0.5), (0.5, 0.5), False),  # the mean must rise
        ((0.5, 0.5), (1.0, 0.25), False),  # although the mean rises
        ((1.0, 0.0), (0.5, 1.0), False),
    ],
)
def test_a_bundle_is_kept_if_the_mean_rises_and_no_set_falls(
    before: tuple[float, float], after: tuple[float, float], kept: bool
) -> None:
    pairs = zip(before, after, strict=True)
    sets = {f"set {n}": (judged(AUROC[a]), judged(AUROC[b])) for n, (a, b) in enumerate(pairs)}
    changes = compare_sets(sets)
    assert [change.name for change in changes] == ["set 0", "set 1", MEAN]
    assert [change.first.value for change in changes] == [*before, pytest.approx(sum(before) / 2)]
    assert [change.change.value for change in changes][:2] == [
        after[0] - before[0],
        after[1] - before[1],
    ]
    assert (changes[0].n, changes[0].positives, changes[-1].n) == (4, 2, 8)
    assert changes[0].plain[COUNTING].value == 0.75
    assert is_kept(changes) is kept


def test_a_set_without_a_value_decides_against_the_bundle() -> None:
    known, unknown = (
        judged(AUROC[0.5]),
        [row for row in judged(AUROC[1.0]) if row.example.labels.adherent],
    )
    changes = compare_sets({"a": (known, judged(AUROC[1.0])), "b": (unknown, unknown)})
    assert changes[1].change.value is None and (changes[-1].change.value or 0) > 0
    assert not is_kept(changes)


def test_a_row_that_one_bundle_failed_on_counts_for_neither() -> None:
    (change, _) = compare_sets({"set": (judged(AUROC[1.0]), judged((None, *AUROC[1.0][1:])))})
    assert (change.n, change.positives) == (3, 2)
    assert (change.first.value, change.second.value, change.change.value) == (1.0, 1.0, 0.0)
