"""JSON and tables as lines of "key: value", with the place of every character in the text.

An encoder that was trained on sentences reads ``{"wifi": "free"}`` badly, and the cell of a table
without its header hardly at all. Names of enclosing objects and headers are repeated before each
value; such repeated text has no place of its own.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.data.sentences import split_sentences
from trivet.records import Span

_SHORT = 60  # characters; shorter values of a list are written on one line
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([-+.\w]+)|([{}\[\],:]))', re.DOTALL)
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)
_RULE = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")


@dataclass(frozen=True, slots=True)
class StructuredText:
    """Form in which a text is read."""

    read: str  # text for the tokenizer
    # first and one-past-last character of the text for each character of ``read``, in order; the
    # two are equal for characters that the text does not have there, [R, 2]
    places: npt.NDArray[np.int64]
    sentences: tuple[Span, ...]  # one for each line of ``read``; of a long value, its own

    def place(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the offsets in the text for offsets in ``read``. *Shape:* [T, 2]."""
        if not len(offsets):
            return offsets
        last = np.maximum(offsets[:, 1] - 1, offsets[:, 0])
        return np.stack([self.places[offsets[:, 0], 0], self.places[last, 1]], axis=1)


class _Value(NamedTuple):
    start: int
    end: int
    members: tuple[tuple[_Value | None, _Value], ...] | None = None  # of an object or a list


