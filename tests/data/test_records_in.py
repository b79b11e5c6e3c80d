"""Rows to be judged: other tools' names, and every way a row can be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trivet.data.records_in import read_rag_examples
from trivet.records import DataError, FailedEvaluation, RagExample

EXPECTED = RagExample(
    question="How hot is it?", contexts=("Cone six.", "It cools."), response="Very.", id="k1"
)


def read(*rows: Any, **mapping: str) -> list[RagExample | FailedEvaluation]:
    lines = [row if isinstance(row, str | bytes) else json.dumps(row) for row in rows]
    return list(read_rag_examples(lines, mapping))


@pytest.mark.parametrize(
    ("question", "contexts", "response"),
    [
        ("question", "contexts", "response"),
        ("user_input", "retrieved_contexts", "response"),
        ("query", "documents", "answer"),
        ("input", "context", "actual_output"),
        ("Question", "PASSAGES", "Output"),
    ],
)
def test_the_names_of_the_common_tools(question: str, contexts: str, response: str) -> None:
    row = {
        "id": "k1",
        question: "How hot is it?",
        contexts: ["Cone six.", "It cools."],
        response: "Very.",
        "reference": "not read",
    }
    assert read(row) == [EXPECTED]


def row(**others: Any) -> dict[str, Any]:
    plain = {"id": "k1", "question": "Hot?", "contexts": ["Cone six."], "response": "Very."}
    return plain | others


def test_a_given_name_replaces_the_known_ones() -> None:
    both = row(prompt="How hot is it?", contexts=["Cone six.", "It cools."])
    assert read(both, question="prompt") == [EXPECTED]
    assert read(both, question="Prompt", id="id") == [EXPECTED]
    (failed,) = read(row(), question="prompt")
    assert isinstance(failed, FailedEvaluation)
    assert failed.code == "missing_field"


def test_a_mapping_to_a_field_we_do_not_have_is_refused_at_once() -> None:
    with pytest.raises(DataError, match="no field 'answer' to map 'x' to; ours: id, question"):
        read_rag_examples([], {"answer": "x"})


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ("One text.", ("One text.",)),
        ([], ()),
        (None, ()),
        ([{"text": "a", "score": 1}, {"Page_Content": "b"}, "c"], ("a", "b", "c")),
    ],
)
def test_the_shapes_of_contexts(contexts: Any, expected: tuple[str, ...]) -> None:
    (example,) = read(row(contexts=contexts))
    assert isinstance(example, RagExample)
    assert example.contexts == expected


def test_null_is_known_to_be_empty_and_ids_are_text() -> None:
    (example,) = read(row(question=None, response=None, id=7))
    assert example == RagExample(question="", contexts=("Cone six.",), response="", id="7")


def test_a_row_without_an_id_is_named_after_its_line() -> None:
    bare = row()
    del bare["id"]
    assert [item.id for item in read("", bare, "  \n", row(id=None))] == ["line-2", "line-4"]


@pytest.mark.parametrize(
    ("bad", "code", "message"),
    [
        ("{broken", "malformed_line", "line 2: is not JSON"),
        (b"\xff\xfe", "malformed_line", "line 2: is not UTF-8"),
        ("[" * 100_000, "malformed_line", "line 2: is not JSON"),
        ("[1]", "malformed_line", "line 2: is not a JSON object"),
        ("{}", "missing_field", "line 2: has no question (looked for question, user_input, query"),
        ({"question": "Hot?", "text": "x"}, "missing_field", "found question, text"),
        (row(query="Cold?"), "ambiguous_field", "several values for question (under question, que"),
        (row(answer="No."), "ambiguous_field", "choose a name with --map response=NAME"),
        ('{"question": "a", "question": "b"}', "ambiguous_field", "several values for question"),
        (row(question=["Hot?"]), "bad_field", "line 2: question is a list, not a string"),
        (row(response=True), "bad_field", "line 2: response is true or false, not a string"),
        (row(contexts={"a": "b"}), "bad_field", "line 2: contexts is an object, not a list"),
        (row(contexts=["a", 7]), "bad_field", "line 2: contexts[1] is a number"),
        (row(contexts=[{"title": "a"}]), "bad_field", "line 2: contexts[0] is an object"),
        (row(contexts=[None]), "bad_field", "line 2: contexts[0] is null"),
        (row(id=["a"]), "bad_field", "line 2: id is neither a string nor a number"),
    ],
)
def test_a_bad_line_fails_in_its_place_and_the_rest_is_read(
    bad: Any, code: str, message: str
) -> None:
    first, failed, last = read(row(), bad, row())
    assert isinstance(first, RagExample)
    assert isinstance(last, RagExample)
    assert isinstance(failed, FailedEvaluation)
    assert failed.code == code
    assert message in failed.message
    assert failed.message.startswith("line 2: ")


def test_a_failed_row_keeps_its_id() -> None:
    (failed,) = read(row(response=3))
    assert failed.id == "k1"


def test_the_same_said_twice_is_no_contradiction() -> None:
    (example,) = read(row(query="Hot?", user_input=None))
    assert isinstance(example, RagExample)
    assert example.question == "Hot?"


def test_lone_surrogates_and_nul_pass_through() -> None:
    (example,) = read('\ufeff{"question": "\\ud800", "contexts": "\\u0000", "response": "\u200f"}')
    assert isinstance(example, RagExample)
    assert (example.question, example.contexts) == ("\ud800", ("\x00",))


def test_reading_is_lazy() -> None:
    def lines() -> Any:
        yield json.dumps(row())
        raise AssertionError("read too far")

    assert isinstance(next(read_rag_examples(lines())), RagExample)
