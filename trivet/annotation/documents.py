"""Passages of documents: text, Markdown and PDF files, cut at paragraphs and headings."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from trivet.data.surrogates import replace_surrogates
from trivet.errors import DataError

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
