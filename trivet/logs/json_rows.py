"""Rows of JSON lines, one object a line, and of JSON documents: a list, or one after the other."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, TypeAlias

from pydantic_core import from_json

from trivet.errors import ExampleError

Fields: TypeAlias = Sequence[tuple[str, Any]]
"""Names and values of a row, in order; a name may occur more than once."""

Row: TypeAlias = tuple[int | None, Fields | ExampleError]
"""Line number of a row, if its format has lines, and the row or the error in it."""

LONGEST_LINE = 64 << 20
"""Bytes; a longer line is an error, and is not held in memory."""


class JsonObject(dict[str, Any]):
    """A JSON object that keeps all ``pairs`` in order, so that repeated names are noticed."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def parse_line(line: bytes) -> Fields:
    """Parse a line with one JSON object; others raise ``ExampleError`` (``malformed_line``)."""
    try:
        value = json.loads(line.decode("utf-8-sig"), object_pairs_hook=JsonObject)
    except UnicodeDecodeError as error:
        raise ExampleError(
            f"is not UTF-8 ({error}); name its encoding with --encoding", code="malformed_line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ExampleError(f"is not JSON ({error})", code="malformed_line") from error
    return fields_of(value)


def parse_plain_line(line: bytes) -> Fields:
    """Parse a line like ``parse_line``, five times as fast; the last of repeated names counts."""
    try:
        value = from_json(line)
    except ValueError:
        return parse_line(line)  # which names the error, or accepts lone surrogates and a BOM
    return list(value.items()) if isinstance(value, dict) else fields_of(value)


def fields_of(value: Any) -> Fields:
    """Return the pairs of a JSON object; other values raise ``ExampleError``."""
    if not isinstance(value, JsonObject):
        raise ExampleError("is not a JSON object", code="malformed_line")
    return value.pairs


def read_lines(file: IO[bytes], parse: Callable[[bytes], Fields] = parse_line) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines; blank lines are skipped."""
    for number, line in enumerate(read_bounded(file), start=1):
        if line is None:
            yield number, ExampleError(f"is longer than {LONGEST_LINE} bytes", "malformed_line")
        elif line.strip():
            try:
                yield number, parse(line)
            except ExampleError as error:
                yield number, error


def read_bounded(file: IO[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """Yield the lines of a file with their ends, and ``None`` for a line that is too long."""
    while line := file.readline(longest + 1):
        if len(line) <= longest:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1 << 20)
        yield None


_PIECE = 1 << 16  # bytes read at once
_SPACE = re.compile(r"[ \t\n\r]*")


def read_document(file: IO[bytes]) -> Iterator[Row]:
    """Yield the rows of a JSON document, reading it piece by piece.

    Raises:
        ValueError: The document is not JSON or not UTF-8 from some place on; the rest is lost.
    """
    text = _Text(file)
    is_list = text.take("[")
    while text.next_character() not in ("", "]"):
        value = text.value()
        try:
            yield None, fields_of(value)
        except ExampleError as error:
            yield None, error
        if is_list and not text.take(",") and text.next_character() != "]":
            raise ValueError("a comma or the end of the list must follow a row")
    if text.take("]") != is_list or text.next_character():
        raise ValueError("the list does not end where the file ends")


class _Text:
    """The text of a file, read as needed; whole JSON values are taken from its front.

    Python writes NaN and lone surrogates, which the incremental parsers of libraries refuse or
    replace.
    """

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

    def take(self, character: str) -> bool:
        """Take the next character if it is the given one; tell whether it was."""
        is_next = self.next_character() == character
        self._at += is_next
        return is_next

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
            raise ValueError(f"no complete row within {LONGEST_LINE} characters")
        piece = self._file.read(max(_PIECE, left))
        self._ended = not piece
        self._text = self._text[self._at :] + self._decoder.decode(piece, final=not piece)
        self._at = 0
        return True
