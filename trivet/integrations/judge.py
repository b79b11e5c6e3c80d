"""Parts that adapters share: judges, their verdicts by common names, rows, kept verdicts."""

from __future__ import annotations

import asyncio
import functools
import importlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import trivet
from trivet import verdict_json
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.interface import Result
from trivet.logs.context_values import names_or_none, plain, read_contexts
from trivet.logs.rows import RowReader
from trivet.records import Evaluation, FailedEvaluation, RagExample

SCORES: Mapping[str, str] = {
    "context_relevance" if name == "relevance" else name: name for name in verdict_json.SCORES
}
"""Field of ``Evaluation`` by the name of the score in other tools."""

_SHOWN_SPANS = 5


class Judge(Protocol):
    """A ``trivet.Evaluator``, a ``trivet.Client`` or anything with the same method."""

    def evaluate(self, question: str, contexts: Sequence[str], response: str) -> Evaluation:
        """Evaluate one example; raise ``ExampleError`` if it cannot be evaluated."""


class MissingLibraryError(ImportError):
    """The library that an adapter is for is not installed."""


def import_tool(module: str, package: str) -> Any:
    """Import a module of another tool, or raise a `MissingLibraryError` that names its package."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # the module exists and lacks a dependency
        raise MissingLibraryError(
            f"{module} is not installed: pip install '{package}'", name=error.name
        ) from error


@functools.cache
def default_judge() -> Judge:
    """Return an evaluator of the embedded bundle, loaded once."""
    return trivet.Evaluator()


def judge_many(judge: Judge, examples: Iterable[RagExample], **options: Any) -> list[Result]:
    """Evaluate examples, in batches if the judge has ``evaluate_many``; one result per example."""
    many = getattr(judge, "evaluate_many", None)
    if many is not None:
        return list(many(examples, **options))
    results: list[Result] = []
    evaluate: Any = functools.partial(judge.evaluate, **options)
    for example in examples:
        try:
            results.append(evaluate(example.question, example.contexts, example.response))
        except (ExampleError, WindowError, BackendError) as error:
            results.append(FailedEvaluation.of(error, example.id))
    return results


def verdict_of(result: Result) -> Evaluation:
    """Return a verdict, or raise a failure as an `ExampleError` with its code and message."""
    if isinstance(result, FailedEvaluation):
        raise ExampleError(result.message, code=result.code)
    return result


def field_of(score: str) -> str:
    """Return the field of ``Evaluation`` that holds a score, or raise a ``ValueError``."""
    if score not in SCORES:
        raise ValueError(f"no score {score!r}; there are {', '.join(SCORES)}")
    return SCORES[score]


def score_of(verdict: Evaluation, score: str) -> float:
    """Return a score in [0, 1], or raise an `ExampleError` if it is undefined."""
    value: float | None = getattr(verdict, field_of(score))
    if value is None:
        raise ExampleError(f"there is no {score}: {_why_none(verdict)}")
    return value


def _why_none(verdict: Evaluation) -> str:
    if verdict.abstains:
        return "the response says that there is no answer, and claims nothing"
    return "the example has no response, no contexts or nothing that they support"


def scores_of(verdict: Evaluation) -> dict[str, float | None]:
    """Return all scores, in [0, 1]; ``None`` if a score is undefined for the example."""
    return {score: getattr(verdict, field) for score, field in SCORES.items()}


def score_columns(results: Sequence[Result]) -> dict[str, dict[str, Any]]:
    """Return the mean, the values and the failures of each score; undefined scores are ``None``."""
    failures = (result if isinstance(result, FailedEvaluation) else None for result in results)
    errors = [failure and f"{failure.code}: {failure.message}" for failure in failures]
    columns: dict[str, dict[str, Any]] = {}
    for score, field in SCORES.items():
        values = [getattr(result, field, None) for result in results]
        known = [value for value in values if value is not None]
        columns[score] = {
            "score": sum(known) / len(known) if known else None,
            "individual_scores": values,
            "n": len(known),
            "n_failed": len(errors) - errors.count(None),
            "errors": errors,
        }
    return columns


def reason(verdict: Evaluation, score: str) -> str:
    """Return a score's explanation: unsupported spans, or the values it is computed from."""
    if getattr(verdict, field_of(score)) is None:
        text = f"no score: {_why_none(verdict)}"
    elif score == "faithfulness" and not verdict.unsupported:
        text = "nothing unsupported was found"
    elif score == "faithfulness":
        spans = [f"{span.text!r} ({span.probability:.2f})" for span in verdict.unsupported]
        more = len(spans) - _SHOWN_SPANS
        text = f"unsupported: {', '.join(spans[:_SHOWN_SPANS])}"
        text += f" and {more} more" if more > 0 else ""
    elif score == "completeness":
        text = f"relevance {verdict.relevance:.3f}, utilization {verdict.utilization:.3f}"
    else:
        values = (getattr(context, SCORES[score]) for context in verdict.contexts)
        text = "by context: " + ", ".join("none" if v is None else f"{v:.3f}" for v in values)
    if verdict.cut_question_tokens:
        text += f"; {verdict.cut_question_tokens} tokens of the question were not read"
    return text


