"""The heads of a model in one table, which all other parts read; imports nothing of the package.

A new head needs its line here, its logits (``model.rag_model``), their joining
(``model.aggregate``), its loss (``training.lightning_module``) and its place in the verdict
(``evaluation.postprocessing``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

HeadName = Literal["support", "relevance", "utilization", "evidence"]
HEAD_NAMES: tuple[HeadName, ...] = get_args(HeadName)
EVIDENCE_STATES = 64  # width of the evidence head: a response's half, then a context's half


@dataclass(frozen=True)
class Head:
    """All that other parts must know of a head.

    Attributes:
        width: Logits of a position.
        labels: Fields of ``records.Labels`` that teach it.
        taught_by: Words for these labels in messages.
        losses: Names of its losses.
        weights: Settings of their weights (``configs.schema.LossConfig``).
        measure: Sign and dev measure by which it enters the score of a checkpoint.
        outputs: Names in ``HEAD_OUTPUTS`` of what needs it.
        inputs: Fields of ``data.windows.Windows`` that it reads besides what every head reads.
        verdict: Fields of a verdict that are None without it.
        optional: Whether a model has it only if it is asked for.
    """

    width: int
    labels: tuple[str, ...]
    taught_by: str
    losses: tuple[str, ...]
    weights: tuple[str, ...]
    measure: tuple[int, str]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    verdict: tuple[str, ...]
    optional: bool = False


# Shape and meaning of each field of ``model.aggregate.Outputs``, in order; all are float32.
HEAD_OUTPUTS: dict[str, tuple[tuple[str, ...], str]] = {
    "support_probs": (("B", "R"), "probability that the contexts support this response token"),
    "relevance_probs": (
        ("B", "C"),
        "probability that this context token helps to answer the question",
    ),
    "utilization_probs": (
        ("B", "C"),
        "probability that the response drew on this context token",
    ),
    "sentence_support": (
        ("B", "S"),
        "probability that the contexts support this response sentence",
    ),
    "faithfulness": (("B",), "support of the weakest part or parts of the response"),
    "relevance": (
        ("B",),
        "expected share of the context sentences that help to answer the question",
    ),
    "utilization": (
        ("B",),
        "expected share of the context sentences that the response drew on",
    ),
    "completeness": (("B",), "share of the relevant context that the response drew on"),
    "evidence_states": (
        ("N", "L", "P"),
        "states of the window's positions, compared by dot products of sentences",
    ),
}

_SUPPORT_LOSSES = ("window", "token", "verdict", "opposites")
_CONTEXT = ("context_at", "context_weight")

HEADS: dict[HeadName, Head] = {
    "support": Head(
        width=3,  # entailment, neutral, contradiction; an imported model has two
        labels=("unsupported", "adherent"),
        taught_by="the unsupported parts of its response",
        losses=_SUPPORT_LOSSES,
        weights=_SUPPORT_LOSSES,
        measure=(1, "hallucination_auroc"),
        outputs=("support_probs", "sentence_support", "faithfulness"),
        inputs=("response_at", "sentence_pool", "sentence_features"),
        verdict=("faithfulness", "supported_share", "adherent"),
    ),
    "relevance": Head(
        width=1,
        labels=("relevant", "relevance"),
        taught_by="the relevant parts of its contexts",
        losses=("relevance", "relevance_share"),
        weights=("relevance", "share"),
        measure=(-1, "relevance_rmse"),
        outputs=("relevance_probs", "relevance", "completeness"),
        inputs=(*_CONTEXT, "question_overlap"),
        verdict=("relevance", "completeness"),
    ),
    "utilization": Head(
        width=1,
        labels=("utilized", "utilization"),
        taught_by="the used parts of its contexts",
        losses=("utilization", "utilization_share"),
        weights=("utilization", "share"),
        measure=(-1, "utilization_rmse"),
        outputs=("utilization_probs", "utilization", "completeness"),
        inputs=(*_CONTEXT, "response_overlap"),
        verdict=("utilization", "completeness"),
    ),
    "evidence": Head(
        width=EVIDENCE_STATES,
        labels=("evidence",),
        taught_by="the evidence of a response sentence",
        losses=("evidence", "similarity"),
        weights=("evidence", "similarity"),
        measure=(1, "evidence_auroc"),
        outputs=("evidence_states",),
        inputs=(),
        verdict=("evidence",),
        optional=True,  # needs labels that few data sets have
    ),
}
DEFAULT_HEADS: tuple[HeadName, ...] = tuple(n for n, head in HEADS.items() if not head.optional)
CONTEXT_HEADS: tuple[HeadName, ...] = tuple(
    name for name, head in HEADS.items() if "context_at" in head.inputs
)
