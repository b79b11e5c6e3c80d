"""RAGBench's published annotations as answers of an annotator: checks, labels, and the file."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.annotation.annotate_run import lines, run, write_log
from trivet.annotation.answer import KeyedExample, read_answer
from trivet.labelled.labelled_jsonl import read_jsonl
from trivet.labelled.ragbench import COLUMNS, read_ragbench
from trivet.labelled.ragbench_labels import bare_key
from trivet.labelled.source_files import read_published
from trivet.records import LabelledExample, Labels

RAGBENCH = os.environ.get("TRIVET_RAGBENCH", "")
pytestmark = pytest.mark.skipif(
    not RAGBENCH, reason="TRIVET_RAGBENCH names no folder of RAGBench's files"
)
SHARE_CONSISTENT = 0.94  # of the published annotations; the others contradict themselves


def published(limit: int | None) -> Iterator[tuple[LabelledExample, dict[str, Any]]]:
    """Yield examples with the published annotation as an annotator would write it."""
    examples = {each.example.id: each for each in read_ragbench(RAGBENCH)[0]}
    taken: Counter[str] = Counter()
    for row in read_published(RAGBENCH, COLUMNS, {}):
        values = row.values
        name = f"{row.part}/{row.split}/{values['id']}/{values['generation_model_name']}"
        if name in examples and (limit is None or taken[row.part] < limit):
            taken[row.part] += 1
            yield examples[name], answer_of(values)


def answer_of(values: Mapping[str, Any]) -> dict[str, Any]:
    unsupported = set(map(bare_key, values["unsupported_response_sentence_keys"]))
    support = [
        {
            "response_sentence_key": each["response_sentence_key"],
            "explanation": each["explanation"] or "",
            "supporting_sentence_keys": list(each["supporting_sentence_keys"] or ()),
            "fully_supported": bare_key(each["response_sentence_key"]) not in unsupported,
        }
        for each in values["sentence_support_information"]
    ]
    return {
        "relevance_explanation": "",
        "all_relevant_sentence_keys": list(values["all_relevant_sentence_keys"]),
        "overall_supported_explanation": "",
        "overall_supported": values["adherence_score"],
        "sentence_support_information": support,
        "all_utilized_sentence_keys": list(values["all_utilized_sentence_keys"]),
    }


@pytest.mark.slow
def test_published_annotations_pass_the_checks_with_the_labels_that_are_read_from_them() -> None:
    passed, faults = 0, Counter[str]()
    for labelled, answer in published(None):
        keyed = KeyedExample.of(labelled.example)
        try:
            labels = read_answer(json.dumps(answer), keyed).labels(keyed)
        except ValueError as error:
            faults[str(error)[:40]] += 1
            continue
        passed += 1
        assert labels == without_scores(labelled), labelled.example.id
    assert passed / (passed + faults.total()) > SHARE_CONSISTENT, faults.most_common()


def test_the_file_of_a_run_equals_what_is_read_from_ragbench() -> None:
    answers, expected = {}, {}
    for labelled, answer in published(40):
        example = labelled.example
        plain = KeyedExample.of(replace(example, context_sentences=None, response_sentences=None))
        own = KeyedExample.of(example)
        if (plain.contexts, plain.response) == (own.contexts, own.response) and is_consistent(
            own, answer
        ):
            question = " ".join(example.question.split())
            answers[f"Question: {question}\n"] = json.dumps(answer)
            expected[question] = labelled
    assert len(expected) >= 8
    rows = [
        {name: getattr(each.example, name) for name in ("question", "contexts", "response")}
        for each in expected.values()
    ]
    write_log(*rows)

    def script(body: dict[str, Any]) -> str:
        prompt = body["messages"][1]["content"]
        return next(answer for start, answer in answers.items() if prompt.startswith(start))

    result, _ = run(script)
    assert result.exit_code == 0, result.output
    written = read_jsonl(Path("out.jsonl"))[0]
    assert len(written) == len(lines()) == len(expected)
    for one, other in zip(written, expected.values(), strict=True):
        assert (one.example.contexts, one.example.response) == (
            other.example.contexts,
            other.example.response,
        )
        assert one.labels == without_scores(other)


def without_scores(labelled: LabelledExample) -> Labels:
    return replace(labelled.labels, relevance=None, utilization=None, completeness=None)


def is_consistent(keyed: KeyedExample, answer: dict[str, Any]) -> bool:
    try:
        read_answer(json.dumps(answer), keyed)
    except ValueError:
        return False
    return True
