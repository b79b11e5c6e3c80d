"""Evaluations of every kind of input. The backend is a formula."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trivet.bundle.bundle import add_files, read_bundle
from trivet.errors import ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.records import ContextName, Evaluation, FailedEvaluation, RagExample, Span

CONTEXTS = ["The old mill was built in 1817. It is made of stone.", "The ferry is red."]


def numbers_of(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers_of(item)
    elif isinstance(value, float):
        yield value


def check_laws(verdict: Evaluation, contexts: list[str], response: str) -> None:
    """Check laws of every verdict: numbers in range, and every text part of the given one."""
    assert all(0.0 <= number <= 1.0 for number in numbers_of(verdict.to_dict()))
    json.loads(verdict.to_json())
    assert len(verdict.contexts) == len(contexts)
    judged: list[Sequence[Any]] = [verdict.sentences, verdict.unsupported]
    judged += [context.sentences for context in verdict.contexts]
    for parts, text in zip(judged, [response, response, *contexts], strict=True):
        end = 0
        for part in parts:
            assert end <= part.start < part.end <= len(text)
            assert part.text == text[part.start : part.end]
            end = part.end


def test_the_verdict_and_its_citations_have_the_names_of_the_contexts(judge: Evaluator) -> None:
    named = [
        {"text": CONTEXTS[0], "id": "doc-7", "title": "Smith (2020): Mills", "metadata": {"n": 1}},
        CONTEXTS[1],
    ]
    response = "The mill is old [doc-7]. It was built in 1817 (Smith 2020)."
    verdict = judge.evaluate("When?", named, response)
    names = [(context.id, context.title) for context in verdict.contexts]
    assert names == [("doc-7", "Smith (2020): Mills"), (None, None)]
    assert verdict.citations is not None
    assert [mark.context for mark in verdict.citations.marks] == [0, 0]
    assert judge.evaluate("When?", CONTEXTS, response).citations is None
    (row,) = judge.evaluate_many([{"question": "", "contexts": named, "response": response}])
    assert isinstance(row, Evaluation)
    assert row.citations is not None
    wrong = RagExample("", tuple(CONTEXTS), "Old.", context_names=(ContextName("doc-7"),))
    (failed,) = judge.evaluate_many([wrong])
    assert isinstance(failed, FailedEvaluation)
    assert "1 for 2 contexts" in failed.message


class Document:
    """Holds its text as the documents of LangChain, LlamaIndex and Haystack do, and is iterable."""

    def __init__(self, name: str, text: str) -> None:
        setattr(self, name, text)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(vars(self).items())


@pytest.mark.parametrize("name", ["page_content", "content", "text"])
def test_contexts_may_be_objects_with_a_text(judge: Evaluator, name: str) -> None:
    response = "The mill is old. It was built of wood."
    plain = judge.evaluate("When?", CONTEXTS, response)
    assert judge.evaluate("When?", [{name: text} for text in CONTEXTS], response) == plain
    documents = [Document(name, CONTEXTS[0]), CONTEXTS[1]]
    assert judge.evaluate("When?", documents, response) == plain
    assert judge.evaluate_tokens("When?", documents, response)
    assert judge.correct("When?", documents, response).verdict == plain
    stream = judge.stream("When?", documents)
    stream.feed(response)
    assert stream.close() == plain
    row = {"question": "When?", "contexts": documents, "response": response}
    record = RagExample("When?", documents, response)  # type: ignore[arg-type]
    for example in (row, record):
        assert list(judge.evaluate_many([example])) == [plain]
    single = judge.evaluate("When?", CONTEXTS[1:], response)
    assert single == judge.evaluate("When?", CONTEXTS[1], response)
    string = RagExample("When?", CONTEXTS[1], response)  # type: ignore[arg-type]
    assert list(judge.evaluate_many([string])) == [single]


def test_without_a_response_only_relevance_is_judged(each_judge: Evaluator) -> None:
    for response in ("", " \n"):
        verdict = each_judge.evaluate("When?", CONTEXTS, response)
        assert verdict.relevance is not None
        assert verdict.faithfulness is verdict.supported_share is verdict.adherent is None
        assert verdict.utilization is verdict.completeness is None
        assert verdict.contexts[0].relevance is not None
        assert verdict.contexts[0].utilization is None
        assert verdict.contexts[0].sentences[0].utilization is None
        assert not verdict.sentences and not verdict.unsupported


@pytest.mark.parametrize("contexts", [[], [""], ["", " \t\n "], ["\u2003", "\u00a0"]])
def test_without_contexts_there_is_an_error_unless_allowed(
    each_judge: Evaluator, contexts: list[str]
) -> None:
    with pytest.raises(ExampleError, match="--allow-empty-contexts") as caught:
        each_judge.evaluate("When?", contexts, "In 1817.")
    assert caught.value.code == "empty_contexts"
    verdict = each_judge.evaluate("When?", contexts, "In 1817.", allow_empty_contexts=True)
    check_laws(verdict, contexts, "In 1817.")
    assert verdict.faithfulness is not None
    assert verdict.relevance is verdict.utilization is verdict.completeness is None
    assert all(context.relevance is None for context in verdict.contexts)
    nothing = each_judge.evaluate("", contexts, "", allow_empty_contexts=True)
    assert list(numbers_of(nothing.to_dict() | {"threshold": None})) == []


def test_a_long_question_is_cut_and_a_long_response_is_chunked(judge: Evaluator) -> None:
    question, response = "Who built the old mill? " * 20, "The mill is old. " * 40
    verdict = judge.evaluate(question, CONTEXTS, response)
    check_laws(verdict, CONTEXTS, response)
    assert verdict.cut_question_tokens == 20 * 6 - 48 // 4
    assert verdict.response_chunks > 1
    assert len(verdict.sentences) == 40
    assert verdict.windows > verdict.response_chunks


def test_a_text_that_is_too_long_is_refused_with_the_way_out(
    judge: Evaluator, formula: Any
) -> None:
    with pytest.raises(ExampleError, match=r"contexts\[1\] has 2000001 .*max_characters") as caught:
        judge.evaluate("When?", ["short", "x" * 2_000_001], "x")
    assert caught.value.code == "too_long"
    judge = Evaluator(judge.bundle.folder, backend=formula, max_windows=50)
    message = r"about \d+ windows, more than max_windows \(50\)"
    with pytest.raises(ExampleError, match=message) as caught:
        judge.evaluate("When?", ["a b " * 200], "c d " * 200)
    assert caught.value.code == "too_long"


@pytest.mark.parametrize(
    ("question", "contexts", "response", "culprit"),
    [
        ("When?", b"bytes", "x", "contexts must be a list of passages, not bytes"),
        ("When?", ["x", None], "x", r"contexts\[1\] must be a string, not NoneType"),
        ("When?", ["x", Document("n", "x")], "x", r"contexts\[1\] must be a string, not Document"),
        ("When?", {"text": "x"}, "x", r"must be a list of passages, not dict; write contexts=\["),
        ("When?", Document("text", "x"), "x", "must be a list of passages, not Document"),
        ("When?", [{"title": "Mills"}], "x", r"contexts\[0\] is an object; .* text, page_content"),
        (None, ["x"], "x", "question must be a string, not NoneType"),
        ("When?", ["x"], 3, "response must be a string, not int"),
    ],
)
def test_what_is_no_text_is_named(
    judge: Evaluator, question: Any, contexts: Any, response: Any, culprit: str
) -> None:
    with pytest.raises(ExampleError, match=culprit) as caught:
        judge.evaluate(question, contexts, response)
    assert caught.value.code == ("bad_field" if "is an object" in culprit else "invalid_row")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(max_size=40), max_size=3), st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_judged(
    each_judge: Evaluator, contexts: list[str], response: str, question: str
) -> None:
    verdict = each_judge.evaluate(question, contexts, response, allow_empty_contexts=True)
    check_laws(verdict, contexts, response)


def test_many_equal_singles_in_order(
    judge: Evaluator, formula: Any, rag_examples: tuple[RagExample, ...]
) -> None:
    singles = [judge.evaluate(e.question, e.contexts, e.response, id=e.id) for e in rag_examples]
    before = len(formula.calls)
    many = list(judge.evaluate_many(rag_examples))
    assert len(formula.calls) - before < before
    for single, result in zip(singles, many, strict=True):
        assert isinstance(result, Evaluation)
        assert result.id == single.id
        np.testing.assert_allclose(
            list(numbers_of(result.to_dict())), list(numbers_of(single.to_dict())), atol=2e-6
        )


def test_a_failure_keeps_its_place_in_the_stream(judge: Evaluator, formula: Any) -> None:
    good = RagExample("When?", tuple(CONTEXTS), "In 1817.", id="good")
    unreadable = FailedEvaluation("line-2", "malformed_line", "line 2: is not JSON")
    beyond = RagExample("When?", ("x",), "short", id="beyond", response_sentences=(Span(0, 99),))
    wrong: list[Any] = [RagExample("When?", ("x",), None)]  # type: ignore[arg-type]
    wrong += [RagExample("When?", value, "x") for value in (7, None, b"bytes")]  # type: ignore[arg-type]
    empty = RagExample("When?", (), "x", id="empty")
    examples = [good, unreadable, beyond, *wrong, empty, good]
    results = list(judge.evaluate_many(examples))
    assert [result.id for result in results] == [example.id for example in examples]
    codes = [getattr(result, "code", None) for result in results]
    refused = ["malformed_line", "bad_sentences", *["invalid_row"] * 4, "empty_contexts"]
    assert codes == [None, *refused, None]
    assert results[1] is unreadable
    assert results[0] == results[-1]
    assert "write contexts=[text]" in getattr(results[4], "message", "")


def test_a_stream_is_read_block_by_block(judge: Evaluator) -> None:
    read = 0

    def endless() -> Iterator[RagExample]:
        nonlocal read
        while True:
            read += 1
            yield RagExample("When?", ("The mill.",), "It is old.", id=str(read))

    results = judge.evaluate_many(endless())
    assert read == 0
    assert next(results).id == "1"
    assert read == 128  # the next block runs while this one is read
    for number in range(2, 66):
        assert next(results).id == str(number)
    assert read == 192


def test_brought_sentences_are_used(judge: Evaluator) -> None:
    example = RagExample(
        "When?",
        ("old mill new mill",),
        "It is old. It is red.",
        context_sentences=((Span(0, 8), Span(9, 17)),),
        response_sentences=(Span(0, 21),),
    )
    (verdict,) = judge.evaluate_many([example])
    assert isinstance(verdict, Evaluation)
    assert [sentence.text for sentence in verdict.sentences] == ["It is old. It is red."]
    assert [s.text for s in verdict.contexts[0].sentences] == ["old mill", "new mill"]
    blank = dataclasses.replace(example, response="   ", response_sentences=(Span(0, 3),))
    (verdict,) = judge.evaluate_many([blank])
    assert isinstance(verdict, Evaluation)
    assert verdict.faithfulness is None


def test_evidence_windows_need_no_new_graph(tiny_bundle: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_bundle, tmp_path / "gathered")
    info = read_bundle(folder).info
    window = replace(info.window, evidence_sentences=1)
    add_files(folder, {}, info.model_copy(update={"window": window}))
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "Examples of several windows also have evidence windows" in card
    plain, gathered = Evaluator(tiny_bundle), Evaluator(folder)
    long = ["The mill is old. " * 30, "The boat was red."]
    before, after = (
        judge.evaluate("Who?", long, "The boat was red. It is old.") for judge in (plain, gathered)
    )
    assert before.windows > 1
    assert after.windows == before.windows + 1
    assert (after.relevance, after.utilization) == pytest.approx(
        (before.relevance, before.utilization), abs=1e-5
    )
    assert after.faithfulness != before.faithfulness
    short = [judge.evaluate("Who?", ["A boat."], "A boat.") for judge in (plain, gathered)]
    assert short[0] == short[1]
