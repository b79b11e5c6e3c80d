"""Files that are nearly those of a tool: every row is reported in its place, none is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.logs.test_shapes import EXPORTS, FILES, LINES, TEXTS, documents, read, texts, write
from trivet.errors import DataError
from trivet.records import FailedEvaluation

# A text of the second row, to be damaged: the response, and where a shape has that twice the
# question.
TEXT_OF: dict[str, tuple[str | int, ...]] = {
    "bedrock.jsonl": (0, "conversationTurns", 1, "output", "text"),
    "columns.json": (0, "answer", "1"),
    "columns-deepeval.json": (0, "testCases", 1, "actualOutput"),
    "columns-lists.json": (0, "answer", 1),
    "columns-split.json": (0, "data", 1, 2),
    "haystack-answers.jsonl": (1, "answer_builder", "answers", 0, "query"),
    "haystack.jsonl": (1, "replies", 0),
    "langchain.jsonl": (1, "result"),
    "langchain-dumps.jsonl": (1, "result"),
    "langfuse.json": (0, 1, "output", "answer"),
    "langfuse-api.json": (0, "data", 1, "output", "answer"),
    "llama-index.jsonl": (1, "response"),
    "messages.jsonl": (1, "messages", -1, "content"),
    "messages-langchain.jsonl": (1, "messages", -1, "content"),
    "mlflow.jsonl": (1, "response"),
    "mlflow-inputs.jsonl": (1, "outputs", "response"),
    "mlflow-results.json": (0, "data", 1, 5, "response"),
    "promptfoo.json": (0, "results", "results", 1, "response", "output"),
    "ragas.jsonl": (1, "user_input", -1, "content"),
    "sharegpt.jsonl": (1, "conversations", -1, "value"),
}


def test_every_export_is_damaged() -> None:
    assert {*TEXT_OF, "langsmith.csv"} == set(FILES)


@pytest.mark.parametrize("name", TEXT_OF)
@pytest.mark.parametrize("damage", ["missing", "list"])
def test_a_row_that_is_nearly_right_fails_alone(tmp_path: Path, name: str, damage: str) -> None:
    values = documents(name)
    *steps, last = TEXT_OF[name]
    inside: Any = values
    for step in steps:
        inside = inside[step]
    if damage == "list":
        inside[last] = ["So.", 3]
    elif isinstance(last, int):
        inside[last] = {"other": "So."}
    else:
        del inside[last]
    rows = read(write(tmp_path / name, values))
    assert texts(rows[0]) == TEXTS[0]
    failed = rows[1].example
    assert isinstance(failed, FailedEvaluation), failed
    assert failed.code in ("missing_field", "bad_field")
    assert re.search("response|question|has no text", failed.message)
    assert failed.message.startswith(rows[1].location)
    assert len(rows) == 2


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("broken", ["{broken", "[1]", "{}", '{"question": 3}'])
def test_a_tenth_of_broken_rows_is_reported_in_place(
    tmp_path: Path, name: str, broken: str
) -> None:
    good = [json.dumps(value) for value in documents(name)]
    lines = [broken if number % 10 == 0 else good[number % 2] for number in range(100)]
    path = tmp_path / name
    path.write_text("\n".join(lines), encoding="utf-8")
    rows = read(path)
    assert [row.number for row in rows] == list(range(1, 101))
    for number, row in enumerate(rows):
        seen = texts(row)
        if number % 10 == 0:
            assert seen in ("malformed_line", "missing_field", "bad_field")
        else:
            assert seen == TEXTS[number % 2]


def test_a_table_with_broken_lines_keeps_the_others(tmp_path: Path) -> None:
    header, first, second = (EXPORTS / "langsmith.csv").read_text(encoding="utf-8").splitlines()
    without_answer = first.replace(",Very.,", ",,", 1)
    path = tmp_path / "langsmith.csv"
    lines = [header, *([first, second] * 4), "only,two", without_answer]
    path.write_text("\n".join(lines), encoding="utf-8")
    seen = [texts(row) for row in read(path)]
    assert seen == [*(TEXTS * 4), "malformed_line", (*TEXTS[0][:2], "")]


@pytest.mark.parametrize(
    ("name", "lost", "message"),
    [
        ("langchain.jsonl", "result", "has no response (looked for result, answer, output_text"),
        ("llama-index.jsonl", "query", "has no question (looked for query, question, query_str"),
        ("messages.jsonl", "messages", "has no question and no contexts and no response"),
        ("mlflow-inputs.jsonl", "outputs", "has no response (looked for outputs.response"),
    ],
)
def test_a_key_that_no_row_has_is_named_with_the_paths_of_the_nearest_shape(
    tmp_path: Path, name: str, lost: str, message: str
) -> None:
    values = documents(name)
    for value in values:
        del value[lost]
    with pytest.raises(DataError) as refused:
        read(write(tmp_path / name, values))
    assert "none of the first 2 rows can be read; line 1: " in str(refused.value)
    assert message in str(refused.value)
    assert "--map" in str(refused.value)
