"""Text to sentence spans, for texts that come without their own sentences.

The splitter is sentencex, behind a guard: with a letter followed by certain white space and a full
stop it panics with an exception that ``except Exception`` does not catch, and it refuses lone
surrogates. Both are mapped to other characters first, without changing any offset. If it panics
nevertheless, a regular expression splits the text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from itertools import pairwise

from trivet.interface import replace_surrogates
from trivet.records import Span

LANGUAGE = "en"
"""Language of the known abbreviations; full stops of other scripts end sentences as well."""

_log = logging.getLogger(__name__)

# All white space except the space itself. The splitter panics on some of those that take more than
# one byte, and does not divide lines that follow a line break and begin with a number.
_PLAIN_SPACE = str.maketrans(
    dict.fromkeys(
        "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
        "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
        " ",
    )
)
# Characters given to the splitter at once: its time grows with the square of the quotes in them.
_STRETCH = 20_000
_LONGEST = 5_000  # characters of a sentence of a text that grows; splitting it takes their square
_WORD_END = re.compile(r"\S(?=\s)|[\u3002\uff01\uff1f](?=\S)")
_LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n|\u2029")
_LETTERED_ITEM = re.compile(r"\w{1,4}[.)]\s")
_LIST_MARK = re.compile(r"(?:\W|_|\d{1,3}(?!\d)|\b[A-Za-z]\b)+")
# Rules that the splitter lacks: a sentence ends after "4 g." and after a model's thoughts, none
# after these abbreviations or within ".NET", and the mark of an item begins one.
_END = re.compile(r"(?<=\d)\s?[ghlmstVW]\.\s+(?=[A-Z]\w*[\s,])|</think>\s*")
_NO_END = re.compile(
    r"\b(?i:approx|avg|ca|dr|est|excl|incl|max|min|pop|prof)\.\s+\Z|(?:(?<!\S)|\b[A-Z]{2,})\.\Z"
)
_ITEM_MARK = re.compile(r"(?<=[:;])\s+(\(?\d{1,2}[.)])\s+\Z")
_LOOK_BACK = 16  # characters before a sentence in which these are sought
# Fallback: a stop with closing quotes and a space, or a stop of a script without spaces.
_STOP = re.compile(r"[.!?\u2026\u0964\u061f\u06d4]+[\"'\u201d\u2019)\]]* +|[\u3002\uff01\uff1f]+")


def split_sentences(text: str) -> tuple[Span, ...]:
    """Split a text into its sentences.

    A line break ends a sentence unless the next line begins in lower case: answers contain lists,
    passages contain tables and headings, and both wrap. Within a line the splitter decides, except
    that a piece that is only a list mark or punctuation ("2.") belongs to the sentence after it.

    Returns:
        Spans in order, without overlap or white space at their ends, which together cover every
        other character of ``text``. Empty for a text of white space.
    """
    plain = replace_surrogates(text)[0].translate(_PLAIN_SPACE)
    bounds = [0]
    for match in _LINE_BREAK.finditer(text):
        start = match.end()
        wrapped = text[start : start + 1].islower() and not _LETTERED_ITEM.match(text, start)
        if not wrapped or _BLANK_LINE.search(match.group()):
            bounds.append(start)
    sentences: list[Span] = []
    for start, end in pairwise([*bounds, len(text)]):
        line = plain[start:end]
        if line and not line.isspace():
            sentences += _split_line(line, start)
    return tuple(sentences)


class GrowingText:
    """A text that comes in pieces, and its sentences as they become complete.

    A sentence is complete when the first word of the next one is: until then a full stop may belong
    to an abbreviation, and a quotation may go on. How the text was cut into pieces changes nothing.

    Attributes:
        text: The text so far.
        start: First character after the sentences that are complete.
    """

    def __init__(self, before: str = "") -> None:
        """Begin with text that ends with a complete sentence, or without any."""
        self.text = before
        self.start = self._checked = len(before)

    def append(self, text: str) -> list[Span]:
        """Append a piece; return the sentences that it completes."""
        self.text += text
        completed: list[Span] = []
        while match := _WORD_END.search(self.text, self._checked):
            self._checked = match.end()
            pending = self.text[self.start : match.end() + 1]
            spans = split_sentences(pending)[:-1]
            if not spans and len(pending) > _LONGEST:
                spans = split_sentences(pending)
            completed += self._complete(spans)
        return completed

    def rest(self) -> list[Span]:
        """Return what is not complete as the last sentences."""
        return self._complete(split_sentences(self.text[self.start :]))

    def _complete(self, spans: tuple[Span, ...]) -> list[Span]:
        completed = [Span(self.start + span.start, self.start + span.end) for span in spans]
        if completed:
            self.start = self._checked = completed[-1].end
        return completed


def _split_line(line: str, offset: int) -> list[Span]:
    """Split a line that is not blank; ``offset`` is its start in the text."""
    pieces = []
    for start, end in pairwise(sorted({0, len(line), *_line_starts(line)})):
        piece = line[start:end]
        begin = start + len(piece) - len(piece.lstrip(" "))
        if length := len(piece.strip(" ")):
            pieces.append((begin, begin + length))

    joined: list[tuple[int, int]] = []
    for begin, end in reversed(pieces):
        if joined and _LIST_MARK.fullmatch(line, begin, end):
            joined[-1] = begin, joined[-1][1]
        else:
            joined.append((begin, end))
    joined.reverse()
    if len(joined) > 1 and _LIST_MARK.fullmatch(line, *joined[-1]):
        _, end = joined.pop()
        joined[-1] = joined[-1][0], end
    return [Span(offset + begin, offset + end) for begin, end in joined]


def _line_starts(line: str) -> Iterator[int]:
    """Yield the start of every sentence of a line except the first."""
    yield from (match.end() for match in _END.finditer(line) if match.end() < len(line))
    for start in _sentence_starts(line):
        before = max(0, start - _LOOK_BACK)
        if not _NO_END.search(line, before, start):
            mark = _ITEM_MARK.search(line, before, start)
            yield mark.start(1) if mark else start


def _sentence_starts(line: str) -> list[int]:
    """Return where the splitter starts the sentences of a line, except the first.

    A long line is read in stretches. The last sentence of a stretch may continue after it, so the
    next stretch begins with that sentence.
    """
    import sentencex

    starts: list[int] = []
    begin = 0
    while begin < len(line):
        stretch = line[begin : begin + _STRETCH]
        try:
            boundaries = sentencex.get_sentence_boundaries(LANGUAGE, stretch)
            in_stretch = [begin + b["start_index"] for b in boundaries if b["start_index"]]
        except BaseException as error:
            # A panic derives from BaseException, and its class cannot be imported.
            if type(error).__name__ != "PanicException":
                raise
            _log.warning("sentencex panicked on %d characters; split them at stops", len(stretch))
            in_stretch = [begin + stop.end() for stop in _STOP.finditer(stretch)]
        starts += in_stretch
        begin += len(stretch)
        if in_stretch and begin < len(line):  # else the end, or a sentence longer than a stretch
            begin = in_stretch[-1]
    return starts
