"""Does the model read the passages, or the style of the answer?

python -m benchmarks.swapped_contexts --data ragtruth:data/ragtruth [--split dev] [--bundle DIR]

Every answer is judged twice: with its own contexts and with those of the next source document. The
labels stay. A model that reads the passages loses its AUROC on swapped ones; what is left is what
style alone gives away.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.altered_rows import measured
from trivet.data.labelled.sources import load_source
from trivet.evaluation.evaluator import Evaluator
from trivet.records import LabelledExample, RagExample


def swapped(examples: Sequence[LabelledExample]) -> list[RagExample]:
    """Give each example the contexts of the group after its own."""
    contexts = {labelled.group: labelled.example.contexts for labelled in examples}
    groups = sorted(contexts)
    following = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
    return [
        replace(
            labelled.example, contexts=contexts[following[labelled.group]], context_sentences=None
        )
        for labelled in examples
    ]


def main() -> None:
    """Print the AUROC of both, with intervals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--bundle", type=Path)
    given = parser.parse_args()
    examples, _ = load_source(given.data, given.split)
    evaluator = Evaluator(given.bundle)
    for name, inputs in (
        ("own contexts", [labelled.example for labelled in examples]),
        ("swapped contexts", swapped(examples)),
    ):
        table = measured(evaluator, examples, inputs, ["hallucination_auroc"])
        print(f"{name}\n\n{table}")


if __name__ == "__main__":
    main()