class _Lines:
    """Collects what is read, character by character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._read: list[str] = []
        self._places: list[tuple[int, int]] = []
        self._sentences: list[Span] = []

    def copy(self, start: int, end: int) -> None:
        """Read a part of the text as it is."""
        self._read += self._text[start:end]
        self._places += ((n, n + 1) for n in range(start, end))

    def add(self, said: str, at: int) -> None:
        """Read what the text does not have at a place."""
        self._read += said
        self._places += [(at, at)] * len(said)

    def decode(self, value: _Value, *, is_key: bool = False) -> list[tuple[str, int, int]]:
        """Read a string or a number of JSON; return its characters with their places."""
        start, end = value.start, value.end
        if self._text[start] != '"':
            self.copy(start, end)
            return []
        found = []
        for each in _ESCAPE.finditer(self._text, start + 1, end - 1):
            said = each[0] if len(each[0]) == 1 else json.loads(f'"{each[0]}"')
            said = " " if is_key and said == "_" else said
            found += [(letter, each.start(), each.end()) for letter in said]
        self._read += (letter for letter, _, _ in found)
        self._places += ((first, last) for _, first, last in found)
        return found

    def sentence(self, start: int, end: int, *, ends: bool = True) -> None:
        """Take characters of the text as a sentence, which ends a line or goes on."""
        if ends:
            self.add("\n", end)
        self._sentences.append(Span(start, end))

    def result(self) -> StructuredText:
        places = np.asarray(self._places, dtype=np.int64).reshape(-1, 2)
        return StructuredText("".join(self._read), places, tuple(self._sentences))


def read_structure(text: str) -> StructuredText | None:
    """Return how JSON or a text with tables is read; ``None`` for any other text.

    Tables are those of Markdown, and texts whose lines all have as many tabs.
    """
    begins = text.lstrip()[:1]
    if begins in ("{", "["):
        return _read_json(text)
    if "|" in text or "\t" in text:
        return _read_tables(text)
    return None


def _read_json(text: str) -> StructuredText | None:
    try:
        if not json.loads(text):
            return None
        tokens = ((m.start(m.lastindex or 0), m.end()) for m in _TOKEN.finditer(text))
        whole = _parse(text, tokens, next(tokens))
        lines = _Lines(text)
        _write(lines, text, whole, (), None)
    except (ValueError, RecursionError):
        return None
    return lines.result()


def _parse(text: str, tokens: Iterator[tuple[int, int]], first: tuple[int, int]) -> _Value:
    """Return the value that begins with a token; the JSON is known to be valid."""
    if text[first[0]] not in "{[":
        return _Value(*first)
    members: list[tuple[_Value | None, _Value]] = []
    for token in tokens:
        if text[token[0]] in "}]":
            return _Value(first[0], token[1], tuple(members))
        if text[token[0]] == ",":
            continue
        key = None
        if text[first[0]] == "{":
            key = _Value(*token)
            next(tokens)  # the colon
            token = next(tokens)
        members.append((key, _parse(text, tokens, token)))
    raise ValueError("the JSON is not closed")


def _write(
    lines: _Lines, text: str, value: _Value, above: tuple[str, ...], key: _Value | None
) -> None:
    """Read a value below the names of what encloses it; ``key`` is its own."""
    start = value.start if key is None else key.start
    listed = value.members is not None and text[value.start] == "["
    parts = [part for _, part in value.members or ()]
    flat = listed and all(
        part.members is None and part.end - part.start <= _SHORT for part in parts
    )
    if value.members is not None and parts and not flat:
        own = above
        if key is not None:
            own = (*above, json.loads(text[key.start : key.end]).replace("_", " "))
        for name, part in value.members:
            _write(lines, text, part, own, name)
        return
    if above:
        lines.add(" ".join(above) + (" " if key else ": "), start)
    if key is not None:
        lines.decode(key, is_key=True)
        lines.add(": ", key.end)
    if value.members is not None:
        for number, part in enumerate(parts):
            if number:
                lines.add(", ", part.start)
            lines.decode(part)
        lines.sentence(start, value.end)
        return
    letters = lines.decode(value)
    # Of several sentences in a value, the first has the key and the last the closing quote.
    spans = split_sentences("".join(letter for letter, _, _ in letters))
    for span, following in itertools.pairwise(spans):
        lines.sentence(start, letters[span.end - 1][2], ends=False)
        start = letters[following.start][1]
    lines.sentence(start, value.end)


def _read_tables(text: str) -> StructuredText | None:
    rows = list(_line_spans(text))
    tabs = {text.count("\t", *row) for row in rows if text[slice(*row)].strip()}
    by_tabs = len(rows) > 1 and len(tabs) == 1 and tabs != {0}
    lines = _Lines(text)
    found, at, prose = False, 0, 0
    while at < len(rows):
        is_head = by_tabs and at == 0
        if not is_head:
            is_head = at + 1 < len(rows) and _RULE.fullmatch(text, *rows[at + 1]) is not None
        head = _cells(text, rows[at], by_tabs) if is_head else []
        if len(head) < 2:
            at += 1
            continue
        found = True
        _write_prose(lines, text, prose, rows[at][0])
        _write_row(lines, text, head, ())
        at += 1 if by_tabs else 2
        while at < len(rows) and (cells := _cells(text, rows[at], by_tabs)):
            if len(cells) < 2:
                break
            _write_row(lines, text, cells, [text[start:end] for start, end in head])
            at += 1
        prose = rows[at][0] if at < len(rows) else len(text)
    _write_prose(lines, text, prose, len(text))
    return lines.result() if found else None


def _write_prose(lines: _Lines, text: str, start: int, end: int) -> None:
    for span in split_sentences(text[start:end]):
        lines.copy(start + span.start, start + span.end)
        lines.sentence(start + span.start, start + span.end)


def _write_row(
    lines: _Lines, text: str, cells: Sequence[tuple[int, int]], names: Sequence[str]
) -> None:
    """Read the cells of a row, each after its header."""
    for number, (start, end) in enumerate(cells):
        lead = ", " if number else ""
        if number < len(names) and names[number]:
            lead += f"{names[number]}: "
        lines.add(lead, start)
        lines.copy(start, end)
    lines.sentence(cells[0][0], cells[-1][1])


def _cells(text: str, row: tuple[int, int], by_tabs: bool) -> list[tuple[int, int]]:
    """Return the places of the cells of a line, without the space around them."""
    start, end = row
    if not by_tabs:
        line = text[start:end]
        start += len(line) - len(line.lstrip().removeprefix("|"))
        end = start + len(text[start:end].rstrip().removesuffix("|"))
    cuts = [n for n in range(start, end) if text[n] == ("\t" if by_tabs else "|")]
    found = []
    for first, last in itertools.pairwise([start - 1, *cuts, end]):
        cell = text[first + 1 : last]
        begin = first + 1 + len(cell) - len(cell.lstrip())
        found.append((min(begin, last), max(min(begin, last), first + 1 + len(cell.rstrip()))))
    return found if cuts else []


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line.rstrip("\r\n"))
        at += len(line)
