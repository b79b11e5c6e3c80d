"""Joining of windows: from windows to tokens to scores of an example. The only place for it.

The functions use the array API that numpy and torch share: they run in training, in the exported
graph and, with numpy, on the host. This file does not import torch.

Letters: M = N * L flat window positions, B examples, R response tokens, K copies of one response
token, C context tokens, S response sentences.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, cast

import array_api_compat
import numpy as np

from trivet.heads import EVIDENCE_STATES, HEADS, HeadName
from trivet.model.architecture import NO_LAYER, Reduction, SentenceLayer

Array = Any  # numpy.ndarray or torch.Tensor
_SMALL = 1e-9
_FINEST = 1e-7


class Outputs(NamedTuple):
    """Outputs of the model and of backends; the field names are the ONNX output names.

    All but the last are probabilities in [0, 1]; entries of padding are undefined but finite. A
    field that needs a head that the model lacks is None.
    """

    support_probs: Array  # support of each response token, [B, R]
    relevance_probs: Array  # relevance of each context token, [B, C]
    utilization_probs: Array  # utilization of each context token, [B, C]
    sentence_support: Array  # support of each response sentence, [B, S]
    faithfulness: Array  # support of the weakest part or parts of the response, [B]
    relevance: Array  # expected share of relevant context sentences, [B]
    utilization: Array  # expected share of utilized context sentences, [B]
    completeness: Array  # utilized share of what is relevant, [B]
    # states of all window positions, which ``evidence_logits`` compares, [N, L, P]
    evidence_states: Array = None

    def present(self) -> dict[str, Array]:
        """Return the fields that are not None by name."""
        return {name: output for name, output in self._asdict().items() if output is not None}


def output_names(heads: Collection[str]) -> tuple[str, ...]:
    """Return the fields of ``Outputs`` that a model with these heads has, in order."""
    lacking = [head.outputs for name, head in HEADS.items() if name not in heads]
    return tuple(
        name for name in Outputs._fields if not any(name in outputs for outputs in lacking)
    )


def outputs_from(arrays: Mapping[str, Array]) -> Outputs:
    """Return ``Outputs`` of some fields; the others are None."""
    return Outputs(*(arrays.get(name) for name in Outputs._fields))


def heads_of(outputs: Collection[str]) -> tuple[HeadName, ...]:
    """Return the heads of a model with these fields of ``Outputs``, in order."""
    return tuple(name for name, head in HEADS.items() if head.outputs[0] in outputs)


def unread_inputs(heads: Collection[str]) -> frozenset[str]:
    """Return the fields of ``Windows`` that no head of a model with these heads reads."""
    read = {field for name in heads for field in HEADS[cast(HeadName, name)].inputs}
    return frozenset(field for head in HEADS.values() for field in head.inputs) - read


def _namespace(array: Array) -> Any:
    """Return the array namespace; numpy itself, since ``array_api_compat.numpy`` loads slowly."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    return array_api_compat.array_namespace(array)


def gather_tokens(window_values: Array, at: Array, nothing: float = 0.0) -> Array:
    """Return the values at flat positions, or ``nothing`` at -1. *Shapes:* [M], any -> any."""
    xp = _namespace(window_values)
    real = at >= 0
    flat = xp.reshape(xp.where(real, at, 0), (-1,))
    values = xp.reshape(xp.take(window_values, flat, axis=0), at.shape)
    return xp.where(real, values, nothing)


def supported_anywhere(window_support: Array, response_at: Array, nothing: float = 0.0) -> Array:
    """Return each token's maximum support over its copies. *Shapes:* [M], [B, R, K] -> [B, R].

    Luna (arXiv 2406.00975), eq. 3: evidence in one window is enough. Support is a probability or a
    logit; ``nothing``, that of a token without a copy, is at most that of any other.
    """
    xp = _namespace(window_support)
    return xp.max(gather_tokens(window_support, response_at, nothing), axis=-1)


