"""Which spans of a trace are its question, its documents and its answer."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from trivet.errors import ExampleError
from trivet.logs.trace_examples import Document, TraceSpan, trace_example

DOCUMENTS = (Document("Lamps burn whale oil.", "a"), Document("Ships pass at night.", "b"))


def span(name: str, parent: str | None = "root", kind: Any = "chain", **more: Any) -> TraceSpan:
    return TraceSpan("t", name, parent, kind, **more)


ROOT = span("root", None, question="What do lamps burn?", answer="Whale oil.")
SEARCH = span("search", kind="retriever", question="lamps", documents=DOCUMENTS, start=1.0)
MODEL = span("model", kind="llm", question="Passages...", answer="Oil.", start=2.0)


def test_the_root_has_question_and_answer() -> None:
    example = trace_example([MODEL, SEARCH, ROOT])
    assert (example.question, example.answer) == ("What do lamps burn?", "Whale oil.")
    assert example.documents == DOCUMENTS
    assert (example.trace, example.span) == ("t", "root")


def test_without_texts_at_the_root_the_query_and_the_last_model_count() -> None:
    root = span("root", None)
    rewriting = span("rewriting", "search", "llm", question="?", answer="lamps oil", start=3.0)
    example = trace_example([root, SEARCH, MODEL, rewriting])
    assert (example.question, example.answer) == ("lamps", "Oil.")


def test_a_trace_may_begin_in_another_service() -> None:
    caller = dataclasses.replace(ROOT, parent="elsewhere")
    assert trace_example([caller, SEARCH, MODEL]).answer == "Whale oil."
    example = trace_example([SEARCH, MODEL])
    assert (example.span, example.question, example.answer) == ("search", "lamps", "Oil.")


def test_the_outermost_retriever_and_each_text_once() -> None:
    inner = span("inner", "search", "retriever", documents=(Document("Not returned."),))
    again = span("again", kind="retriever", documents=DOCUMENTS[:1], start=4.0)
    empty = span("empty", None, "retriever")
    outer = dataclasses.replace(SEARCH, parent="empty")
    assert trace_example([ROOT, outer, inner, again, empty]).documents == DOCUMENTS


def test_a_reranker_decides_which_documents_the_model_read() -> None:
    reranker = span("reranker", kind="reranker", documents=DOCUMENTS[1:], start=1.5)
    example = trace_example([ROOT, SEARCH, reranker])
    assert example.documents == DOCUMENTS[1:]


def test_without_a_retriever_the_documents_of_the_outermost_chain_count() -> None:
    chain = span("chain", documents=DOCUMENTS[1:])
    root = dataclasses.replace(ROOT, documents=DOCUMENTS[:1])
    assert trace_example([root, chain]).documents == DOCUMENTS[:1]
    assert trace_example([ROOT, chain]).documents == DOCUMENTS[1:]
    assert trace_example([root, SEARCH]).documents == DOCUMENTS


def test_a_span_that_was_exported_twice_counts_once() -> None:
    newer = dataclasses.replace(ROOT, answer="Whale oil, until 1860.")
    assert trace_example([ROOT, SEARCH, newer, SEARCH]).answer == "Whale oil, until 1860."


def test_several_roots_are_the_steps_of_one_conversation() -> None:
    second = span("second", None, question="And now?", answer="Light bulbs.", start=9.0)
    example = trace_example([ROOT, SEARCH, second])
    assert (example.question, example.answer) == ("What do lamps burn?", "Light bulbs.")


def test_a_deep_trace_takes_no_more_than_its_spans() -> None:
    deep = [span(f"s{number}", f"s{number - 1}") for number in range(1, 20_000)]
    first = span("s0", "root")
    example = trace_example([*reversed(deep), first, SEARCH, ROOT])
    assert example.answer == "Whale oil."


NAMED = dataclasses.replace(SEARCH, documents=(Document(None, "a"), Document(None, "b")))
REFUSED = {
    "no documents": ([ROOT, MODEL], "no_documents", "no documents in its 2 spans"),
    "names only": ([ROOT, NAMED], "no_documents", "2 documents without text"),
    "a part is missing": (
        [ROOT, dataclasses.replace(SEARCH, parent="lost")],
        "incomplete_trace",
        "exported in part: 1 span missing, such as lost",
    ),
    "only the search": ([SEARCH], "incomplete_trace", "no answer in its 1 span "),
    "two parts": (
        [SEARCH, dataclasses.replace(MODEL, parent="other")],
        "incomplete_trace",
        "2 spans missing",
    ),
    "still running": (
        [dataclasses.replace(ROOT, ended=False), SEARCH],
        "incomplete_trace",
        "ended",
    ),
    "a circle": ([dataclasses.replace(ROOT, parent="search"), SEARCH], "incomplete_trace", "cycle"),
}


@pytest.mark.parametrize(("spans", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_a_trace_that_cannot_be_judged_says_why(
    spans: list[TraceSpan], code: str, message: str
) -> None:
    with pytest.raises(ExampleError, match=message) as refused:
        trace_example(spans)
    assert refused.value.code == code
