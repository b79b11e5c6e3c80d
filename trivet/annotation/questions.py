"""Questions that a language model asks about documents, with the contexts that a search finds.

Text, Markdown and PDF files are cut at paragraphs and headings.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from trivet.annotation.asking import OTHER_TEMPERATURE, Prompt, ask_checked, read_object
from trivet.annotation.jobs import MOST_TOKENS, Made, Row
from trivet.errors import DataError
from trivet.interface import replace_surrogates
from trivet.llm.chat import ChatRequest
from trivet.llm.client import ChatClient

logger = logging.getLogger(__name__)

SUFFIXES = (".txt", ".md", ".markdown", ".pdf")
PASSAGE_CHARACTERS = 1200
_SHORTEST = 80  # characters; a shorter passage is a heading or a page number
_POOL = 12  # passages, the fewest that contexts are retrieved from if there are more documents


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a document, with its file's path in the folder and its number in it, from 0."""

    text: str
    document: str
    number: int


@dataclass(frozen=True, slots=True)
class Pool:
    """Passages of one document, or of successive short ones, that contexts are retrieved from.

    No passage is in two pools, so that splits by pool share none.
    """

    name: str
    passages: tuple[Passage, ...]


def read_pools(folder: Path, characters: int = PASSAGE_CHARACTERS) -> list[Pool]:
    """Read the documents in a folder and the folders below it, sorted by path.

    A file that cannot be read is skipped, with a warning that says why.

    Args:
        folder: Folder with files of ``SUFFIXES``; others are not read.
        characters: Most characters of a passage.

    Raises:
        DataError: There is no such folder, or no document in it has any text.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder of documents")
    files = [f for f in sorted(folder.rglob("[!.]*")) if f.suffix.lower() in SUFFIXES]
    if not files:
        raise DataError(f"{folder}: no file in it ends in {', '.join(SUFFIXES)}")
    gathered: list[list[Passage]] = [[]]
    seen: set[str] = set()
    for file in files:
        if len(gathered[-1]) >= _POOL:
            gathered.append([])
        for passage in _read_passages(file, file.relative_to(folder).as_posix(), characters):
            if passage.text not in seen:  # many documents repeat a notice
                seen.add(passage.text)
                gathered[-1].append(passage)
    if len(gathered) > 1 and len(gathered[-1]) < _POOL:  # too few for a pool of their own
        gathered[-2:] = [[*gathered[-2], *gathered[-1]]]
    if not gathered[0]:
        raise DataError(f"{folder}: none of its {len(files)} documents has a passage of text")
    return [Pool(passages[0].document, tuple(passages)) for passages in gathered]


def _read_passages(file: Path, name: str, characters: int) -> list[Passage]:
    """Return the passages of a document; none, with a warning, if it cannot be read."""
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    try:
        text = _read_pdf(file) if file.suffix.lower() == ".pdf" else _read_text(file)
    except (OSError, DataError) as error:
        logger.warning("%s is skipped: %s", name, error)
        return []
    is_markdown = file.suffix.lower() in (".md", ".markdown")
    splitter = (MarkdownSplitter if is_markdown else TextSplitter)(characters)
    chunks = [chunk for chunk in splitter.chunks(text) if len(chunk) >= _SHORTEST]
    if not chunks:
        logger.warning("%s is skipped: it has no passage of %d characters", name, _SHORTEST)
    return [Passage(chunk, name, number) for number, chunk in enumerate(chunks)]


def _read_text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"it is not UTF-8 at byte {error.start}") from error


def _read_pdf(file: Path) -> str:
    """Return the text of a PDF file; raises ``DataError`` if it cannot be read or has none."""
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # each odd object of a file is a warning
    try:
        text = "\n\n".join(page.extract_text() for page in pypdf.PdfReader(file).pages)
    except Exception as error:  # damage raises errors of nearly every type
        raise DataError(f"it cannot be read as PDF ({error!r})") from error
    if not text.strip():
        raise DataError("it has no text, only pictures of pages; recognise their text first")
    text = re.sub(r"(?<=[a-z])-\n(?=[a-z])", "", text)  # words divided at line ends
    return replace_surrogates(text)[0]


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

    def make(self, item: Source) -> Made:
        """Return the questions, maybe none, as rows that ``trivet generate`` answers.

        The contexts are those that a search finds, with or without the passage, as in use.
        """
        [planned] = self.plan(item)
        found, provenance = ask_checked(
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
