"""Evaluate a log as a stream and list its answers from the least to the most faithful.

    python examples/evaluate_a_log.py [LOG.jsonl]

Each line of the log is an object with ``question``, ``contexts`` and ``response``. Failed rows are
listed last, with the reason. For the log beside it, this prints:

    id                       faithfulness  relevance  unsupported
    apple-invented                    0.0        0.2  Water a young apple tree twice a week [...]
    contract-extra-fee                0.5        0.3  It may be cancelled with a notice of [...]
    pump-wrong-valve                  0.5        0.2  Close the suction valve, then wait ten [...]
    library-extra-fact                0.7        0.3
    pump-good                         0.9        0.2
    library-good                      1.0        0.3
    apple-not-there                  none        0.2
    release-before-answer            none        0.3
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import shorten

import trivet
from trivet.records import FailedEvaluation

LOG = Path(__file__).with_name("rag_log.jsonl")


def read_log(path: Path) -> Iterator[trivet.RagExample]:
    """Yield one example per line, so that memory does not grow with the log."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield trivet.RagExample(
                row["question"], tuple(row["contexts"]), row["response"], id=row.get("id")
            )


def main(path: Path = LOG) -> None:
    """Evaluate every row and print one line for each."""
    evaluator = trivet.Evaluator()
    verdicts, failed = [], []
    for verdict in evaluator.evaluate_many(read_log(path)):
        if isinstance(verdict, FailedEvaluation):
            failed.append(verdict)
        else:
            verdicts.append(verdict)
    # Without a response there is no faithfulness.
    verdicts.sort(key=lambda verdict: 2.0 if verdict.faithfulness is None else verdict.faithfulness)
    print(f"{'id':24}{'faithfulness':>13}{'relevance':>11}  unsupported")
    for verdict in verdicts:
        scores = [verdict.faithfulness, verdict.relevance]
        shown = ["none" if score is None else f"{score:.1f}" for score in scores]
        wrong = " ".join(part.text for part in verdict.sentences if part.supported is False)
        print(f"{verdict.id:24}{shown[0]:>13}{shown[1]:>11}  {shorten(wrong, 45)}".rstrip())
    for failure in failed:
        print(f"{failure.id:24}{failure.code:>13}  {failure.message}")


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))
