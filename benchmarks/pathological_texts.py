"""What 21 texts that were made to hurt cost every function that reads a text.

python -m benchmarks.pathological_texts [--characters 200000]

Each function reads each text twice, of half the length and of the whole. The table names, for each
function, the text that took longest, its seconds, and by how much the second time exceeded the
first: about 2 where a function is linear, 4 where it is quadratic.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.engines import tokenizer_of
from benchmarks.report import Table, parser, publish
from trivet.data.files.csv_rows import read_csv
from trivet.data.files.json_documents import read_document
from trivet.data.files.json_lines import parse_line
from trivet.data.logs.context_values import read_contexts
from trivet.data.segment_tokenizer import SegmentTokenizer
from trivet.data.sentences import split_sentences
from trivet.data.spans import unsupported_spans
from trivet.data.tokenization import tokenize_examples
from trivet.data.windows import WindowSettings, lay_out
from trivet.records import ExampleError, RagExample, replace_surrogates
from trivet.report.pages import shown_text
from trivet.report.terminal import visible

Texts = Mapping[str, str]
Function = Callable[[str], object]

PIECES: Texts = {
    "one letter": "a",
    "one long word of digits": "0123456789",
    "dots": ".",
    "dots and spaces": ". ",
    "question marks and letters": "a?! b",
    "initials": "A. B. ",
    "abbreviations": "e.g. i.e. Dr. ",
    "numbers with points": "1.2.3,",
    "spaces": " ",
    "line breaks": "\n",
    "no-break spaces": "a\u00a0.\u2028",
    "quotes": "'",
    "escaped quotes": "\\'",
    "double quotes and commas": '",',
    "brackets": "[",
    "braces": '{"a":',
    "Chinese without a space": "水磨坊很旧",
    "accents upon accents": "e\u0301\u0301\u0301",
    "joined emoji": "👩\u200d🌾",
    "direction marks": "\u202ea\u202c",
    "lone surrogates and NUL": "\ud800\x00",
}


def build_functions(tokenizer: SegmentTokenizer) -> dict[str, Function]:
    """Return what reads a text of unknown origin, by name."""
    settings = WindowSettings(512)

    def cut(text: str) -> object:
        (read,) = tokenize_examples([RagExample("What?", (text,), "It is.")], tokenizer)
        return lay_out(read, settings, tokenizer.special)

    def spans(text: str) -> object:
        (segment,) = tokenizer.encode([text])
        support = np.arange(len(segment)) % 2 * 0.9
        return unsupported_spans(text, segment.offsets, support, 0.5)

    def contexts(text: str) -> object:
        return read_contexts(f"['{text}']")

    def line(text: str) -> object:
        return parse_line(f'{{"a": {text}'.encode("utf-8", "replace"))

    def document(text: str) -> object:
        return list(read_document(io.BytesIO(json.dumps([{"a": text}] * 3).encode())))

    def table(text: str) -> object:
        return list(read_csv(io.BytesIO(f"a,b\n1,{text}\n".encode("utf-8", "replace"))))

    return {
        "data.tokens: encode": lambda text: tokenizer.encode([text]),
        "records: replace_surrogates": replace_surrogates,
        "data.sentences: split_sentences": split_sentences,
        "data.reading, data.windows: read and cut": cut,
        "data.tokens, data.spans: unsupported_spans": spans,
        "data.context_values: read_contexts": contexts,
        "data.json_objects: parse_line": line,
        "data.json_rows: read_document": document,
        "data.csv_rows: read_csv": table,
        "report.shown_text": shown_text,
        "serve.terminal: visible": visible,
    }


def seconds_of(function: Function, text: str) -> float:
    """Return how long a function takes to read a text, or to refuse it."""
    started = time.perf_counter()
    try:
        function(text)
    except ExampleError:
        return time.perf_counter() - started
    return time.perf_counter() - started


def main(arguments: Sequence[str]) -> None:
    """Time every function on every text."""
    flags = parser(__doc__, repeats=1)
    flags.add_argument("--characters", type=int, default=200_000)
    given = flags.parse_args(arguments)
    rows = []
    for name, function in build_functions(tokenizer_of(Path(given.bundle))).items():
        worst = (0.0, 0.0, "")
        for kind, piece in PIECES.items():
            text = (piece * given.characters)[: given.characters]
            half = min(seconds_of(function, text[: len(text) // 2]) for _ in range(given.repeats))
            whole = min(seconds_of(function, text) for _ in range(given.repeats))
            worst = max(worst, (whole, half, kind))
        whole, half, kind = worst
        rows.append((name, kind, f"{whole:.3f}", f"{whole / half:.1f}"))
    title = f"{len(PIECES)} texts of {given.characters} characters, the worst of each function"
    header = ("function", "text", "seconds", "times half the text")
    publish("pathological_texts", [Table(title, header, rows)], given)


if __name__ == "__main__":
    main(sys.argv[1:])
