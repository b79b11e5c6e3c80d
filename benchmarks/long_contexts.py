"""What becomes of the verdicts where the passages are many and most of them are a stranger's?

python -m benchmarks.long_contexts --data ragtruth:data/ragtruth [--split dev] [--bundle DIR]

Every answer is judged with its own passages, and with passages of other documents' rows put among
them. The labels stay: what a stranger's passage says supports nothing that was unsupported.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.altered_rows import measured
from trivet.backends.loading import load_tokenizer
from trivet.data.labelled.augmentation.context_padding import lengthen
from trivet.data.labelled.sources import load_source
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.lengths import count_tokens

MEASURES = ("hallucination_auroc", "hallucination_f1", "span_f1")


def main() -> None:
    """Print AUROC and F1 for each number of foreign passages, with intervals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--passages", type=int, nargs="+", default=[0, 8, 24])
    given = parser.parse_args()
    examples, _ = load_source(given.data, given.split)
    evaluator = Evaluator(given.bundle)
    tokenizer = load_tokenizer(evaluator.bundle)
    for passages in given.passages:
        longer = lengthen(examples, passages, seed=0)
        inputs = [labelled.example for labelled in longer]
        table = measured(evaluator, longer, inputs, MEASURES)
        tokens = sum(count_tokens(inputs, tokenizer)) / len(inputs)
        print(f"{passages} foreign passages, {tokens:.0f} tokens\n\n{table}")


if __name__ == "__main__":
    main()
