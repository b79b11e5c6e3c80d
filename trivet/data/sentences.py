"""Text to sentence spans, for texts that do not bring their own sentences.

The work is done by sentencex, behind a guard: on a letter followed by certain white space and a
full stop it panics with an exception that no ``except Exception`` catches, and it refuses lone
surrogates. Both are mapped away first without changing any offset; should it panic all the same,
syntok takes over.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from itertools import pairwise

from trivet.records import Span, replace_surrogates

LANGUAGE = "en"
"""The language whose abbreviations are known; the stops of other scripts divide all the same."""

_log = logging.getLogger(__name__)

# Every white space but the space itself. The splitter panics on some of those that take more than
# one byte, and does not divide lines that follow a line break and begin with a number.
_PLAIN_SPACE = str.maketrans(
    dict.fromkeys(
        "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
        "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
        " ",
    )
)
# Characters that the splitter reads at once: quotes cost it the square of how many there are.
_STRETCH = 20_000
_LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n|\u2029")
_LETTERED_ITEM = re.compile(r"\w{1,4}[.)]\s")
_LIST_MARK = re.compile(r"(?:\W|_|\d{1,3}(?!\d)|\b[A-Za-z]\b)+")


def split_sentences(text: str) -> tuple[Span, ...]:
    """Split a text into its sentences.

    A line break ends a sentence unless the next line goes on in lower case: answers come as lists,
    passages as tables and headings, and both wrap. Within a line the splitter decides, except that
    a piece that is only a list mark or punctuation ("2.") belongs to the sentence after it.

    Args:
        text: Any string.

    Returns:
        Spans in order, without overlap, free of white space at both ends, which together cover
        every character of ``text`` that is not white space. Empty for a text without any.
    """
    plain = replace_surrogates(text)[0].translate(_PLAIN_SPACE)
    bounds = [0, *_line_starts(text), len(text)]
    sentences: list[Span] = []
    for start, end in pairwise(bounds):
        line = plain[start:end]
        if line and not line.isspace():
            sentences += _split_line(line, start)
    return tuple(sentences)


def _line_starts(text: str) -> Iterator[int]:
    for match in _LINE_BREAK.finditer(text):
        start = match.end()
        wrapped = text[start : start + 1].islower() and not _LETTERED_ITEM.match(text, start)
        if not wrapped or _BLANK_LINE.search(match.group()):
            yield start


def _split_line(line: str, offset: int) -> list[Span]:
    """Split a line that holds more than white space; ``offset`` is where it starts in its text."""
    cuts = sorted({0, len(line), *_sentence_starts(line)})
    pieces = []
    for start, end in pairwise(cuts):
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


def _sentence_starts(line: str) -> list[int]:
    """Return where the sentences of a line start, but for the first; long lines in stretches.

    The last sentence of a stretch may go on behind it, so the next stretch begins with it again.
    """
    starts: list[int] = []
    begin = 0
    while begin < len(line):
        stretch = line[begin : begin + _STRETCH]
        found = [begin + start for start in _starts_in(stretch) if start > 0]
        starts += found
        begin += len(stretch)
        if found and begin < len(line):  # else to the end, or on within one very long sentence
            begin = found[-1]
    return starts


def _starts_in(line: str) -> list[int]:
    """Return where sentences start, by sentencex, or by syntok where that panics."""
    import sentencex

    try:
        boundaries = sentencex.get_sentence_boundaries(LANGUAGE, line)
    except BaseException as error:
        # A panic derives from BaseException, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        _log.warning("sentencex panicked on %d characters; syntok read them instead", len(line))
        return _sentence_starts_by_syntok(line)
    return [int(boundary["start_index"]) for boundary in boundaries]


def _sentence_starts_by_syntok(line: str) -> list[int]:
    from syntok import segmenter

    return [
        int(sentence[0].offset)
        for paragraph in segmenter.analyze(line)
        for sentence in paragraph
        if sentence
    ]
