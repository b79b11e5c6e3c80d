"""``POST /v1/systemone``: the interface that tools share for small judges.

Its questions are free, and a verdict answers four of them. A question with a text that names none
of these, or another, is refused: words are compared with a table, never interpreted.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError, from_json

from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation
from trivet.serve.http.request_errors import SYSTEMONE_PATH, RequestError
from trivet.serve.http.request_models import EvaluateBody, examples_of
from trivet.serve.http.request_service import RequestService
from trivet.serve.http.response_models import SystemOneAnswer, SystemOneRefusal
from trivet.serve.http.routing import REFUSALS

Measure = Literal["faithfulness", "relevance", "completeness", "abstains"]

_MAX_QUESTIONS, _SHOWN_LETTERS = 100, 40

_NAMES: Mapping[tuple[Measure, bool], str] = {
    ("faithfulness", True): "(answer )?(grounded(ness)?|support(ed)?|faithful(ness)?)( context)?",
    ("faithfulness", False): (
        "(answer )?(hallucinations?|hallucinated|(un|not )(grounded|supported|faithful))( context)?"
    ),
    ("relevance", True): "relevance|context relevan(ce|t)( question)?",
    ("relevance", False): "irrelevance|context (ir|not )relevant( question)?",
    ("completeness", True): "(answer )?complete(ness)?",
    ("completeness", False): "incompleteness|(answer )?(in|not )complete",
    ("abstains", True): "(answer )?(abstention|abstains?)",
}
"""Names of a field of the verdict (true) and of its opposite, once synonyms are replaced."""

_SYNONYMS = {
    **dict.fromkeys(("response", "output"), "answer"),
    **dict.fromkeys(("contexts", "passages", "document", "documents"), "context"),
    **dict.fromkeys(("query", "input"), "question"),
    # Words that change nothing.
    **dict.fromkeys(("a", "an", "any", "the", "is", "are", "does", "contain", "contains"), ""),
    **dict.fromkeys(("by", "in", "of", "to", "fully"), ""),
    **dict.fromkeys(("actual", "provided", "retrieval", "retrieved"), ""),
}
_WORD = re.compile(r"[^\W_]+")

Content: TypeAlias = str | dict[str, Any] | list[Any] | None
_NO_MEASURE = (
    "its instructions and criteria must all name one of groundedness, hallucination, relevance, "
    "completeness or abstention; other questions are not answered here"
)


# Unknown keys, such as the name of a model, are ignored, as the interface asks.
_LENIENT = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class NoulQuestion(BaseModel):
    """A question that is answered with the probability of yes."""

    model_config = _LENIENT

    type: Literal["noul"]
    instructions: Content = Field(default=None, description="Name of what is asked.")
    criteria: dict[Literal["true", "false"], Content] | None = Field(
        default=None, description="Names of what yes and no mean; either may be missing."
    )

    @model_validator(mode="after")
    def _check_measure(self) -> Self:
        if len(self.measures()) != 1:
            raise PydanticCustomError("unsupported_question", _NO_MEASURE)
        return self

    def measures(self) -> set[tuple[Measure, bool]]:
        """Return what the texts name; nothing if one of them names something else."""
        named = set()
        for side, content in [("true", self.instructions), *(self.criteria or {}).items()]:
            for text in _texts(content):
                words = (_SYNONYMS.get(word, word) for word in _WORD.findall(text.lower()))
                name = " ".join(filter(None, words))
                asked = [asked for asked, names in _NAMES.items() if re.fullmatch(names, name)]
                if not asked:
                    return set()
                named.add((asked[0][0], asked[0][1] == (side == "true")))
        return named


def _texts(content: Any) -> Iterator[str]:
    """Yield all texts of an instruction or criterion; what is not a text names nothing."""
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _texts(part)
    elif content is not None:
        yield content if isinstance(content, str) else ""


def _unwrap(state: Any) -> Any:
    """Return the object in a state: in JSON text, a list of messages, or DeepEval's test case."""
    if isinstance(state, str):
        with contextlib.suppress(ValueError):
            state = from_json(state)
    if isinstance(state, list):
        state = {"messages": state}
    is_case = isinstance(state, dict) and state.keys() == {"test_case"}
    return state["test_case"] if is_case else state


def _check_number(questions: Any) -> Any:
    """Refuse too many questions at once: a fault for each would fill the memory."""
    if isinstance(questions, dict) and not 0 < len(questions) <= _MAX_QUESTIONS:
        limit = {"limit": _MAX_QUESTIONS}
        raise PydanticCustomError("number", "must be 1 to {limit} questions", limit)
    return questions


class SystemOneBody(BaseModel):
    """Questions on one answer."""

    model_config = _LENIENT

    state: Annotated[EvaluateBody, BeforeValidator(_unwrap)] = Field(
        description="One answer as of /v1/evaluate; also as JSON text, as a list of messages, or "
        "inside of test_case."
    )
    questions: Annotated[dict[str, NoulQuestion], BeforeValidator(_check_number)] = Field(
        description="Questions by their ids; an id has no meaning."
    )


def add_systemone_route(router: APIRouter, service: RequestService, evaluator: Evaluator) -> None:
    """Add the route; its answers name the bundle as their model."""
    model = evaluator.bundle.info.name
    refusals = {status: {**about, "model": SystemOneRefusal} for status, about in REFUSALS.items()}

    @router.post(SYSTEMONE_PATH, response_model=SystemOneAnswer, responses=refusals)
    async def systemone(request: Request, body: SystemOneBody) -> Response:
        """Answer yes/no questions that name a field of the verdict, each with a probability.

        Other questions are refused, and with them the request.
        """
        examples = examples_of(body.state, service.check_number)
        if len(examples) != 1:
            raise RequestError("validation", f"state: must hold one answer, not {len(examples)}")
        predictions, verdict = await service.evaluate_one(request, examples[0], body.state)
        answers = {name: _answer(verdict, name, asked) for name, asked in body.questions.items()}
        usage = {"input_tokens": 0, "output_tokens": 0}
        fields = {"model": model, "answers": answers, "usage": usage}
        return await service.respond(predictions, lambda: fields)


def _answer(verdict: Evaluation, name: str, question: NoulQuestion) -> dict[str, Any]:
    """Return the answer to a question; one that the verdict leaves open is refused."""
    ((field, is_so),) = question.measures()
    value: float | bool | None = getattr(verdict, field)
    if value is None:
        raise RequestError(
            "validation",
            f"questions.{name[:_SHOWN_LETTERS]}: no {field} here: the response is empty, abstains "
            "or has nothing supported, or the model lacks that head; leave the question out",
        )
    return {"type": "noul", "noul": float(value if is_so else 1 - value)}
