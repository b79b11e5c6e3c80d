"""JSON, Python literals and tables as lines of "key: value", with the place of every character.

An encoder that was trained on sentences reads ``{"wifi": "free"}`` badly, and the cell of a table
without its header hardly at all. Names of enclosing objects and headers are repeated before each
value; such repeated text has no place of its own, and a text that would grow too long by it is read
as it is. Literals are what ``repr`` writes of dictionaries and lists; nothing in them is ever run.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trivet.data.sentences import split_sentences
from trivet.records import Span

_SHORT = 60  # characters; shorter values of a list are written on one line
_MAX_LITERAL = 200_000  # characters; a longer literal is read as text
_MAX_DEPTH = 50  # brackets in brackets of a literal
_MAX_INSERTED = 8, 10_000  # characters: times those of the text, and beside that
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([-+.\w]+)|([{}\[\],:]))', re.DOTALL)
_ESCAPE = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.|.", re.DOTALL)
# Strings have the escapes of ``repr`` alone, and whatever is not a bracket or colon is followed by
# one or by a comma, so that neither code nor strings side by side are tokens.
_LITERAL_ESCAPE = re.compile(
    r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|\\[\\'\"nrt]|[^\\]", re.DOTALL
)
_LITERAL_TOKEN = re.compile(
    r"\s*(?:"
    r"('(?:[^'\\\n]|\\[\\'\"nrtxuU])*+'|\"(?:[^\"\\\n]|\\[\\'\"nrtxuU])*+\")(?=\s*+[,:\]})])"
    r"|(None|True|False|-?\d[\d.]*+(?:e[-+]?\d++)?)(?=\s*+[,:\]})])"
    r"|([{}\[\](),:]))\s*"
)
_RULE = re.compile(r"\s*+\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?")


@dataclass(frozen=True, slots=True)
class StructuredText:
    """Form in which a text is read."""

    read: str  # text for the tokenizer
    # first and one-past-last character of the text for each character of ``read``, in order; the
    # two are equal for characters that the text does not have there, [R, 2]
    places: npt.NDArray[np.int64]
    sentences: tuple[Span, ...]  # one for each line of ``read``; of a long value, its own

    def text_offsets(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the offsets in the text for offsets in ``read``. *Shape:* [T, 2]."""
        if not len(offsets):
            return offsets
        last = np.maximum(offsets[:, 1] - 1, offsets[:, 0])
        return np.stack([self.places[offsets[:, 0], 0], self.places[last, 1]], axis=1)


class _Value(NamedTuple):
    start: int
    end: int
    members: tuple[tuple[_Value | None, _Value], ...] | None = None  # of an object or a list


class _Notation(NamedTuple):
    """Forms in which nested values are written."""

    token: re.Pattern[str]
    character: re.Pattern[str]  # of a string, or its escape
    unescape: Callable[[str], str]


_JSON = _Notation(_TOKEN, _ESCAPE, lambda escape: str(json.loads(f'"{escape}"')))
_LITERAL = _Notation(
    _LITERAL_TOKEN, _LITERAL_ESCAPE, lambda escape: str(ast.literal_eval(f'"{escape}"'))
)


class _Lines:
    """Collects what is read, character by character."""

    def __init__(self, text: str, notation: _Notation = _JSON) -> None:
        self._text = text
        self._notation = notation
        self._read: list[str] = []
        self._places: list[tuple[int, int]] = []
        self._sentences: list[Span] = []
        self._left = _MAX_INSERTED[0] * len(text) + _MAX_INSERTED[1]

    def copy(self, start: int, end: int) -> None:
        """Read a part of the text as it is."""
        self._read += self._text[start:end]
        self._places += ((n, n + 1) for n in range(start, end))

    def add(self, inserted: str, at: int) -> None:
        """Read what the text does not have at a place; ``ValueError`` if it becomes too much."""
        self._left -= len(inserted)
        if self._left < 0:
            raise ValueError("names are repeated too often")
        self._read += inserted
        self._places += [(at, at)] * len(inserted)

    def decode(self, value: _Value, *, is_key: bool = False) -> list[tuple[str, int, int]]:
        """Read a string or a number; return the characters of a string with their places."""
        letters = self.letters(value)
        if not self._is_string(value):
            self.copy(value.start, value.end)
        self._read += (" " if is_key and letter == "_" else letter for letter, _, _ in letters)
        self._places += ((first, last) for _, first, last in letters)
        return letters

    def letters(self, value: _Value) -> list[tuple[str, int, int]]:
        """Return the characters of a string with their places, none of any other value."""
        if not self._is_string(value):
            return []
        characters = self._notation.character.finditer(self._text, value.start + 1, value.end - 1)
        return [
            (letter, match.start(), match.end())
            for match in characters
            for letter in (match[0] if len(match[0]) == 1 else self._notation.unescape(match[0]))
        ]

    def name(self, key: _Value) -> str:
        """Return a key without quotes and underscores."""
        letters = "".join(letter for letter, _, _ in self.letters(key))
        name = letters if self._is_string(key) else self._text[key.start : key.end]
        return name.replace("_", " ")

    def _is_string(self, value: _Value) -> bool:
        return self._text[value.start] in "\"'"

    def sentence(self, start: int, end: int, *, ends: bool = True) -> None:
        """Take characters of the text as a sentence, which ends a line or goes on."""
        if ends:
            self.add("\n", end)
        self._sentences.append(Span(start, end))

    def result(self) -> StructuredText:
        places = np.asarray(self._places, dtype=np.int64).reshape(-1, 2)
        return StructuredText("".join(self._read), places, tuple(self._sentences))


