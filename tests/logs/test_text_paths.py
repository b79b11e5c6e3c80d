"""Rows that no shape fits: the message has a mapping that reads them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from trivet.batch.run_settings import parse_mapping
from trivet.errors import DataError
from trivet.logs.column_mapping import Columns
from trivet.logs.recognition import read_rows
from trivet.logs.trace_log import open_log
from trivet.records import RagExample

CHAT = [
    {"role": "user", "content": "How hot?"},
    {"role": "tool", "content": "Cone six."},
    {"role": "assistant", "content": "Very."},
]
OPENAI_EVALS = {
    "object": "eval.run.output_item",
    "datasource_item": {"item": {"question": "How hot?", "docs": [{"body": "Cone six."}]}},
    "sample": {"input": CHAT[:1], "output": CHAT[2:]},
}
WEAVE = {"inputs.question": "How hot?", "inputs.context": ["Cone six."], "output.answer": "Very."}
OPIK = {"trace": {"input": {"query": "How hot?"}, "spans": [{"output": {"docs": ["Cone six."]}}]}}
OPIK["trace"]["output"] = {"generated": "Very."}
PLAIN = {"question": "How hot?", "context": ["Cone six."], "answer": "Very."}
DOTS = {"run": {"rag.question": "How hot?", "rag.docs": ["Cone six."], "rag.answer": "Very."}}


def read(row: Any, folder: Path, mapping: Any = None) -> list[Any]:
    log = folder / "log.jsonl"
    log.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return [read_row.example for read_row in read_rows(open_log(str(log)).rows(), Columns(mapping))]


@pytest.mark.parametrize(
    "row", [OPENAI_EVALS, WEAVE, OPIK, {"suite": {"cases": [PLAIN]}}, DOTS, {"conv": CHAT}]
)
def test_the_mapping_in_the_message_reads_the_row(row: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        read(row, tmp_path)
    line = re.search(r"name the fields? with (.*), in Python with", str(refused.value))
    assert line is not None
    pairs = [word for word in shlex.split(line[1]) if word != "--map"]
    (example,) = read(row, tmp_path, parse_mapping(pairs))
    assert isinstance(example, RagExample)
    texts = example.question, [text.strip("[]'\"") for text in example.contexts], example.response
    assert texts == ("How hot?", ["Cone six."], "Very.")


def test_ragchecker_s_results_are_read_by_their_names(tmp_path: Path) -> None:
    passages = [{"doc_id": "d", "text": "Cone six."}]
    result = {"query": "How hot?", "response": "Very.", "retrieved_context": passages}
    (example,) = read({"results": [result]}, tmp_path)
    texts = example.question, example.contexts, example.response
    assert texts == ("How hot?", ("Cone six.",), "Very.")


def test_contexts_in_several_columns_are_read_in_order(tmp_path: Path) -> None:
    row = {"question": "q", "C 1": "one", "C 2": '["two", "three"]', "C 3": "", "response": "r"}
    mapping = parse_mapping([f"contexts=C {number}" for number in (2, 1, 3)])
    (example,) = read(row, tmp_path, mapping)
    assert example.contexts == ("two", "three", "one")
    with pytest.raises(DataError, match="response is mapped to a and to b; choose one"):
        Columns(parse_mapping(["response=a", "response=b"]))


def test_columns_of_text_are_named_up_to_a_bound(tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        read({f"c{number}": {"deep": [[[[[["x"]]]]]]} for number in range(10_000)}, tmp_path)
    assert len(str(refused.value)) < 3000
