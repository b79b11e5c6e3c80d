"""The only place in the house where windows are joined: windows -> tokens -> one number.

Written against the array API that numpy and torch share: torch calls these functions in training
and in the exported graph, numpy calls them on the host. No torch is imported here.

Letters: M = N * L flat window positions, B examples, R response tokens, K copies of one response
token, C context tokens, S response sentences.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import array_api_compat
import numpy as np

from trivet.model.architecture import Reduction

# numpy.ndarray or torch.Tensor: the same code runs on both.
Array = Any

_SMALL = 1e-9


class Outputs(NamedTuple):
    """The model's and the engine's outputs; the field names are the ONNX output names.

    All are probabilities in [0, 1]; entries of padding are meaningless but finite.

    Attributes:
        support_probs: Support of each response token. *Shape:* [B, R].
        relevance_probs: Relevance of each context token. *Shape:* [B, C].
        utilization_probs: Utilization of each context token. *Shape:* [B, C].
        sentence_support: Mean support of each response sentence's tokens. *Shape:* [B, S].
        faithfulness: Support of the weakest part of the response. *Shape:* [B].
        relevance: Expected share of relevant context sentences. *Shape:* [B].
        utilization: Expected share of utilized context sentences. *Shape:* [B].
        completeness: Of what is relevant, the share utilized. *Shape:* [B].
    """

    support_probs: Array
    relevance_probs: Array
    utilization_probs: Array
    sentence_support: Array
    faithfulness: Array
    relevance: Array
    utilization: Array
    completeness: Array


def _namespace(array: Array) -> Any:
    """Return the functions of an array's library.

    numpy's own are the standard's, as far as they are used here, since numpy 2.0; importing
    ``array_api_compat.numpy`` would import all of numpy, and the first verdict would wait for that.
    """
    if isinstance(array, np.ndarray | np.generic):
        return np
    return array_api_compat.array_namespace(array)


def gather_tokens(window_values: Array, at: Array, nothing: float = 0.0) -> Array:
    """Read values of flat window positions at ``at``.

    Args:
        window_values: One value a window position. *Shape:* [M].
        at: Flat positions, -1 for none. *Shape:* any.
        nothing: What stands where ``at`` is -1.
    """
    xp = _namespace(window_values)
    real = at >= 0
    flat = xp.reshape(xp.where(real, at, 0), (-1,))
    values = xp.reshape(xp.take(window_values, flat, axis=0), at.shape)
    return xp.where(real, values, nothing)


def supported_anywhere(window_support: Array, response_at: Array, nothing: float = 0.0) -> Array:
    """A token is supported if **some** window supports it: the maximum over those that show it.

    Luna (arXiv 2406.00975), eq. 3. The maximum is of the *support* probability: evidence stands in
    one window, and the others must not count against it.

    Args:
        window_support: Support at every window position, a probability or its logit. *Shape:* [M].
        response_at: *Shape:* [B, R, K].
        nothing: The support of a token that no window shows; at most that of any other.

    Returns:
        *Shape:* [B, R].
    """
    xp = _namespace(window_support)
    return xp.max(gather_tokens(window_support, response_at, nothing), axis=-1)


def sentence_means(support_probs: Array, sentence_pool: Array) -> Array:
    """Average the tokens of each sentence. *Shapes:* [B, R], [B, S, R] -> [B, S]; 0 on padding."""
    xp = _namespace(support_probs)
    return xp.sum(sentence_pool * support_probs[:, None, :], axis=-1)


def weakest(probs: Array, real: Array) -> Array:
    """Return the minimum over what is real. *Shapes:* [B, X], [B, X] -> [B]; 1 where nothing is.

    Luna (arXiv 2406.00975), eq. 4: a response is as faithful as its weakest part.
    """
    xp = _namespace(probs)
    return xp.min(xp.where(real, probs, 1.0), axis=-1)


def weighted_share(probs: Array, context_weight: Array) -> Array:
    """Return the expected share of sentences. *Shapes:* [B, C], [B, C] -> [B].

    The mean over sentences of the sentence's mean probability, as TRACe (arXiv 2407.11005, eq. 1 to
    3) counts sentences; the weights sum to 1 and are 0 on padding.
    """
    xp = _namespace(probs)
    return xp.sum(context_weight * probs, axis=-1)


def completeness(relevance_probs: Array, utilization_probs: Array, context_weight: Array) -> Array:
    """Of what is relevant, return the share that is utilized. *Shapes:* [B, C] x 3 -> [B].

    TRACe (arXiv 2407.11005), eq. 4, in expectation; 0 where nothing is relevant at all. A response
    draws on what is relevant: the two marks are far from independent, and the probability of both
    is the smaller of the two, not their product (measured in docs/experiments.md).
    """
    xp = _namespace(relevance_probs)
    relevant = weighted_share(relevance_probs, context_weight)
    both = weighted_share(xp.minimum(relevance_probs, utilization_probs), context_weight)
    return both / xp.where(relevant > _SMALL, relevant, 1.0)


def join(
    support_probs: Array,
    relevance_probs: Array,
    utilization_probs: Array,
    response_mask: Array,
    context_weight: Array,
    sentence_pool: Array,
    faithfulness: Reduction,
) -> Outputs:
    """Join token probabilities into sentences and examples.

    Args:
        support_probs: *Shape:* [B, R].
        relevance_probs: *Shape:* [B, C].
        utilization_probs: *Shape:* [B, C].
        response_mask: True where the response token is real. *Shape:* [B, R].
        context_weight: *Shape:* [B, C].
        sentence_pool: *Shape:* [B, S, R].
        faithfulness: Whether the weakest token or the weakest sentence decides.
    """
    xp = _namespace(support_probs)
    sentence_support = sentence_means(support_probs, sentence_pool)
    if faithfulness == "weakest_token":
        weakest_part = weakest(support_probs, response_mask)
    else:
        weakest_part = weakest(sentence_support, xp.sum(sentence_pool, axis=-1) > 0)
    return Outputs(
        support_probs=support_probs,
        relevance_probs=relevance_probs,
        utilization_probs=utilization_probs,
        sentence_support=sentence_support,
        faithfulness=weakest_part,
        relevance=weighted_share(relevance_probs, context_weight),
        utilization=weighted_share(utilization_probs, context_weight),
        completeness=completeness(relevance_probs, utilization_probs, context_weight),
    )
