"""Advice about a run: its findings as sentences, the most frequent first."""

from __future__ import annotations

from trivet.report.tally import CONTEXT_IGNORED, MADE_UP, RETRIEVAL_POOR, Column, Tally

_REMEDIES = {
    MADE_UP: "have a sentence that no context supports. Read the worst of them below; then change "
    "the prompt or the generator.",
    RETRIEVAL_POOR: "have contexts that hardly help with the question. Improve the retriever, or "
    "check whether the documents hold the answer, before changing the prompt.",
    CONTEXT_IGNORED: "leave out much of what their contexts offer. Give fewer passages, the best "
    "ones first, or ask for complete answers in the prompt.",
}


def advice(counted: Tally) -> list[str]:
    """Return sentences about the failures of a run, and the groups that differ for certain."""
    evaluated = int((~counted.failed).sum())
    found = sorted(
        ((int(counted.kinds[kind].sum()), kind) for kind in _REMEDIES), key=lambda each: -each[0]
    )
    sentences = [
        f"{count:,} of {evaluated:,} answers ({100 * count / evaluated:.0f} %, {kind}) "
        f"{_REMEDIES[kind]}"
        for count, kind in found
        if count
    ]
    if evaluated and not sentences:
        sentences.append(f"Nothing: none of the {evaluated:,} answers has a kind of failure.")
    for column in counted.columns:
        sentences += _apart(counted, column)
    if failed := len(counted.rows) - evaluated:
        sentences.append(f"{failed:,} rows have no verdict: see the failed rows below.")
    return sentences


def _apart(counted: Tally, column: Column) -> list[str]:
    """Return a sentence if the best and the worst group have intervals that do not overlap."""
    means = [
        (mean, value)
        for place, value in enumerate(column.values)
        if (mean := counted.mean("faithfulness", column.codes == place)).low is not None
    ]
    if len(means) < 2:
        return []
    (low, worst), *_, (high, best) = sorted(means, key=lambda each: each[0].value or 0.0)
    if low.high is None or high.low is None or low.high >= high.low:
        return []
    return [
        f"By {column.name}, faithfulness is lowest for {worst} ({low.value:.2f}) and highest for "
        f"{best} ({high.value:.2f}), and their intervals do not overlap."
    ]
