"""Hallucination AUROC between answers and their copies with one wrong value, by kind of value.

python -m benchmarks.twins --data ragbench:data/ragbench [--split dev] [--bundle DIR] [--pairs 60]

The wrong value comes from another sentence of the same contexts. ``copied``: the answer is a
sentence of the contexts. ``answered``: it is a sentence of a real answer that is supported. The
values are found by other rules than those that make the twins for training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from trivet.data.sentences import split_sentences
from trivet.evaluation.evaluator import Evaluator
from trivet.records import LabelledExample, RagExample, Span

_KINDS = {
    "number": re.compile(r"(?<=[a-z,] )\d[\d,]*(?:\.\d+)?(?= [a-z])"),
    "date": re.compile(r"(?<=\b[oi]n )(?:[A-Z][a-z]{2,8} )?(?:\d{1,2}, )?[12]\d{3}\b"),
    "name": re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}(?: [A-Z][a-z]+)+"),
}


class Pair(NamedTuple):
    """An answer and its copy with one wrong value."""

    clean: RagExample
    changed: RagExample


def pairs(rows: Sequence[LabelledExample], kind: str, copied: bool, most: int) -> list[Pair]:
    """Return at most ``most`` pairs, one a row, in the rows' order."""
    found = []
    for number, row in enumerate(rows):
        random = np.random.default_rng(number)
        made = list(_pairs_of(row, _KINDS[kind], copied))
        if made:
            found.append(made[int(random.integers(len(made)))])
        if len(found) == most:
            break
    return found


def _pairs_of(row: LabelledExample, pattern: re.Pattern[str], copied: bool) -> Iterator[Pair]:
    example = row.example
    sources = [
        text[span.start : span.end] for text in example.contexts for span in split_sentences(text)
    ]
    given = sources if copied else _supported_sentences(row)
    for sentence in given:
        for match in pattern.finditer(sentence):
            if not any(match[0] in source for source in sources):
                continue
            wrong = [
                other[0]
                for source in sources
                if match[0] not in source
                for other in pattern.finditer(source)
                if other[0] not in sentence
            ]
            if wrong:
                changed = f"{sentence[: match.start()]}{wrong[0]}{sentence[match.end() :]}"
                yield Pair(
                    RagExample(example.question, example.contexts, sentence),
                    RagExample(example.question, example.contexts, changed),
                )


def _supported_sentences(row: LabelledExample) -> list[str]:
    text, labels = row.example.response, row.labels
    spans = row.example.response_sentences or split_sentences(text)
    if labels.unsupported is None:
        return []

    def clean(span: Span) -> bool:
        others = (*(labels.unsupported or ()), *labels.unclear)
        return all(other.end <= span.start or span.end <= other.start for other in others)

    return [text[span.start : span.end] for span in spans if clean(span)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the AUROC and the share of pairs in the right order, by kind."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--pairs", type=int, default=60, help="most pairs of each kind")
    given = flags.parse_args(arguments)
    rows, evaluator = load(given), Evaluator(given.bundle)
    header = ("answer", "wrong value", "pairs", "AUROC", "in the right order")
    table = Table("", header, [])
    for copied in (True, False):
        for kind in _KINDS:
            made = pairs(rows, kind, copied, given.pairs)
            inputs = [(x.question, x.contexts, x.response) for pair in made for x in pair]
            # A sentence is never empty, so every verdict has a faithfulness.
            scores = np.asarray(
                [1 - (evaluator.evaluate(*one).faithfulness or 0) for one in inputs]
            )
            clean, changed = scores[::2], scores[1::2]
            above = (changed[:, None] > clean) + (changed[:, None] == clean) / 2
            right = np.mean(changed > clean)
            answer = "copied" if copied else "answered"
            table.rows.append((answer, kind, len(made), f"{above.mean():.3f}", f"{right:.2f}"))
    print(table.to_markdown())


if __name__ == "__main__":
    main()