def read_structure(text: str) -> StructuredText | None:
    """Return how JSON, a literal or a text with tables is read; ``None`` for any other text.

    Tables are those of Markdown, and texts whose lines all have as many tabs.
    """
    try:
        if text.lstrip()[:1] in ("{", "["):
            return _read_nested(text)
        return _read_tables(text) if "|" in text or "\t" in text else None
    except (ValueError, RecursionError):
        return None


def _read_nested(text: str) -> StructuredText | None:
    notation = _notation(text)
    if notation is None:
        return None
    lines = _Lines(text, notation)
    matches = notation.token.finditer(text)
    tokens = (match.span(match.lastindex or 0) for match in matches)
    _write(lines, text, _parse(text, tokens, next(tokens)), (), None)
    return lines.result()


def _notation(text: str) -> _Notation | None:
    """Return how a text is written that is one whole value and not empty, or ``None``."""
    try:
        return _JSON if json.loads(text) else None
    except (ValueError, RecursionError):
        pass
    if len(text) > _MAX_LITERAL or not _are_literals(text):
        return None
    try:
        return _LITERAL if ast.literal_eval(text.strip()) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _are_literals(text: str) -> bool:
    """Tell whether a text has the tokens of literals alone, in brackets of bounded depth."""
    end, depth = 0, 0
    while end < len(text):
        token = _LITERAL_TOKEN.match(text, end)
        if token is None:
            return False
        end = token.end()
        depth += {"{": 1, "[": 1, "(": 1, "}": -1, "]": -1, ")": -1}.get(token[3] or "", 0)
        if not 0 <= depth <= _MAX_DEPTH:
            return False
    return True


def _parse(text: str, tokens: Iterator[tuple[int, int]], first: tuple[int, int]) -> _Value:
    """Return the value that begins with a token, of a text that ``_notation`` accepts."""
    if text[first[0]] not in "{[(":
        return _Value(*first)
    members: list[tuple[_Value | None, _Value]] = []
    for token in tokens:
        if text[token[0]] in "}])":
            return _Value(first[0], token[1], tuple(members))
        if text[token[0]] == ",":
            continue
        key = None
        if text[first[0]] == "{":
            key = _Value(*token)
            if text[next(tokens)[0]] != ":":
                raise ValueError("a set, or a key of several values")
            token = next(tokens)
        members.append((key, _parse(text, tokens, token)))
    raise ValueError("the value is not closed")


def _write(
    lines: _Lines, text: str, value: _Value, above: tuple[str, ...], key: _Value | None
) -> None:
    """Read a value below the names of what encloses it; ``key`` is its own."""
    start = value.start if key is None else key.start
    listed = value.members is not None and text[value.start] in "[("
    parts = [part for _, part in value.members or ()]
    flat = listed and all(
        part.members is None and part.end - part.start <= _SHORT for part in parts
    )
    if value.members is not None and parts and not flat:
        names = above if key is None else (*above, lines.name(key))
        for name, part in value.members:
            _write(lines, text, part, names, name)
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
    # The first sentence of a value has the key, and the last one the closing quote.
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
    has_table, at, prose = False, 0, 0
    while at < len(rows):
        ruled = at + 1 < len(rows) and _RULE.fullmatch(text, *rows[at + 1])
        head = _cells(text, rows[at], by_tabs) if ruled or (by_tabs and at == 0) else []
        if len(head) < 2:
            at += 1
            continue
        has_table = True
        _write_prose(lines, text, prose, rows[at][0])
        _write_row(lines, text, head, ())
        names = [text[start:end] for start, end in head]
        at += 1 if by_tabs else 2
        while at < len(rows) and (cells := _cells(text, rows[at], by_tabs)):
            if len(cells) < 2:
                break
            _write_row(lines, text, cells, names)
            at += 1
        prose = rows[at][0] if at < len(rows) else len(text)
    _write_prose(lines, text, prose, len(text))
    return lines.result() if has_table else None


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
        start = end - len(text[start:end].lstrip().removeprefix("|"))
        end = start + len(text[start:end].rstrip().removesuffix("|"))
    cuts = [n for n in range(start, end) if text[n] == ("\t" if by_tabs else "|")]
    spans = []
    for first, last in itertools.pairwise([start - 1, *cuts, end]):
        cell = text[first + 1 : last]
        begin = first + 1 + len(cell) - len(cell.lstrip())
        spans.append((min(begin, last), max(min(begin, last), first + 1 + len(cell.rstrip()))))
    return spans if cuts else []


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line.rstrip("\r\n"))
        at += len(line)
