"""The table of heads names what exists elsewhere."""

from __future__ import annotations

import dataclasses

from trivet.configs.schema import LossConfig
from trivet.data.windows import Windows
from trivet.heads import CONTEXT_HEADS, DEFAULT_HEADS, HEAD_NAMES, HEADS
from trivet.model.aggregate import Outputs, heads_of, output_names, unread_inputs
from trivet.records import Evaluation, Labels, SentenceVerdict
from trivet.training.validation import MEASURES


def names(kind: type) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def test_all_that_the_table_names_exists() -> None:
    assert tuple(HEADS) == HEAD_NAMES
    settings, labels = (names(kind) for kind in (LossConfig, Labels))
    verdict = names(Evaluation) | names(SentenceVerdict)
    for name, head in HEADS.items():
        assert settings >= {*head.weights}, name
        assert labels >= {*head.labels}, name
        assert {*Windows._fields} >= {*head.inputs}, name
        assert {*Outputs._fields} >= {*head.outputs}, name
        assert verdict >= {*head.verdict}, name
        assert head.measure[1] in MEASURES, name


def test_heads_outputs_and_inputs_follow_from_one_another() -> None:
    assert (HEAD_NAMES[:3], HEAD_NAMES[1:3]) == (DEFAULT_HEADS, CONTEXT_HEADS)
    assert output_names(HEAD_NAMES) == Outputs._fields
    for name in HEAD_NAMES:
        assert heads_of(output_names([name])) == (name,)
        assert unread_inputs([name]).isdisjoint(HEADS[name].inputs)
    assert "completeness" in output_names(CONTEXT_HEADS)
    assert "completeness" not in output_names(["support", "relevance"])
