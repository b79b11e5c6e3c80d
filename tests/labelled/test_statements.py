"""The statements of the project: four right and four wrong answers each, not told by words."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from trivet.data.sentence_features import content_words
from trivet.labelled.labelled_jsonl import read_jsonl
from trivet.measures.intervals import auroc
from trivet.records import LabelledExample

ROWS = Path(__file__).parents[2] / "training_data" / "statements.jsonl.xz"


@pytest.fixture(scope="module")
def rows() -> list[LabelledExample]:
    examples, report = read_jsonl(ROWS)
    assert not report.dropped
    return examples


def test_each_statement_has_four_right_and_four_wrong_answers(rows: list[LabelledExample]) -> None:
    groups: defaultdict[str, list[LabelledExample]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    assert len(groups) >= 2000
    for own in groups.values():
        assert Counter(row.labels.adherent for row in own) == {True: 4, False: 4}
        assert len({row.example.contexts for row in own}) == 1
        for row in own:
            marked = row.labels.unsupported
            assert bool(marked) is (row.labels.adherent is False)


def test_counting_words_tells_nothing(rows: list[LabelledExample]) -> None:
    shares = []
    for row in rows:
        known = {word for text in row.example.contexts for word in content_words(text)}
        words = content_words(row.example.response)
        shares.append(sum(word in known for word in words) / max(1, len(words)))
    right = np.array([bool(row.labels.adherent) for row in rows])
    area = auroc(np.array(shares), right)(np.ones((1, len(rows))))
    assert 0.45 < float(area[0]) <= 0.55
