"""Lets DeepEval's own metrics decide with Trivet instead of an LLM (``eval_mode="system_one"``).

Example: ``FaithfulnessMetric(system_one_model=TrivetSystemOne(), eval_mode="system_one")``

A System One model gets the fields of a test case and questions in words. Trivet reads no questions:
it answers those that DeepEval 4.3 asks about support and relevance, and refuses others.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from trivet.integrations.batching import RequestBatcher
from trivet.integrations.judge import Judge, import_tool
from trivet.records import Evaluation, ExampleError


class Reading(NamedTuple):
    """An answer to one question of DeepEval.

    Attributes:
        contexts: Field of the passages.
        response: Field of the text that they must support; "" judges the passages alone, for the
            question in the field ``input``.
        value: Function from the verdict to the answer in [0, 1].
    """

    contexts: str
    response: str
    value: Callable[[Evaluation], float | None]


def _faithfulness(verdict: Evaluation) -> float | None:
    return verdict.faithfulness


def _mean_support(verdict: Evaluation) -> float | None:
    supports = [sentence.support for sentence in verdict.sentences]
    return fmean(supports) if supports else None


def _relevance(verdict: Evaluation) -> float | None:
    return verdict.relevance


def _all_relevant(verdict: Evaluation) -> float | None:
    """Return the relevance of the least relevant sentence."""
    values = [own for context in _relevances(verdict) for own in context]
    return min(values, default=None)


def _each_context_relevant(verdict: Evaluation) -> float | None:
    """Return the least of the contexts' best sentences; a context without words has none."""
    return min((max(own, default=0.0) for own in _relevances(verdict)), default=None)


def _relevances(verdict: Evaluation) -> list[list[float]]:
    contexts = ([s.relevance for s in context.sentences] for context in verdict.contexts)
    return [[value for value in own if value is not None] for own in contexts]


READINGS: Mapping[str, Reading] = {
    # FaithfulnessMetric: two statements, a scale, and one question a claim (eval mode hybrid).
    "Every factual claim in `actual_output` is supported by the facts in `retrieval_context`.": (
        Reading("retrieval_context", "actual_output", _faithfulness)
    ),
    "No claim in `actual_output` contradicts the facts in `retrieval_context`.": (
        Reading("retrieval_context", "actual_output", _faithfulness)
    ),
    "How much of `actual_output` is grounded in the facts in `retrieval_context`?": (
        Reading("retrieval_context", "actual_output", _mean_support)
    ),
    "Is `claim` supported by the facts in `retrieval_context`? Answer no if it contradicts them.": (
        Reading("retrieval_context", "claim", _faithfulness)
    ),
    # HallucinationMetric, whose passages are the field `context`.
    "`actual_output` agrees with every document in `context`.": (
        Reading("context", "actual_output", _faithfulness)
    ),
    "No statement in `actual_output` contradicts a document in `context`.": (
        Reading("context", "actual_output", _faithfulness)
    ),
    "How much of `actual_output` is consistent with the documents in `context`?": (
        Reading("context", "actual_output", _mean_support)
    ),
    # ContextualRecallMetric: what the expected answer says must be in the passages.
    "Every sentence in `expected_output` can be attributed to the facts in `retrieval_context`.": (
        Reading("retrieval_context", "expected_output", _faithfulness)
    ),
    "`retrieval_context` contains the key facts needed to write `expected_output`.": (
        Reading("retrieval_context", "expected_output", _mean_support)
    ),
    "How much of `expected_output` can be attributed to the facts in `retrieval_context`?": (
        Reading("retrieval_context", "expected_output", _mean_support)
    ),
    "Can `sentence` be attributed to the facts in `retrieval_context`?": (
        Reading("retrieval_context", "sentence", _faithfulness)
    ),
    # ContextualRelevancyMetric
    "Every statement in `retrieval_context` is relevant to addressing `input`.": (
        Reading("retrieval_context", "", _all_relevant)
    ),
    "Every node in `retrieval_context` contains at least one statement relevant to addressing "
    "`input`.": Reading("retrieval_context", "", _each_context_relevant),
    "How much of `retrieval_context` is relevant to addressing `input`?": (
        Reading("retrieval_context", "", _relevance)
    ),
}
"""Readings by DeepEval's words. Where it asks for contradictions, lacking support counts as one."""


def __getattr__(name: str) -> Any:
    if name == "TrivetSystemOne":
        return _model()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _model() -> Any:
    base: Any = import_tool("deepeval.models", "deepeval").DeepEvalBaseSystemOneModel
    refusal: Any = import_tool("deepeval.errors", "deepeval").DeepEvalError

    class TrivetSystemOne(base):
        """Decides by the verdicts of a judge; each test case is evaluated once for all metrics."""

        def __init__(self, judge: Judge | None = None) -> None:
            self._batcher = RequestBatcher(judge)
            super().__init__("trivet")

        def load_model(self) -> Judge:
            return self._batcher.judge

        def get_model_name(self) -> str:
            return str(self.name)

        def decide(self, state: Any, questions: Mapping[str, Any]) -> tuple[Any, float]:
            asked = [_asked(state, one, refusal) for one in questions.values()]
            verdicts = [self._batcher.evaluate(*texts) for _, texts in asked]
            return _answers(questions, asked, verdicts), 0.0

        async def a_decide(self, state: Any, questions: Mapping[str, Any]) -> tuple[Any, float]:
            asked = [_asked(state, one, refusal) for one in questions.values()]
            begun = (self._batcher.evaluate_async(*texts) for _, texts in asked)
            return _answers(questions, asked, await asyncio.gather(*begun)), 0.0

    return TrivetSystemOne


_Asked = tuple[Reading, tuple[Any, Any, Any]]


def _asked(state: Mapping[str, Any], question: Any, refusal: type[Exception]) -> _Asked:
    """Return the reading of a question, and the question, contexts and response to evaluate."""
    instructions = question.instructions
    item = instructions if isinstance(instructions, dict) else {"question": instructions}
    fields = {**state, **state.get("test_case", {}), **item}
    reading = READINGS.get(item.get("question", ""))
    if reading is None:
        raise refusal(
            f"Trivet answers no question {item.get('question')!r}; it decides for "
            "FaithfulnessMetric, HallucinationMetric, ContextualRecallMetric and "
            'ContextualRelevancyMetric; use eval_mode="llm" for others'
        )
    names = (reading.contexts, reading.response or "input")
    for name in names:
        if name not in fields:
            raise ExampleError(f"the test case has no {name}", code="missing_field")
    contexts, text = (fields[name] for name in names)
    if isinstance(contexts, list):  # DeepEval's own objects have the text under `context`
        contexts = [one.get("context", one) if isinstance(one, dict) else one for one in contexts]
    return reading, (("", contexts, text) if reading.response else (text, contexts, ""))


def _answers(
    questions: Mapping[str, Any], asked: Sequence[_Asked], verdicts: Sequence[Evaluation]
) -> Any:
    """Return ``SystemOneAnswers``: probabilities of statements, and expected levels of scales."""
    schema = import_tool("deepeval.models.system_one.schema", "deepeval")
    answers = schema.SystemOneAnswers()
    rows = zip(questions.items(), asked, verdicts, strict=True)
    for (key, question), (reading, _), verdict in rows:
        value = reading.value(verdict)
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
            score=value * top, probabilities=probabilities, confidence=max(0.0, confidence)
        )
    return answers
