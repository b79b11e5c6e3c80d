"""Lets DeepEval's own metrics decide with Trivet instead of an LLM (``eval_mode="system_one"``).

Example: ``FaithfulnessMetric(system_one_model=TrivetSystemOne(), eval_mode="system_one")``

A System One model gets the fields of a test case and questions in words. Trivet reads no questions:
it answers those that DeepEval 4.3 asks about support and relevance, and refuses others.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from statistics import fmean
from typing import Any

from trivet.errors import ExampleError
from trivet.integrations.batching import RequestBatcher
from trivet.integrations.judge import Judge, import_tool
from trivet.records import Evaluation

Answer = Callable[[Evaluation], float | None]

_faithfulness, _relevance = attrgetter("faithfulness"), attrgetter("relevance")


def _mean_support(verdict: Evaluation) -> float | None:
    known = [s.support for s in verdict.sentences if s.support is not None]
    return fmean(known) if known else None


def _all_relevant(verdict: Evaluation) -> float | None:
    return min((value for own in _relevances(verdict) for value in own), default=None)


def _each_context_relevant(verdict: Evaluation) -> float | None:
    return min((max(own, default=0.0) for own in _relevances(verdict)), default=None)


def _relevances(verdict: Evaluation) -> list[list[float]]:
    contexts = ([s.relevance for s in context.sentences] for context in verdict.contexts)
    return [[value for value in own if value is not None] for own in contexts]


# In DeepEval's words. Where it asks for contradictions, lacking support counts as one.
_QUESTIONS: Mapping[Answer, tuple[str, ...]] = {
    _faithfulness: (
        "Every factual claim in `actual_output` is supported by the facts in `retrieval_context`.",
        "No claim in `actual_output` contradicts the facts in `retrieval_context`.",
        "Is `claim` supported by the facts in `retrieval_context`? Answer no if it contradicts "
        "them.",
        "`actual_output` agrees with every document in `context`.",
        "No statement in `actual_output` contradicts a document in `context`.",
        "Every sentence in `expected_output` can be attributed to the facts in "
        "`retrieval_context`.",
        "Can `sentence` be attributed to the facts in `retrieval_context`?",
    ),
    _mean_support: (
        "How much of `actual_output` is grounded in the facts in `retrieval_context`?",
        "How much of `actual_output` is consistent with the documents in `context`?",
        "`retrieval_context` contains the key facts needed to write `expected_output`.",
        "How much of `expected_output` can be attributed to the facts in `retrieval_context`?",
    ),
    _all_relevant: ("Every statement in `retrieval_context` is relevant to addressing `input`.",),
    _each_context_relevant: (
        "Every node in `retrieval_context` contains at least one statement relevant to addressing "
        "`input`.",
    ),
    _relevance: ("How much of `retrieval_context` is relevant to addressing `input`?",),
}
ANSWERS = {text: answer for answer, texts in _QUESTIONS.items() for text in texts}
"""Functions from the verdict to the answer in [0, 1], by the question."""


def __getattr__(name: str) -> Any:
    if name == "TrivetSystemOne":
        return _model()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _model() -> Any:
    base: Any = import_tool("deepeval.models", "deepeval").DeepEvalBaseSystemOneModel

    class TrivetSystemOne(base):
        """Decides by the verdicts of a judge, one for each text that is asked about."""

        def __init__(self, judge: Judge | None = None) -> None:
            self._batcher = RequestBatcher(judge)
            super().__init__("trivet")

        def load_model(self) -> Judge:
            return self._batcher.judge

        def get_model_name(self) -> str:
            return str(self.name)

        def decide(self, state: Any, questions: Mapping[str, Any]) -> tuple[Any, float]:
            texts = [_texts(state, one) for one in questions.values()]
            return _answers(questions, [self._batcher.evaluate(*each) for each in texts]), 0.0

        async def a_decide(self, state: Any, questions: Mapping[str, Any]) -> tuple[Any, float]:
            texts = [_texts(state, one) for one in questions.values()]
            begun = (self._batcher.evaluate_async(*each) for each in texts)
            return _answers(questions, await asyncio.gather(*begun)), 0.0

    return TrivetSystemOne


def _item(question: Any) -> Any:
    """Return the fields of a question: its words, and a claim or sentence that they are about."""
    given = question.instructions
    return given if isinstance(given, dict) else {"question": given}


def _texts(state: Mapping[str, Any], question: Any) -> tuple[Any, Any, Any]:
    """Return the question, contexts and response that a question is about."""
    item = _item(question)
    if item.get("question") not in ANSWERS:
        raise import_tool("deepeval.errors", "deepeval").DeepEvalError(
            f"Trivet answers no question {item.get('question')!r}; it decides for "
            "FaithfulnessMetric, HallucinationMetric, ContextualRecallMetric and "
            'ContextualRelevancyMetric; use eval_mode="llm" for others'
        )
    fields = {**state, **state.get("test_case", {}), **item}
    names = re.findall(r"`(\w+)`", item["question"])
    if missing := [name for name in names if name not in fields]:
        raise ExampleError(f"the test case has no {', '.join(missing)}", code="missing_field")
    first, second = sorted(names, key=lambda name: not name.endswith("context"))
    contexts, text = fields[first], fields[second]
    if isinstance(contexts, list):  # DeepEval's own objects have the text under `context`
        contexts = [one.get("context", one) if isinstance(one, dict) else one for one in contexts]
    return (text, contexts, "") if second == "input" else ("", contexts, text)


def _answers(questions: Mapping[str, Any], verdicts: list[Evaluation]) -> Any:
    """Return ``SystemOneAnswers``: probabilities of statements, and expected levels of scales."""
    schema = import_tool("deepeval.models.system_one.schema", "deepeval")
    answers = schema.SystemOneAnswers()
    for (key, question), verdict in zip(questions.items(), verdicts, strict=True):
        value = ANSWERS[_item(question)["question"]](verdict)
        if value is None:
            raise ExampleError(f"there is no answer to {question.instructions!r}: a text is empty")
        if isinstance(question, schema.NoulQuestion):
            answers.nouls[key] = schema.NoulAnswer(probability=value)
            continue
        # The expectation lies between two levels, which share the probability.
        top = len(question.levels) - 1
        below = min(int(value * top), top - 1)
        above = value * top - below
        probabilities = dict.fromkeys(range(top + 1), 0.0) | {below: 1 - above, below + 1: above}
        confidence = ((top + 1) * max(probabilities.values()) - 1) / top
        answers.scores[key] = schema.ScoreAnswer(
            score=value * top, probabilities=probabilities, confidence=confidence
        )
    return answers
