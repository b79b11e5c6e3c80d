"""Verdicts that change when passages come as JSON, read as text and as lines of "key: value".

python -m benchmarks.structured_contexts --data ragbench:data/ragbench [--split dev] [--rows 60]

Each passage becomes an object with the list of its sentences. The texts say the same, so no verdict
should change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.labelled import data_parser, load
from trivet.data.sentences import split_sentences
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, RagExample


def as_json(passage: str) -> str:
    """Return a passage as an object of JSON."""
    sentences = [passage[span.start : span.end] for span in split_sentences(passage)]
    return json.dumps({"sentences": sentences}, indent=1)


def changed(before: Sequence[Evaluation], after: Sequence[Evaluation]) -> str:
    """Return how many verdicts on responses and on sentences differ, and the mean difference."""
    pairs = list(zip(before, after, strict=True))
    rows = sum(before.adherent != other.adherent for before, other in pairs)
    sentences = [
        mine.supported != theirs.supported
        for before, other in pairs
        for mine, theirs in zip(before.sentences, other.sentences, strict=True)
    ]
    gaps = [
        abs(before.faithfulness - other.faithfulness)
        for before, other in pairs
        if before.faithfulness is not None and other.faithfulness is not None
    ]
    return (
        f"| {rows} of {len(pairs)} | {sum(sentences)} of {len(sentences)} "
        f"| {sum(gaps) / max(1, len(gaps)):.3f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table of both ways of reading."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    flags.add_argument("--rows", type=int, default=60)
    flags.add_argument("--threads", type=int)
    options = flags.parse_args(arguments)
    rows = load(options)
    labelled = rows[:: max(1, len(rows) // options.rows)][: options.rows]
    plain = [
        RagExample(row.example.question, row.example.contexts, row.example.response)
        for row in labelled
    ]
    written = [
        replace(example, contexts=tuple(map(as_json, example.contexts))) for example in plain
    ]
    evaluator = Evaluator(options.bundle, options.threads)

    def verdicts(examples: Sequence[RagExample], *, structured: bool) -> list[Evaluation]:
        evaluator.preprocessor = replace(evaluator.preprocessor, structured=structured)
        results = list(evaluator.evaluate_many(examples))
        return [result for result in results if isinstance(result, Evaluation)]

    expected = verdicts(plain, structured=True)
    print("| JSON read as | responses changed | sentences changed | mean change of faithfulness |")
    print("|---|---:|---:|---:|")
    for name, structured in (("text", False), ("key: value", True)):
        print(f"| {name} {changed(expected, verdicts(written, structured=structured))}")


if __name__ == "__main__":
    main()
