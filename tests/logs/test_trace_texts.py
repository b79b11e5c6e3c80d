"""Questions, answers and documents in what applications record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trivet.logs.trace_examples import Document
from trivet.logs.trace_texts import answer_in, documents_among, documents_in, question_in

MESSAGE = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "HumanMessage"],
    "kwargs": {"content": "Why?"},
}
QUESTIONS: dict[str, Any] = {
    "text": "Why?",
    "an object": {"question": "Why?", "k": 3},
    "another name": {"input": "Why?", "chat_history": []},
    "one member": {"whatever": "Why?"},
    "JSON": json.dumps({"query_bundle": {"query_str": "Why?", "embedding": None}}),
    "a conversation": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "Why?"},
    ],
    "LangChain": {"messages": [[MESSAGE]]},
    "parts": [{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}],
    "OpenAI's parts": [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}],
}


@pytest.mark.parametrize("value", QUESTIONS.values(), ids=QUESTIONS)
def test_the_question_is_found(value: Any) -> None:
    assert question_in(value) == "Why?"


ANSWERS: dict[str, Any] = {
    "an object": {"answer": "So.", "context": ["..."]},
    "a response": {"response": "So.", "source_nodes": ["..."]},
    "a message": {"role": "assistant", "content": "So."},
    "generations": {"generations": [[{"text": "So.", "message": MESSAGE}]]},
    "choices": {"choices": [{"message": {"role": "assistant", "content": "So."}}], "model": "m"},
    "an agent": {"messages": [{"type": "human", "content": "?"}, {"type": "ai", "content": "So."}]},
}


@pytest.mark.parametrize("value", ANSWERS.values(), ids=ANSWERS)
def test_the_answer_is_found(value: Any) -> None:
    assert answer_in(value) == "So."


def deep() -> Any:
    value: Any = "So."
    for _ in range(500):
        value = {"output": value}
    return value


@pytest.mark.parametrize(
    "value", [None, "", " ", 3, [], {}, {"a": 1, "b": 2}, "{}", [{"role": "tool"}], deep()]
)
def test_there_may_be_none(value: Any) -> None:
    assert answer_in(value) is None


@pytest.mark.parametrize(
    "value",
    [
        ["Oil.", "Night."],
        [{"page_content": "Oil."}, {"pageContent": "Night.", "metadata": {}}],
        {"documents": [{"content": "Oil."}, {"kwargs": {"page_content": "Night."}}]},
        json.dumps({"results": [{"text": "Oil."}, {"node": {"text": "Night."}}]}),
        {"output": ["Oil.", "Night."]},
    ],
    ids=["texts", "objects", "LangChain", "nodes", "output"],
)
def test_documents_are_found(value: Any) -> None:
    assert [document.text for document in documents_in(value)] == ["Oil.", "Night."]


def test_documents_keep_their_names_and_may_lack_texts() -> None:
    documents = documents_in([{"id": "a", "text": "Oil."}, {"id": "b", "score": 0.5}, 3])
    assert documents == (Document("Oil.", "a"), Document(None, "b"), Document(None))
    assert documents_in("no list") == documents_in(None) == documents_in({}) == ()


BESIDE: dict[str, tuple[Any, Any, Any]] = {
    "LangChain": ("Why?", {"result": "So.", "source_documents": [{"page_content": "Oil."}]}, None),
    "LlamaIndex": ({}, json.dumps({"source_nodes": [{"node": {"text": "Oil."}}]}), None),
    "plain": ({"question": "Why?", "context": ["Oil."]}, "So.", None),
    "Langfuse": ({"question": "Why?"}, {"answer": "So."}, {"contexts": ["Oil."]}),
    "MLflow": ("Why?", {"retrieved_context": [{"content": "Oil.", "doc_uri": "a"}]}, None),
}


@pytest.mark.parametrize("recorded", BESIDE.values(), ids=BESIDE)
def test_documents_among_inputs_and_outputs_are_where_a_log_has_them(
    recorded: tuple[Any, Any, Any],
) -> None:
    assert [document.text for document in documents_among(*recorded)] == ["Oil."]


def test_a_conversation_is_no_document() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert documents_among({"messages": messages}, {"answer": "So."}) == ()
    assert documents_among({"context": "a user's own"}, None) == ()