def details(verdict: Evaluation) -> dict[str, Any]:
    """Return the fields of a verdict that complement the scores, as plain values."""
    record = verdict.to_dict()
    names = ("supported_share", "adherent", "abstains", "unsupported", "to_check")
    return {name: record[name] for name in (*names, "windows", "cut_question_tokens")}


def read_row(fields: Mapping[str, Any], mapping: Mapping[str, str] | None = None) -> RagExample:
    """Read a row with the field names of any common tool, or those of ``mapping``.

    Raises:
        ExampleError: A field is missing or has a value of the wrong type.
        DataError: ``mapping`` names an unknown field.
    """
    read = RowReader(mapping).read(fields)
    if isinstance(read, FailedEvaluation):
        message = read.message.removeprefix("row 1: ")
        raise ExampleError(f"the row {message}", code=read.code)
    return read


def judge_rows(
    judge: Judge, rows: Iterable[Any], mapping: Mapping[str, str] | None = None, **options: Any
) -> list[Result]:
    """Do `judge_many` with rows as `read_row` takes them; an unreadable row is a failure."""
    read: list[RagExample | FailedEvaluation] = []
    for row in rows:
        try:
            read.append(read_row(row, mapping))
        except ExampleError as error:
            read.append(FailedEvaluation.of(error))
    examples = [row for row in read if isinstance(row, RagExample)]
    results = iter(judge_many(judge, examples, **options))
    return [next(results) if isinstance(row, RagExample) else row for row in read]


def example(question: Any, contexts: Any, response: Any) -> RagExample:
    """Return an example from a tool's values; ``None`` is empty, other types are refused."""
    texts = {"question": question, "response": response}
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise ExampleError(
                f"{name} is a value of type {type(value).__name__}, not a string", code="bad_field"
            )
    passages, names = read_contexts(plain(contexts))
    named = names_or_none(names)
    return RagExample(question or "", passages, response or "", context_names=named)


_REMEMBERED = 256


class VerdictCache:
    """Verdicts of a judge on the latest examples: repeats, as of other scores, cost nothing.

    Its methods may be called from any thread and any event loop.
    """

    def __init__(self, judge: Judge | None = None, **options: Any) -> None:
        self.judge, self._options = judge or default_judge(), options
        self._lock = threading.Lock()
        self._verdicts: OrderedDict[RagExample, Future[Evaluation]] = OrderedDict()

    def evaluate(self, question: Any, contexts: Any, response: Any) -> Evaluation:
        """Return the verdict on one example, or raise an ``ExampleError``."""
        asked = example(question, contexts, response)
        with self._lock:
            is_new = asked not in self._verdicts
            verdict = self._verdicts.setdefault(asked, Future())
            self._verdicts.move_to_end(asked)
            if len(self._verdicts) > _REMEMBERED:
                self._verdicts.popitem(last=False)
        if is_new:
            try:
                (result,) = judge_many(self.judge, [asked], **self._options)
                verdict.set_result(verdict_of(result))
            except BaseException as error:  # every caller gets it, and the next one tries again
                with self._lock:
                    self._verdicts.pop(asked, None)
                verdict.set_exception(error)
        return verdict.result()

    async def evaluate_async(self, question: Any, contexts: Any, response: Any) -> Evaluation:
        """Do the same in a thread: the event loop stays free, and a cancelled caller harms none."""
        return await asyncio.to_thread(self.evaluate, question, contexts, response)