def split_evidence(response_at: Array, is_evidence: Array) -> tuple[Array, Array]:
    """Return the copies in ordinary windows and those in evidence windows, -1 for the others.

    *Shapes:* [B, R, K], [B, K] -> [B, R, K] x 2.
    """
    xp = _namespace(response_at)
    chosen = is_evidence[:, None, :]
    return xp.where(chosen, -1, response_at), xp.where(chosen, response_at, -1)


def join_evidence(
    support_logits: Array, evidence_logits: Array, gathered: Array, windows: Array
) -> Array:
    """Return each token's support by ordinary windows and by its evidence window, as logits.

    It is a mean: gathered evidence is a second opinion. Their maximum would make it one more place
    where support may be. If n ordinary ``windows`` show the token, the evidence window weighs
    1 / n, and at most one half: where more contexts are read, more sentences share words
    with the response by chance. *Shapes:* any x 4; ``gathered`` is false without evidence window,
    which leaves the first as it is.
    """
    xp = _namespace(support_logits)
    opinions = xp.where(windows > 2, windows, 2)
    weight = 1 / xp.asarray(opinions, dtype=support_logits.dtype)
    moved = support_logits + (evidence_logits - support_logits) * weight
    return xp.where(gathered, moved, support_logits)


def join_evidence_probs(
    support_probs: Array, evidence_probs: Array, gathered: Array, windows: Array
) -> Array:
    """Return the same as ``join_evidence`` for probabilities."""
    opinions = logits_of(support_probs), logits_of(evidence_probs)
    joined = join_evidence(*opinions, gathered, windows)
    xp = _namespace(support_probs)
    return xp.where(gathered, 1 / (1 + xp.exp(-joined)), support_probs)


def logits_of(probs: Array) -> Array:
    """Return the logits of probabilities; those nearer to 0 or 1 than 1e-7 count as 1e-7 from it.

    float32 tells no finer differences.
    """
    xp = _namespace(probs)
    inner = xp.clip(probs, _FINEST, 1 - _FINEST)
    return xp.log(inner) - xp.log1p(-inner)


def weigh_sentences(support: Array, features: Array, layer: SentenceLayer) -> Array:
    """Return the support of sentences. *Shapes:* [B, S], [B, S, F] -> [B, S].

    sigmoid(scale * logit(mean support) + weights . features + shift).
    """
    if layer == NO_LAYER:
        return support + 0 * features[..., 0]  # unchanged; the graph reads all its inputs
    xp = _namespace(support)
    logits = layer.scale * logits_of(support) + layer.shift
    for number, weight in enumerate(layer.weights):
        logits = logits + weight * features[..., number]
    return 1 / (1 + xp.exp(-logits))


def sentence_means(support_probs: Array, sentence_pool: Array) -> Array:
    """Return the mean over each sentence's tokens. *Shapes:* [B, R], [B, S, R] -> [B, S]."""
    xp = _namespace(support_probs)
    return xp.sum(sentence_pool * support_probs[:, None, :], axis=-1)


def evidence_logits(states: Array, response_pool: Array, context_pool: Array) -> Array:
    """Return how well each context sentence of a window supports each response sentence.

    A scaled dot product of the mean states of their tokens, of which the first half belongs to
    responses and the second to contexts. The scale keeps the states small, so that rounding them
    in int8 stays below the tolerance for probabilities.

    *Shapes:* [N, L, P], [N, S, L], [N, X, L] -> [N, S, X].
    """
    half = EVIDENCE_STATES // 2
    answered, read = response_pool @ states[..., :half], context_pool @ states[..., half:]
    return half * (answered @ read.swapaxes(-1, -2))


def weakest(probs: Array, real: Array) -> Array:
    """Return the minimum over real entries, 1 without any. *Shapes:* [B, X], [B, X] -> [B].

    Luna (arXiv 2406.00975), eq. 4: a response is as faithful as its weakest part.
    """
    xp = _namespace(probs)
    return xp.min(xp.where(real, probs, 1.0), axis=-1)


