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
    rows = sum(one.adherent != other.adherent for one, other in pairs)
    sentences = [
        mine.supported != theirs.supported
        for one, other in pairs
        for mine, theirs in zip(one.sentences, other.sentences, strict=True)
    ]
    gaps = [
        abs(one.faithfulness - other.faithfulness)
        for one, other in pairs
        if one.faithfulness is not None and other.faithfulness is not None
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
    given = flags.parse_args(arguments)
    rows = load(given)
    labelled = rows[:: max(1, len(rows) // given.rows)][: given.rows]
    plain = [
        RagExample(each.example.question, each.example.contexts, each.example.response)
        for each in labelled
    ]
    written = [replace(each, contexts=tuple(map(as_json, each.contexts))) for each in plain]
    evaluator = Evaluator(given.bundle, given.threads)

    def verdicts(examples: Sequence[RagExample], *, structured: bool) -> list[Evaluation]:
        evaluator.preprocessor = replace(evaluator.preprocessor, structured=structured)
        found = list(evaluator.evaluate_many(examples))
        return [each for each in found if isinstance(each, Evaluation)]

    expected = verdicts(plain, structured=True)
    print("| JSON read as | responses changed | sentences changed | mean change of faithfulness |")
    print("|---|---:|---:|---:|")
    for name, structured in (("text", False), ("key: value", True)):
        print(f"| {name} {changed(expected, verdicts(written, structured=structured))}")


if __name__ == "__main__":
    main()
