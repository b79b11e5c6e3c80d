"""What all adapters share: a judge, the names of its scores, what a score says in words."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import trivet
from trivet.records import (
    BackendError,
    Evaluation,
    ExampleError,
    FailedEvaluation,
    RagExample,
    WindowError,
)

SCORES: Mapping[str, str] = {
    "faithfulness": "faithfulness",
    "context_relevance": "relevance",
    "utilization": "utilization",
    "completeness": "completeness",
}
"""What a score is called in other tools, and its field of ``Evaluation``."""

Result: TypeAlias = Evaluation | FailedEvaluation

_SHOWN_SPANS = 5


class Judge(Protocol):
    """A ``trivet.Evaluator``, or a client that answers the same call."""

    def evaluate(self, question: str, contexts: Sequence[str], response: str) -> Evaluation:
        """Judge one example; raise ``ExampleError`` where it cannot be judged."""


class MissingLibraryError(ImportError):
    """A tool that an adapter stands for is not installed."""


def foreign(module: str, package: str) -> Any:
    """Import a module of another tool.

    Args:
        module: Its name, such as ``ragas.metrics.base``.
        package: What to install it by.

    Raises:
        MissingLibraryError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it is there, and lacks something itself
        raise MissingLibraryError(
            f"{module} is not installed: pip install '{package}'", name=error.name
        ) from error


@functools.cache
def default_judge() -> Judge:
    """Return the judge of the embedded bundle; loaded once."""
    return trivet.Evaluator()


def judge_many(judge: Judge, examples: Iterable[RagExample]) -> list[Result]:
    """Judge examples, together where the judge has ``evaluate_many``; one result for each."""
    many = getattr(judge, "evaluate_many", None)
    if many is not None:
        return list(many(examples))
    return [_judge_one(judge, example) for example in examples]


def _judge_one(judge: Judge, example: RagExample) -> Result:
    try:
        return judge.evaluate(example.question, example.contexts, example.response)
    except (ExampleError, WindowError, BackendError) as error:
        return FailedEvaluation.of(error, example.id)


def verdict_of(result: Result) -> Evaluation:
    """Return a verdict.

    Raises:
        ExampleError: There is none; code and message say why.
    """
    if isinstance(result, FailedEvaluation):
        raise error_of(result)
    return result


def error_of(failed: FailedEvaluation) -> ExampleError:
    """Return a failure as the error that it was."""
    return ExampleError(failed.message, code=failed.code)


def field_of(score: str) -> str:
    """Return the field of ``Evaluation`` that holds a score.

    Raises:
        ValueError: There is no such score.
    """
    if score not in SCORES:
        raise ValueError(f"no score {score!r}; there are {', '.join(SCORES)}")
    return SCORES[score]


def scores_of(verdict: Evaluation) -> dict[str, float | None]:
    """Return all scores, in [0, 1]; ``None`` where one means nothing for the example."""
    return {score: getattr(verdict, field) for score, field in SCORES.items()}


def reason(verdict: Evaluation, score: str) -> str:
    """Say in words what a score rests on."""
    if getattr(verdict, field_of(score)) is None:
        said = "no score: the example has no response or no contexts"
    elif score == "faithfulness":
        said = _unsupported(verdict)
    elif score == "completeness":
        said = f"relevance {verdict.relevance:.3f}, utilization {verdict.utilization:.3f}"
    else:
        values = (getattr(context, SCORES[score]) for context in verdict.contexts)
        said = "by context: " + ", ".join("none" if v is None else f"{v:.3f}" for v in values)
    if verdict.cut_question_tokens:
        said += f"; {verdict.cut_question_tokens} tokens of the question were not read"
    return said


def _unsupported(verdict: Evaluation) -> str:
    spans = verdict.unsupported
    if not spans:
        return "nothing unsupported was found"
    shown = (f"{span.text!r} ({span.probability:.2f})" for span in spans[:_SHOWN_SPANS])
    more = f" and {len(spans) - _SHOWN_SPANS} more" if len(spans) > _SHOWN_SPANS else ""
    return f"unsupported: {', '.join(shown)}{more}"


def details(verdict: Evaluation) -> dict[str, Any]:
    """Return what stands beside the scores, as plain values: spans, verdicts, what was read."""
    whole = verdict.to_dict()
    kept = ("supported_share", "adherent", "unsupported", "windows", "cut_question_tokens")
    return {name: whole[name] for name in kept}
