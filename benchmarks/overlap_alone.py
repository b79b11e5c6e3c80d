"""How well does counting shared words tell made-up answers, without any model?

python -m benchmarks.overlap_alone --data ragbench:data/ragbench [--split dev]

What a model must beat: `trivet.data.lexical_overlap` in place of an engine, so that a response is supported
as far as the contexts hold the words of its weakest sentence. Nothing is trained, so any rows will
do, those that models were trained on as well.
"""

from __future__ import annotations

import argparse

from benchmarks.altered_rows import measured
from trivet.data.labelled.sources import load_source
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs, join


class OverlapEngine:
    """Answers with overlaps in place of probabilities."""

    name = "shared words"

    def run(self, windows: Windows) -> Outputs:
        """Join the overlaps as a model's probabilities are joined."""
        return join(
            support_probs=windows.context_overlap,
            relevance_probs=windows.question_overlap,
            utilization_probs=windows.response_overlap,
            response_mask=windows.response_at.max(axis=-1) >= 0,
            context_weight=windows.context_weight,
            sentence_pool=windows.sentence_pool,
            faithfulness="weakest_sentence",
        )


def main() -> None:
    """Print the AUROC of every source, with intervals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", required=True)
    parser.add_argument("--split", default="dev")
    given = parser.parse_args()
    examples, _ = load_source(given.data, given.split)
    inputs = [labelled.example for labelled in examples]
    evaluator = Evaluator(backend=OverlapEngine())
    print(measured(evaluator, examples, inputs, ["hallucination_auroc"]))


if __name__ == "__main__":
    main()
