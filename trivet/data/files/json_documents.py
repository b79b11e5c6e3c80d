"""Rows of JSON documents: one list of objects, or objects one after the other."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any

from trivet.data.files.json_lines import LONGEST_LINE, JsonObject, Row, fields_of
from trivet.errors import ExampleError

_PIECE = 1 << 16  # bytes read at once
_SPACE = re.compile(r"[ \t\n\r]*")


def read_document(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of a JSON document, reading it piece by piece.

    Raises:
        ValueError: The document is not JSON or not UTF-8 from some place on; the rest is lost.
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
    """The text of a file, read as needed; whole JSON values are taken from its front."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._json = json.JSONDecoder(object_pairs_hook=JsonObject)
        self._text = ""
        self._at = 0  # start of the text that was not taken yet
        self._ended = False

    def next_character(self) -> str:
        """Return the first character that is not white space; ``""`` at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text) or not self._read_on():
                return self._text[self._at : self._at + 1]

    def skip(self) -> None:
        """Take the next character."""
        self._at += 1

    def value(self) -> Any:
        """Take the next value; raises ``ValueError`` if there is none, or it is too large."""
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise ValueError("a row is nested too deeply") from error
            except json.JSONDecodeError:
                if not self._read_on():
                    raise
                continue
            # A number may continue after the text read so far.
            if end < len(self._text) or not self._read_on():
                self._at = end
                return value

    def _read_on(self) -> bool:
        """Double the text read ahead, so that long values are parsed only a few times."""
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
