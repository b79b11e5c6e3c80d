"""Agreement of rows that ``trivet annotate`` labelled with the published labels, by field.

python -m benchmarks.annotation_agreement labelled.jsonl --data ragbench:data/ragbench [--split dev]

Cohen's kappa with 95 % intervals over source documents. A sentence has a label if a labelled span
overlaps it; the sentences are those of the published rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from trivet.data.sentences import split_sentences
from trivet.labelled.labelled_jsonl import read_jsonl
from trivet.measures.intervals import Draws, kappa
from trivet.records import ContextSpan, LabelledExample, RagExample, Span

Decision = tuple[str, bool, bool]
"""Field, decision of the model, published decision."""


def decisions(ours: LabelledExample, published: LabelledExample) -> Iterator[Decision]:
    """Yield what both decided on a row, its response sentences and its context sentences."""
    mine, theirs, example = ours.labels, published.labels, published.example
    if mine.adherent is not None and theirs.adherent is not None:
        yield "response adherent", mine.adherent, theirs.adherent
    if mine.unsupported is not None and theirs.unsupported is not None:
        for at in example.response_sentences or split_sentences(example.response):
            supported = not touches(at, mine.unsupported), not touches(at, theirs.unsupported)
            yield "response sentence supported", *supported
    for field in ("relevant", "utilized"):
        ours_at, published_at = getattr(mine, field), getattr(theirs, field)
        if ours_at is not None and published_at is not None:
            for context, at in context_sentences(example):
                yield (
                    f"context sentence {field}",
                    *(
                        touches(at, [span for span in ours_at if span.context == context]),
                        touches(at, [span for span in published_at if span.context == context]),
                    ),
                )


def context_sentences(example: RagExample) -> Iterator[tuple[int, Span]]:
    """Yield the position of the context and the characters of each context sentence."""
    known = example.context_sentences or map(split_sentences, example.contexts)
    for context, sentences in enumerate(known):
        for at in sentences:
            yield context, at


def touches(at: Span, spans: Sequence[Span | ContextSpan]) -> bool:
    """Return whether a span shares a character with a sentence."""
    return any(span.start < at.end and at.start < span.end for span in spans)


def line(field: str, found: Sequence[tuple[str, str, bool, bool]]) -> tuple[str, ...]:
    """Return one field: n, the shares of yes, the share of equal decisions, and kappa."""
    groups = [group for group, _, _, _ in found]
    ours, published = np.array([pair[2:] for pair in found], dtype=np.float64).T
    estimate = Draws(groups, field, 1000).estimate(kappa(ours, published), np.arange(len(found)))
    shares = (ours.mean(), published.mean(), (ours == published).mean())
    return (
        field,
        str(len(found)),
        *(f"{share:.2f}" for share in shares),
        "undefined" if estimate.value is None else f"{estimate.value:.2f}",
        "undefined" if (at := estimate.interval()) is None else f"{at[0]:.2f} to {at[1]:.2f}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the agreement by field."""
    flags = data_parser(__doc__)
    flags.add_argument("labelled", help="output of trivet annotate")
    given = flags.parse_args(arguments)
    published = {row.example.id: row for row in load(given)}
    rows = [row for row in read_jsonl(Path(given.labelled))[0] if row.example.id in published]
    found = [
        (published[row.example.id].group, *one)
        for row in rows
        for one in decisions(row, published[row.example.id])
    ]
    lines = [
        line(field, [each for each in found if each[1] == field])
        for field in dict.fromkeys(field for _, field, _, _ in found)
    ]
    if not rows:
        raise SystemExit(f"no row of {given.labelled} has the id of a published row")
    header = ("field", "n", "model", "published", "equal", "kappa", "95 % interval")
    print(Table(f"{len(rows)} rows", header, lines).to_markdown())


if __name__ == "__main__":
    main()
