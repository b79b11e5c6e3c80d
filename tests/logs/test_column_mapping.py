"""Rows of logs: field names of other tools, and every kind of invalid row."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from trivet.errors import DataError
from trivet.logs.column_mapping import Columns, LogRow
from trivet.logs.json_rows import read_lines
from trivet.logs.log import SourceRow
from trivet.logs.recognition import read_rows
from trivet.records import FailedEvaluation, RagExample

EXPECTED = RagExample("How hot is it?", ("Cone six.", "It cools."), "Very.", id="k1")


def rows_of(*rows: Any) -> Iterator[SourceRow]:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    content = io.BytesIO("\n".join(lines).encode("utf-8", "surrogatepass"))
    for number, (line, fields) in enumerate(read_lines(content), start=1):
        yield SourceRow(number, f"line {line}", line, fields)


def read_whole(*rows: Any) -> list[LogRow]:
    return list(read_rows(rows_of(*rows), Columns()))


def read(*rows: Any, **mapping: str) -> list[RagExample | FailedEvaluation]:
    return [row.example for row in read_rows(rows_of(*rows), Columns(mapping))]


@pytest.mark.parametrize(
    ("question", "contexts", "response"),
    [
        ("question", "contexts", "response"),
        ("user_input", "retrieved_contexts", "response"),
        ("query", "documents", "answer"),
        ("input", "retrieval_context", "actual_output"),
        ("Question", "PASSAGES", "Output"),
        ("question", "Sources", "answer"),
    ],
)
def test_the_names_of_the_common_tools(question: str, contexts: str, response: str) -> None:
    row = {question: "How hot is it?", contexts: ["Cone six.", "It cools."], response: "Very."}
    assert read({"id": "k1", **row, "reference": "not read"}) == [EXPECTED]


def row(**others: Any) -> dict[str, Any]:
    plain = {"id": "k1", "question": "Hot?", "contexts": ["Cone six."], "response": "Very."}
    return plain | others


def test_a_given_name_replaces_the_known_ones() -> None:
    both = row(prompt="How hot is it?", contexts=["Cone six.", "It cools."])
    assert read(both, question="prompt") == [EXPECTED]
    assert read(both, question="Prompt", id="id") == [EXPECTED]
    _, failed = read(both, row(), question="prompt")
    assert isinstance(failed, FailedEvaluation)
    assert failed.code == "missing_field"


def test_a_mapping_to_a_field_we_do_not_have_is_refused_at_once() -> None:
    with pytest.raises(DataError, match="no field 'answer' to map 'x' to; ours: id, question"):
        Columns({"answer": "x"})


def test_null_is_known_to_be_empty_and_ids_are_text() -> None:
    (repeated,) = read(row(query="Hot?", user_input=None))
    assert isinstance(repeated, RagExample) and repeated.question == "Hot?"
    (example,) = read(row(question=None, response=None, id=7))
    assert example == RagExample(question="", contexts=("Cone six.",), response="", id="7")


@pytest.mark.parametrize(
    ("bad", "code", "message"),
    [
        ("{broken", "malformed_line", "line 2: is not JSON"),
        ("{}", "missing_field", "line 2: has no question and no contexts and no response (looked"),
        (row(answer="No."), "ambiguous_field", "choose a name with --map response=NAME"),
        (row(question=["Hot?"]), "bad_field", "line 2: question is a list, not a string"),
        (row(contexts=["a", 7]), "bad_field", "line 2: contexts[1] is a number"),
        (row(context_ids=["a", "b"]), "bad_field", "line 2: context_ids is a list of 2, not a"),
    ],
)
def test_a_bad_line_fails_alone_in_its_place(bad: Any, code: str, message: str) -> None:
    first, failed, last = read(row(), bad, row())
    assert isinstance(first, RagExample)
    assert isinstance(last, RagExample)
    assert isinstance(failed, FailedEvaluation)
    assert failed.code == code
    assert message in failed.message
    assert failed.message.startswith("line 2: ")


def test_surrogates_pass_through_where_they_are_to_be_replaced() -> None:
    line = '\ufeff{"question": "\\ud800", "contexts": "\\u0000", "response": "\u200f"}'
    (read_row,) = read_whole(line)
    assert isinstance(read_row.example, RagExample)
    assert (read_row.example.question, read_row.example.contexts) == ("\ud800", ("\x00",))


def test_ids_of_contexts_come_from_the_contexts_or_from_a_column_of_their_own() -> None:
    texts = ["Cone six.", "It cools."]
    objects = [{"text": texts[0], "id": 3}, {"text": texts[1], "title": "Kiln"}]
    mapped = read_whole(
        row(contexts=objects),
        row(contexts=texts, retrieved_context_ids=["a", 4]),
        row(contexts=objects, context_ids=["ignored", "too"]),
        row(contexts=texts),
    )
    ids = [("3", "Kiln"), ("a", "4"), ("3", "Kiln"), None]
    assert [mapped_row.context_ids for mapped_row in mapped] == ids


def test_a_log_of_another_kind_is_refused_with_the_columns_that_it_has() -> None:
    other = {"id": "a", "prompt": "Hot?", "docs": "Cone six.", "completion": "Very."}
    for rows, message in (
        ([other] * 2, "none of the first 2 rows can be read; line 1: has no question and no"),
        ([other] * 100, r"found id, prompt, docs, completion\); name the fields wit"),
        (["question,contexts"] * 64, "none of the first 64 rows can be read; line 1: is not JS"),
    ):
        with pytest.raises(DataError, match=message):
            read(*rows)
    assert len(read(*["broken"] * 63)) == 63  # so few may all be bad
    assert len(read(*[other] * 63, row())) == 64


def test_reading_is_lazy() -> None:
    def rows() -> Iterator[SourceRow]:
        yield from rows_of(row())
        raise AssertionError("read too far")

    assert isinstance(next(iter(read_rows(rows(), Columns()))).example, RagExample)


def test_a_vague_name_yields_to_a_plainer_one_and_is_metadata_then() -> None:
    (mapped,) = read_whole(row(sources="the archive"))
    assert isinstance(mapped.example, RagExample)
    assert mapped.example.contexts == ("Cone six.",)
    assert mapped.metadata == {"sources": "the archive"}


NESTED = {
    "inputs": {"question": "How hot is it?"},
    "outputs": {
        "documents": [{"page_content": "Cone six."}, {"page_content": "It cools."}],
        "messages": [{"content": "Wait."}, {"content": "Very."}],
    },
    "id": "k1",
}
PATHS = {
    "question": "inputs.question",
    "contexts": "outputs.documents[].page_content",
    "response": "outputs.messages[-1].content",
}


def test_paths_lead_into_nested_rows_and_into_cells_of_json() -> None:
    cells = {name: json.dumps(value) for name, value in NESTED.items() if name != "id"}
    columns = {
        "inputs.question": "How hot is it?",
        "outputs.documents[].page_content": ["Cone six.", "It cools."],
        "outputs.messages[-1].content": "Very.",
    }
    for written in (NESTED, {**cells, "id": "k1"}, {**columns, "id": "k1"}):
        assert read(written, **PATHS) == [EXPECTED]
    assert read(NESTED, **PATHS | {"contexts": "outputs.documents"}) == [EXPECTED]


def test_a_path_that_leads_nowhere_is_named() -> None:
    lost = {**NESTED, "outputs": {"documents": [{"page_content": "a"}, {}]}}
    mapped = read(NESTED, lost, {**NESTED, "outputs": {"documents": []}}, **PATHS)
    messages = [getattr(failed, "message", "") for failed in mapped[1:]]
    assert "documents[1] has no page_content" in messages[0]
    assert "has no response (looked for outputs.messages[-1].content" in messages[1]
