"""Responses to questions, written by language models after recipes.

A judge needs natural hallucinations. Prompts differ widely in how many they give: published rates
over four retrievals and two models (RAGBench, arXiv 2407.11005, appendix 7.6) are .79 to .95
without contexts, .07 to .29 with a short instruction, and .02 to .13 with a long one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from trivet.annotation.asking import Prompt, ask_checked
from trivet.annotation.jobs import MOST_TOKENS, Made, Row
from trivet.batch.output import EmptyInputError
from trivet.errors import ConfigError, ExampleError
from trivet.labelled.grouping import digest
from trivet.llm.chat import ChatRequest
from trivet.llm.client import ChatClient
from trivet.logs.column_mapping import FIELD_NAMES, Columns, LogRow
from trivet.logs.log import Log, SourceRow
from trivet.logs.recognition import read_rows
from trivet.records import RagExample

MIX: Mapping[str, float] = {"no-context": 0.25, "short": 0.5, "long": 0.125, "reasoning": 0.125}
"""Prompts by name, and the share of the responses that each one is used for."""
ALTERED = 0.25
"""Share of the responses for which some contexts are left out, and share with reordered ones."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe of one response.

    Attributes:
        prompt: Name of the prompt, a key of ``MIX``.
        model: Name of the model.
        temperature: Temperature of sampling.
        kept: Positions of the contexts that the row keeps, in their new order.
        contexts: Change of the contexts: ``all``, ``dropped``, ``shuffled`` or
            ``dropped, shuffled``.
    """

    prompt: str
    model: str
    temperature: float
    kept: tuple[int, ...]
    contexts: str


@dataclass(frozen=True)
class Mixture:
    """Models and temperatures, each used equally often, and the seed of all draws."""

    models: Sequence[str]
    temperatures: Sequence[float] = (1.0,)
    seed: int = 0

    def __post_init__(self) -> None:
        for value in self.temperatures:
            if not 0.0 <= value <= 2.0:
                raise ConfigError(f"temperature {value:g} must be from 0 to 2")

    def draw(self, row: int, sample: int, contexts: int) -> Recipe:
        """Draw the recipe of a response; the same numbers always give the same one.

        Args:
            row: Number of the row.
            sample: Number of the response to its question, from 0.
            contexts: Number of the row's contexts.
        """
        random = np.random.default_rng((self.seed, row, sample))
        kept, changes = list(range(contexts)), []
        if contexts > 1 and random.random() < ALTERED:
            count = int(random.integers(1, contexts))
            kept = sorted(random.permutation(contexts)[:count].tolist())
            changes.append("dropped")
        if len(kept) > 1 and random.random() < ALTERED:
            kept = random.permutation(kept).tolist()
            changes.append("shuffled")
        return Recipe(
            prompt=str(random.choice(list(MIX), p=list(MIX.values()))),
            model=str(random.choice(list(self.models))),
            temperature=float(random.choice(list(self.temperatures))),
            kept=tuple(kept),
            contexts=", ".join(changes) or "all",
        )


_THOUGHTS = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)  # as open models write them
_MARK = re.compile(r"^[ *#]*ANSWER:[ *]*", re.MULTILINE)


def read_questions(log: Log, columns: Columns) -> Iterator[LogRow]:
    """Return the rows of a log without their responses, which it need not have.

    Raises:
        EmptyInputError: The log has no rows.
        DataError: None of the first rows has a question and contexts.
    """
    rows = read_rows(map(_without_response, log.rows()), columns)
    if (first := next(rows, None)) is None:
        raise EmptyInputError(f"{log.source}: is empty: there is no question to answer")
    return itertools.chain([first], rows)


def _without_response(row: SourceRow) -> SourceRow:
    if isinstance(row.fields, ExampleError):
        return row
    names = FIELD_NAMES["response"]
    kept = [(name, value) for name, value in row.fields if name.lower() not in names]
    return replace(row, fields=[*kept, ("response", "")])


@dataclass(frozen=True)
class Sample:
    """A response to write: the row of its question, and its number among those to it, from 0."""

    row: LogRow
    number: int


def samples_of(rows: Iterable[LogRow], count: int) -> Iterator[tuple[Row, Sample]]:
    """Yield ``count`` responses to write for each row, each with its place."""
    for row in rows:
        for number in range(count):
            place = {"row": row.number, "id": row.example.id, "sample": number + 1}
            yield place, Sample(row, number)


class Generator:
    """The job of writing responses."""

    def __init__(self, clients: Sequence[ChatClient], mixture: Mixture) -> None:
        """Take the clients of the models that the mixture names."""
        self._clients = {client.model: client for client in clients}
        self._mixture = mixture
        self._prompts = {name: Prompt(f"answer-{name}-1") for name in MIX}

    def plan(self, item: Sample) -> list[tuple[ChatClient, ChatRequest]]:
        """Return the request; refuses a row without question or contexts."""
        example, recipe = self._recipe(item)
        values = {"question": example.question, "contexts": _kept(example, recipe)}
        request = ChatRequest(
            messages=self._prompts[recipe.prompt].messages(values),
            max_tokens=MOST_TOKENS,
            temperature=recipe.temperature,
            sample=item.number,
        )
        return [(self._clients[recipe.model], request)]

    def make(self, item: Sample) -> Made:
        """Return the response as one row of a log, with its recipe in the metadata."""
        [planned] = self.plan(item)
        example, recipe = self._recipe(item)
        prompt, reasons = self._prompts[recipe.prompt].version, recipe.prompt == "reasoning"
        response, provenance = ask_checked(
            *planned, prompt, lambda text: read_response(text, reasons)
        )
        metadata = dict(item.row.metadata)
        group = metadata.pop("group", None)
        metadata |= {
            "recipe_prompt": prompt,
            "recipe_model": recipe.model,
            "recipe_temperature": recipe.temperature,
            "recipe_contexts": recipe.contexts,
        }
        row: Row = {
            "id": f"{example.id}-{item.number + 1}",
            "question": example.question,
            "contexts": _kept(example, recipe),
            "response": response,
            "group": digest(*example.contexts) if group is None else str(group),
            "generator": provenance.model,
        }
        row |= {"metadata": metadata, "generation": asdict(provenance)}
        return Made([row], [recipe.prompt])

    def _recipe(self, item: Sample) -> tuple[RagExample, Recipe]:
        example, place = item.row.example, item.row.place
        if not isinstance(example, RagExample):
            raise ExampleError(example.message, example.code)
        if not example.question.strip():
            raise ExampleError(f"{place}: the question holds no text", "empty_question")
        if not any(text.strip() for text in example.contexts):
            raise ExampleError(f"{place}: no context holds any text", "empty_contexts")
        count = len(example.contexts)
        return example, self._mixture.draw(item.row.number, item.number, count)


def _kept(example: RagExample, recipe: Recipe) -> list[str]:
    return [example.contexts[place] for place in recipe.kept]


def read_response(text: str, reasons: bool) -> str:
    """Return the response in an answer, without reasoning; without text ``ExampleError``."""
    text = _THOUGHTS.sub("", text)
    if reasons:
        *thoughts, text = _MARK.split(text)
        if not thoughts:
            raise ExampleError("there is no line ANSWER: before the answer", "bad_answer")
    if not text.strip():
        raise ExampleError("it is empty", "empty_response")
    return text.strip()