def two_weakest(probs: Array, real: Array) -> Array:
    """Return two thirds of the minimum over real entries and one third of the next one.

    The more sentences a response has, the lower its weakest is by chance; two low ones are less
    often chance. It is the minimum if there is one entry, and 1 without any.
    *Shapes:* [B, X], [B, X] -> [B].
    """
    xp = _namespace(probs)
    lowest = weakest(probs, real)
    at_lowest = real & (probs <= lowest[:, None])
    above = real & ~at_lowest
    has_next = (xp.sum(at_lowest, axis=-1) == 1) & (xp.sum(above, axis=-1) > 0)
    following = xp.where(has_next, weakest(probs, above), lowest)
    return lowest + (following - lowest) / 3  # exact if both are equal


def response_support(
    support_probs: Array,
    response_mask: Array,
    sentence_support: Array,
    sentence_mask: Array,
    faithfulness: Reduction,
) -> Array:
    """Return the support of whole responses. *Shapes:* [B, R] x 2, [B, S] x 2 -> [B]."""
    if faithfulness == "weakest_token":
        return weakest(support_probs, response_mask)
    if faithfulness == "weakest_sentence":
        return weakest(sentence_support, sentence_mask)
    return two_weakest(sentence_support, sentence_mask)


def weighted_share(probs: Array, context_weight: Array) -> Array:
    """Return the expected share of sentences. *Shapes:* [B, C], [B, C] -> [B].

    The mean over sentences of their mean probability (TRACe, arXiv 2407.11005, eq. 1 to 3); weights
    sum to 1 and are 0 on padding.
    """
    xp = _namespace(probs)
    return xp.sum(context_weight * probs, axis=-1)


def completeness(relevance_probs: Array, utilization_probs: Array, context_weight: Array) -> Array:
    """Return the utilized share of what is relevant. *Shapes:* [B, C] x 3 -> [B].

    TRACe (arXiv 2407.11005), eq. 4, in expectation; 0 if nothing is relevant. Relevance and
    utilization are strongly dependent, so the probability of both is taken as the smaller of the
    two and not as their product (measured in docs/experiments.md).
    """
    xp = _namespace(relevance_probs)
    relevant = weighted_share(relevance_probs, context_weight)
    both = weighted_share(xp.minimum(relevance_probs, utilization_probs), context_weight)
    # Below the least share the quotient falls to 0 without a jump, on either side of which a graph
    # and the weights might be.
    return both / xp.where(relevant > _SMALL, relevant, _SMALL)


def join(
    support_probs: Array | None,
    relevance_probs: Array | None,
    utilization_probs: Array | None,
    response_mask: Array,
    context_weight: Array,
    sentence_pool: Array,
    sentence_features: Array,
    faithfulness: Reduction,
    layer: SentenceLayer = NO_LAYER,
) -> Outputs:
    """Join token probabilities, None for a head that the model lacks, into sentences and examples.

    A zero row of ``sentence_pool`` is padding or a sentence without a claim: its support is 1, and
    it counts in no response.

    *Shapes:* [B, R], [B, C], [B, C], [B, R], [B, C], [B, S, R], [B, S, F].
    """
    sentence_support = whole = both = None
    if support_probs is not None:
        xp = _namespace(sentence_pool)
        means = sentence_means(support_probs, sentence_pool)
        real = xp.sum(sentence_pool, axis=-1) > 0
        sentence_support = xp.where(real, weigh_sentences(means, sentence_features, layer), 1.0)
        whole = response_support(support_probs, response_mask, sentence_support, real, faithfulness)
    if relevance_probs is not None and utilization_probs is not None:
        both = completeness(relevance_probs, utilization_probs, context_weight)

    def share(probs: Array | None) -> Array | None:
        return None if probs is None else weighted_share(probs, context_weight)

    return Outputs(
        support_probs=support_probs,
        relevance_probs=relevance_probs,
        utilization_probs=utilization_probs,
        sentence_support=sentence_support,
        faithfulness=whole,
        relevance=share(relevance_probs),
        utilization=share(utilization_probs),
        completeness=both,
    )
