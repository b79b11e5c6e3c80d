"""Hallucination AUROC with every answer's own contexts and with those of another document.

python -m benchmarks.swapped_contexts --data ragtruth:data/ragtruth [--split dev] [--bundle DIR]

The labels stay. A model that reads the passages loses its AUROC on swapped ones; what remains comes
from the style of the answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.labelled import auroc_table, data_parser, load
from trivet.evaluation.evaluator import Evaluator
from trivet.records import LabelledExample, RagExample


def swapped(examples: Sequence[LabelledExample]) -> list[RagExample]:
    """Return each example with the contexts of the next group."""
    contexts = {labelled.group: labelled.example.contexts for labelled in examples}
    groups = sorted(contexts)
    following = dict(zip(groups, [*groups[1:], groups[0]], strict=True))
    return [
        replace(
            labelled.example, contexts=contexts[following[labelled.group]], context_sentences=None
        )
        for labelled in examples
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the AUROC of both, with intervals."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path)
    options = flags.parse_args(arguments)
    examples, evaluator = load(options), Evaluator(options.bundle)
    for name, inputs in (
        ("own contexts", [labelled.example for labelled in examples]),
        ("swapped contexts", swapped(examples)),
    ):
        print(f"{name}\n\n{auroc_table(evaluator, examples, inputs)}")


if __name__ == "__main__":
    main()
