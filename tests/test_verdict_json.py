"""Verdicts are read back unchanged; invalid ones are refused by the name of the field."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from trivet.errors import DataError
from trivet.records import (
    CitationMark,
    Citations,
    ContextSentence,
    ContextVerdict,
    Evaluation,
    MarkedSpan,
    SentenceVerdict,
)
from trivet.verdict_json import read_evaluation, read_scores

VERDICT = Evaluation(
    id="q7",
    faithfulness=0.25,
    supported_share=0.5,
    relevance=0.75,
    utilization=None,
    completeness=1.0,
    adherent=False,
    unsupported=(MarkedSpan(4, 9, "sinks", 0.875),),
    sentences=(SentenceVerdict(0, 10, "It\u200b sinks.", 0.25, False),),
    contexts=(
        ContextVerdict(0.75, None, (ContextSentence(0, 9, "It swims.", 0.75, None),)),
        ContextVerdict(None, None, (), "doc-7", "Mills"),
    ),
    windows=3,
    window_size=256,
    cut_question_tokens=1,
    response_chunks=2,
    replaced_characters=4,
    citations=Citations((CitationMark(3, 6, 0, True), CitationMark(3, 6, -1, False)), 0.5, None),
)
SPAN = {"start": 0, "end": 1, "text": "a", "probability": 0.5}


def record() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(VERDICT.to_json())
    return read


def test_a_verdict_survives_its_file() -> None:
    assert read_evaluation(record()) == VERDICT


def test_a_verdict_as_a_dictionary_is_what_the_standard_library_makes_of_it() -> None:
    assert VERDICT.to_dict() == dataclasses.asdict(VERDICT)


def test_fields_that_were_left_out_are_empty() -> None:
    verdict = read_evaluation({"faithfulness": 0.5})
    assert (verdict.faithfulness, verdict.relevance, verdict.contexts) == (0.5, None, ())
    assert read_scores({"relevance": 1})["relevance"] == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"faithfulness": "0.4"}, "faithfulness is '0.4', which is not a number from 0 to 1"),
        ({"adherent": "yes"}, "adherent is 'yes', which is neither true nor false"),
        ({"contexts": ["text"]}, r"contexts\[0\] must be an object"),
        ({"unsupported": [SPAN | {"text": 7}]}, "text is 7, which is not a text"),
        (
            {"unsupported": [SPAN | {"found_at": {"start": 3, "end": 1}}]},
            r"unsupported\[0\]: found_at: span \[3, 1\) of context 0",
        ),
        ({"contexts": [{"sentences": [{}]}]}, r"contexts\[0\]: sentences\[0\]"),
    ],
)
def test_what_is_no_verdict_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_evaluation(record() | change)
