"""Questions that a language model asks about documents, with the contexts that a search finds."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from trivet.annotation.asking import OTHER_TEMPERATURE, ask_checked
from trivet.annotation.documents import Passage, Pool
from trivet.annotation.jobs import MOST_TOKENS, Made, Row
from trivet.annotation.prompt import Prompt
from trivet.llm.chat import ChatRequest
from trivet.llm.client import ChatClient
from trivet.llm.json_answer import read_object

_NAMES_THE_PASSAGE = re.compile(
    r"\b(?:this|the|given|above) (?:passage|text|excerpt|author|section)\b", re.IGNORECASE
)
# Words; in scripts without spaces, characters.
_WORD = r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|\w+"


class Questions(BaseModel):
    """The answer of the model; empty if the passage answers no question."""

    model_config = ConfigDict(extra="forbid")

    questions: list[str]


class Search:
    """BM25 over the passages of a pool."""

    def __init__(self, pool: Pool) -> None:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG when imported
        self.pool = pool
        self._index = bm25s.BM25(csc_backend="numpy")
        self._index.index(_words([each.text for each in pool.passages]), show_progress=False)

    def find(self, question: str, count: int) -> list[str]:
        """Return the texts that share most with a question, best first, at most ``count``."""
        count = min(count, len(self.pool.passages))
        found, _ = self._index.retrieve(_words([question]), k=count, show_progress=False)
        return [self.pool.passages[place].text for place in found[0].tolist()]


def _words(texts: list[str]) -> Any:
    import bm25s

    return bm25s.tokenize(texts, token_pattern=_WORD, stopwords=None, show_progress=False)


@dataclass(frozen=True)
class Source:
    """A passage to ask about, and the search that finds the contexts."""

    passage: Passage
    search: Search


def sources_of(pools: Sequence[Pool]) -> Iterator[tuple[Row, Source]]:
    """Yield the passages of the pools in order, each with its place."""
    for search in map(Search, pools):
        for passage in search.pool.passages:
            place = {"document": passage.document, "passage": passage.number}
            yield place, Source(passage, search)


class Questioner:
    """The job of asking about documents."""

    def __init__(self, client: ChatClient, count: int, contexts: int) -> None:
        """Choose the model, the questions for each passage, and the contexts for each question."""
        self._client = client
        self._count = count
        self._contexts = contexts
        self._prompt = Prompt("questions-1")

    def plan(self, item: Source) -> list[tuple[ChatClient, ChatRequest]]:
        """Return the request for the questions about a passage."""
        passage = item.passage
        values = {"count": self._count, "document": passage.document, "passage": passage.text}
        request = ChatRequest(
            messages=self._prompt.messages(values),
            max_tokens=MOST_TOKENS,
            temperature=OTHER_TEMPERATURE,
            schema=Questions.model_json_schema(),
        )
        return [(self._client, request)]

    async def make(self, item: Source) -> Made:
        """Return the questions, maybe none, as rows that ``trivet generate`` answers.

        The contexts are those that a search finds, with or without the passage, as in use.
        """
        [planned] = self.plan(item)
        found, provenance = await ask_checked(
            *(*planned, self._prompt.version),
            lambda text: Questions.model_validate(read_object(text)),
        )
        passage, questions = item.passage, _usable(found.questions)[: self._count]
        rows = [
            {
                "id": f"{passage.document}-{passage.number}-{number}",
                "question": question,
                "contexts": item.search.find(question, self._contexts),
                "group": item.search.pool.name,
                "metadata": {"document": passage.document, "passage": passage.number},
                "question_generation": asdict(provenance),
            }
            for number, question in enumerate(questions, start=1)
        ]
        return Made(rows, ["questions"] * len(questions) or ["passages without"])


def _usable(questions: Sequence[str]) -> list[str]:
    """Return the distinct questions, without those that speak of "the passage"."""
    distinct = dict.fromkeys(" ".join(question.split()) for question in questions)
    return [each for each in distinct if each and not _NAMES_THE_PASSAGE.search(each)]
