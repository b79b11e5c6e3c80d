"""Hallucination AUROC of counting shared words, without any model: the baseline to beat.

python -m benchmarks.overlap_alone --data ragbench:data/ragbench [--split dev]

A response is supported as far as the contexts hold the words of its weakest sentence
(``trivet.data.lexical_overlap``). Nothing is trained, so any split will do.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.labelled import auroc_table, data_parser, load
from trivet.evaluation.evaluator import Evaluator
from trivet.peers.evaluator_peer import OverlapBackend


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the AUROC of every source, with intervals."""
    examples = load(data_parser(__doc__).parse_args(arguments))
    inputs = [labelled.example for labelled in examples]
    print(auroc_table(Evaluator(backend=OverlapBackend()), examples, inputs))


if __name__ == "__main__":
    main()
