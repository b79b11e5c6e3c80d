"""Rows of JSON: one object a line, or one document with all of them, read piece by piece."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeAlias

from trivet.data.logs.bounded_lines import LONGEST_LINE, read_bounded
from trivet.data.logs.json_objects import Fields, JsonObject, fields_of, parse_line
from trivet.records import ExampleError

Read: TypeAlias = tuple[int | None, Fields | ExampleError]
"""The line where a row stands, where there are lines, and the row or why it is none."""

_PIECE = 1 << 16
_SPACE = re.compile(r"[ \t\n\r]*")


def read_lines(file: IO[bytes], parse: Callable[[bytes], Fields] = parse_line) -> Iterator[Read]:
    """Yield the rows of a file of one JSON object a line; blank lines are none."""
    for number, line in enumerate(read_bounded(file), start=1):
        if line is None:
            yield number, ExampleError(f"is longer than {LONGEST_LINE} bytes", "malformed_line")
        elif line.strip():
            try:
                yield number, parse(line)
            except ExampleError as error:
                yield number, error


def read_document(file: IO[bytes]) -> Iterator[Read]:
    """Yield the rows of a JSON document: a list of objects, or objects one after the other.

    What stands behind an error cannot be read: a document has no lines to begin anew at.

    Raises:
        ValueError: It is not JSON, or not UTF-8, from some place on.
    """
    text = _Text(file)
    is_list = text.next_character() == "["
    if is_list:
        text.skip()
    while (character := text.next_character()) and character != "]":
        value = text.value()
        try:
            yield None, fields_of(value)
        except ExampleError as error:
            yield None, error
        if is_list and text.next_character() == ",":
            text.skip()
        elif is_list and text.next_character() != "]":
            raise ValueError("a comma or the end of the list must follow a row")
    if is_list:
        text.skip()
    if is_list != (character == "]") or text.next_character():
        raise ValueError("the list does not end where the file ends")


class _Text:
    """A file's text as far as it is needed: whole JSON values are taken from its front."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder(object_pairs_hook=JsonObject)
        self._text = ""
        self._at = 0  # what stands before was taken
        self._ended = False

    def next_character(self) -> str:
        """Return the first character that is no white space; ``""`` at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text) or not self._read_on():
                return self._text[self._at : self._at + 1]

    def skip(self) -> None:
        """Take the next character."""
        self._at += 1

    def value(self) -> Any:
        """Take the next value.

        Raises:
            ValueError: There is none, or it is larger than a row may be.
        """
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise ValueError("a row is nested too deeply") from error
            except json.JSONDecodeError:
                if not self._read_on():
                    raise
                continue
            # A number may go on behind what is held.
            if end < len(self._text) or not self._read_on():
                self._at = end
                return value

    def _read_on(self) -> bool:
        """Read as much again as is left, so that long values are not parsed over and over."""
        left = len(self._text) - self._at
        if self._ended:
            return False
        if left > LONGEST_LINE:
            raise ValueError(f"no whole row within {LONGEST_LINE} characters")
        piece = self._file.read(max(_PIECE, left))
        self._ended = not piece
        self._text = self._text[self._at :] + self._decoder.decode(piece, final=not piece)
        self._at = 0
        return True
