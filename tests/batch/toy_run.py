"""Judge a log with a toy backend in a process that a test may kill: ``toy_run.py BUNDLE LOG OUT``.

The numbers depend on everything in a call, so rows grouped otherwise after a restart would give
other bytes. Prints the resident memory in kilobytes every 10,000 rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from trivet.batch.run import evaluate_to_file
from trivet.batch.run_settings import RunSettings
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.logs.log import Log
from trivet.model.aggregate import Outputs, gather_tokens, join, supported_anywhere
from trivet.report.run_tally import RunTally


class ToyBackend:
    """Returns numbers by a formula on all ids of a call, and counts its ``calls``."""

    name = "toy"

    def __init__(self) -> None:
        self.calls = 0

    def run(self, windows: Windows) -> Outputs:
        """Run one call."""
        self.calls += 1
        ids = windows.input_ids * windows.attention_mask
        key = float((ids.astype(np.float64) ** 1.5).sum())
        values = np.mod(np.sin(ids * 12.9 + key * 0.37) * 437.58, 1.0)
        values = values.astype(np.float32).reshape(-1)
        return join(
            support_probs=supported_anywhere(values, windows.response_at),
            relevance_probs=gather_tokens(values, windows.context_at),
            utilization_probs=gather_tokens(values[::-1], windows.context_at),
            response_mask=windows.response_at.max(axis=-1) >= 0,
            context_weight=windows.context_weight,
            sentence_pool=windows.sentence_pool,
            sentence_features=windows.sentence_features,
            faithfulness="weakest_sentence",
        )


def tell_memory(tally: RunTally) -> None:
    """Print the resident memory now and then."""
    rows = tally.rows
    if rows % 10_000 < 64 and tally.evaluated:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        memory = next(line.split()[1] for line in status.splitlines() if "VmRSS" in line)
        sys.stdout.write(f"{rows} {memory}\n")


if __name__ == "__main__":
    bundle, log, out = sys.argv[1:]
    evaluator = Evaluator(bundle, backend=ToyBackend())
    evaluate_to_file(evaluator, Log(log), Path(out), RunSettings(), tell_memory)
