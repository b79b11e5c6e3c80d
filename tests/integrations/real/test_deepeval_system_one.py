"""DeepEval's own metrics decide by Trivet's verdicts, with no LLM."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest

from tests.integrations.conftest import CountingJudge, Rows
from trivet.errors import ExampleError
from trivet.integrations.deepeval_system_one import ANSWERS
from trivet.records import Evaluation

library = pytest.importorskip("deepeval")

METRICS = ("Faithfulness", "Hallucination", "ContextualRecall", "ContextualRelevancy")


def metric_of(name: str, judge: Any, **options: Any) -> Any:
    from trivet.integrations.deepeval_system_one import TrivetSystemOne

    make = getattr(library.metrics, f"{name}Metric")
    model = TrivetSystemOne(judge)
    return make(system_one_model=model, eval_mode="system_one", **options)


def case_of(row: dict[str, Any]) -> Any:
    return library.test_case.LLMTestCase(
        input=row["question"],
        actual_output=row["response"],
        expected_output="It was built in 1790. A king paid for it.",
        retrieval_context=row["contexts"],
        context=row["contexts"][:1],
    )


def supported(verdict: Evaluation, statements: int) -> float:
    """Return the mean of answers, the first counted twice: statements, then shares."""
    share = fmean(s.support for s in verdict.sentences if s.support is not None)
    assert verdict.faithfulness is not None
    return ((statements + 1) * verdict.faithfulness + (3 - statements) * share) / 4


def relevant(verdict: Evaluation) -> float:
    found = [[s.relevance or 0.0 for s in context.sentences] for context in verdict.contexts]
    assert verdict.relevance is not None
    return (2 * min(map(min, found)) + min(map(max, found)) + verdict.relevance) / 4


@pytest.mark.parametrize("async_mode", [False, True])
@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_the_scores_of_the_verdict(
    judge: CountingJudge, rows: Rows, name: str, async_mode: bool
) -> None:
    ask: Callable[..., Evaluation] = judge.evaluator.evaluate
    case = case_of(rows[0])
    expected = {
        "Faithfulness": lambda: supported(
            ask("", case.retrieval_context, case.actual_output), statements=2
        ),
        "Hallucination": lambda: supported(ask("", case.context, case.actual_output), statements=2),
        "ContextualRecall": lambda: supported(
            ask("", case.retrieval_context, case.expected_output), statements=1
        ),
        "ContextualRelevancy": lambda: relevant(ask(case.input, case.retrieval_context, "")),
    }
    metric = metric_of(name, judge, async_mode=async_mode)
    assert metric.measure(case, _show_indicator=False) == pytest.approx(expected[name](), abs=1e-5)
    assert "Decided by trivet" in metric.reason
    assert metric.evaluation_cost == 0.0


def test_metrics_of_one_case_share_their_evaluations(judge: CountingJudge, rows: Rows) -> None:
    made = [metric_of(name, judge) for name in METRICS]
    for one in made:
        one.system_one_model = made[0].system_one_model
    (result,) = library.evaluate([case_of(rows[0])], made).test_results
    assert [each.error for each in result.metrics_data] == [None] * 4
    assert sum(judge.calls) == 4  # questions about four different texts


def test_the_questions_are_those_of_the_installed_version(judge: CountingJudge) -> None:
    from deepeval.metrics.utils import parse_questions

    found = {
        question.text
        for name in METRICS
        for question in parse_questions(
            metric_of(name, judge)._get_prompt("_experimental_system_one_questions")
        )
    }
    found |= {
        metric_of(name, judge)._get_prompt("_experimental_system_one_verdict").strip()
        for name in ("Faithfulness", "ContextualRecall")
    }
    assert found == set(ANSWERS)


def test_claims_that_an_llm_extracted_are_decided_one_by_one(judge: CountingJudge) -> None:
    from deepeval.metrics.utils.qag import _system_one_request

    metric = metric_of("Faithfulness", judge)
    metric.truths = ["The bridge was built in 1790."]
    metric.claims = ["The bridge was built in 1790.", "A king paid for the bridge."]
    request = _system_one_request(metric._experimental_system_one_spec())
    answers, _ = asyncio.run(metric.system_one_model.a_noul(*request))
    ask = judge.evaluator.evaluate
    assert [answer.probability for answer in answers.values()] == pytest.approx(
        [ask("", metric.truths, claim).faithfulness for claim in metric.claims], abs=1e-5
    )


def test_other_questions_are_refused_by_their_words(judge: CountingJudge, rows: Rows) -> None:
    metric = metric_of("AnswerRelevancy", judge)
    message = "Trivet answers no question 'Every statement in `actual_output` is relevant"
    with pytest.raises(library.errors.DeepEvalError, match=message):
        metric.measure(case_of(rows[0]), _show_indicator=False)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"test_case": {"actual_output": "It is old."}}, "the test case has no retrieval_context"),
        ({"actual_output": "", "retrieval_context": ["It is old."]}, "a text is empty"),
    ],
)
def test_a_question_without_its_texts_is_refused(
    judge: CountingJudge, state: dict[str, Any], message: str
) -> None:
    metric = metric_of("Faithfulness", judge)
    question = library.models.system_one.schema.NoulQuestion(instructions=next(iter(ANSWERS)))
    with pytest.raises(ExampleError, match=message):
        metric.system_one_model.decide(state, {"only": question})
