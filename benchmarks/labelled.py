"""Measures of altered or unusual predictions on labelled rows, shared by two benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.sources import load_source
from trivet.measures.figures import to_markdown
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import LabelledExample, RagExample


def data_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with ``--data`` and ``--split``."""
    flags = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    flags.add_argument("--data", required=True, help="such as ragbench:data/ragbench")
    flags.add_argument("--split", default="dev")
    return flags


def load(options: argparse.Namespace) -> Sequence[LabelledExample]:
    """Return the rows that the flags of ``data_parser`` name."""
    return load_source(options.data, options.split)[0]


def auroc_table(
    evaluator: Evaluator, labelled: Sequence[LabelledExample], inputs: Iterable[RagExample]
) -> str:
    """Evaluate the inputs; return the hallucination AUROC by source as a Markdown table."""
    results = evaluator.evaluate_many(inputs)
    figures = measure([Prediction(*pair) for pair in zip(labelled, results, strict=True)])
    return to_markdown(
        [f for f in figures if f.measure == "hallucination_auroc" and f.generator is None]
    )
