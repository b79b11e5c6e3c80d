"""Losses of the support head: is a response token supported by the contexts in its window?

Each loss is a sum over examples.

Classes of natural language inference: entailment, neutral, contradiction; p = P(entailment). See
Luna (arXiv 2406.00975), 3.3. A head of two classes has the last two as one.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from trivet.errors import ConfigError
from trivet.heads.token_head import TokenHead, sum_of_means

CLASSES = ("entailment", "neutral", "contradiction")
_SMALLEST = 1e-6  # keeps the logarithm of a joined probability finite


def entailment_logit(logits: Tensor) -> Tensor:
    """Return the logit of P(entailment). *Shapes:* [..., 3] or [..., 2] -> [...]."""
    if logits.shape[-1] == 2:
        supported, unsupported = logits.unbind(-1)
        return supported - unsupported
    entailment, neutral, contradiction = logits.unbind(-1)
    return entailment - neutral - nn.functional.softplus(contradiction - neutral)


def window_loss(logits: Tensor, window_class: Tensor, weight: Tensor) -> Tensor:
    """Return the cross-entropy in each window, where the place of the evidence is known.

    Classes are 0 to 2, or -1 where unknown. *Shapes:* [B, R, K, 3 or 2], [B, R, K], [B] -> [].
    """
    known = window_class >= 0
    classes = window_class.clamp(min=0, max=logits.shape[-1] - 1).flatten()
    loss = nn.functional.cross_entropy(logits.flatten(0, 2), classes, reduction="none")
    loss = loss.view_as(known)
    return sum_of_means(loss.flatten(1), known.float().flatten(1), weight)


def token_loss(
    logits: Tensor,
    response_at: Tensor,
    joined: Tensor,
    token_supported: Tensor,
    weight: Tensor,
) -> Tensor:
    """Return the loss of tokens with a known label and unknown place of the evidence.

    Supported tokens: -log of the joined probability, since one supporting window is enough.
    Unsupported tokens: cross-entropy of contradiction in every window. Labels are 1, 0, or -1 where
    unknown; the position of a copy is -1 for none. ``joined`` is the logit of the joined support.

    *Shapes:* [B, R, K, 3 or 2], [B, R, K], [B, R] x 2, [B] -> [].
    """
    log_probs = logits.log_softmax(dim=-1)
    shown = response_at >= 0
    nowhere = (log_probs[..., -1] * shown).sum(-1) / shown.sum(-1).clamp(min=1)
    known = token_supported >= 0
    log_likelihood = torch.where(token_supported == 1, nn.functional.logsigmoid(joined), nowhere)
    loss = -log_likelihood.masked_fill(~known, 0.0)
    return sum_of_means(loss, known.float(), weight)


def verdict_loss(faithfulness: Tensor, adherent: Tensor, weight: Tensor) -> Tensor:
    """Return the binary cross-entropy of the joined faithfulness. *Shapes:* [B] x 3 -> [].

    Labels are 1, 0, or -1 where unknown.
    """
    known = (adherent >= 0).float()
    probs = faithfulness.float().clamp(_SMALLEST, 1 - _SMALLEST)
    # torch refuses its own cross-entropy of probabilities under CUDA autocast.
    loss = -torch.where(adherent == 1, probs, 1 - probs).log()
    return sum_of_means(loss[:, None], known[:, None], weight)


def opposites_loss(faithfulness: Tensor, opposites: Tensor, weight: Tensor) -> Tensor:
    """Return the logistic loss of the order of right and wrong responses to the same contexts.

    log(1 + exp(z_wrong - z_right)) of the logits of the joined faithfulness; each wrong response
    counts once, by the mean over the right ones. *Shapes:* [B], [P, 2], [B] -> [].
    """
    logits = faithfulness.float().clamp(_SMALLEST, 1 - _SMALLEST).logit()
    right, wrong = opposites.unbind(-1)
    counts = torch.bincount(wrong, minlength=len(logits))
    loss = nn.functional.softplus(logits[wrong] - logits[right])
    return (loss * weight[wrong] / counts[wrong]).sum()


def copy_nli_head(
    head: TokenHead, state: Mapping[str, Tensor], label2id: Mapping[str, int]
) -> None:
    """Initialise a pooled head from a checkpoint's NLI head; classes are matched by name.

    Raises:
        ConfigError: A class or a tensor is missing, or the shapes differ.
    """
    by_name = {name.lower(): index for name, index in label2id.items()}
    missing = [name for name in CLASSES if name not in by_name]
    if missing:
        raise ConfigError(
            f"encoder.init: nli: the checkpoint's label2id {dict(label2id)} has no class "
            f"{', '.join(missing)}; set encoder.init to plain or choose an NLI checkpoint"
        )
    if head.dense is None:
        raise ConfigError("encoder.init: nli: the support head was made without a pooled layer")
    order = [by_name[name] for name in CLASSES]
    try:
        copied = {
            "dense.weight": state["pooler.dense.weight"],
            "dense.bias": state["pooler.dense.bias"],
            "classifier.weight": state["classifier.weight"][order],
            "classifier.bias": state["classifier.bias"][order],
        }
    except KeyError as error:
        raise ConfigError(f"encoder.init: nli: the checkpoint has no tensor {error}") from error
    except IndexError as error:
        raise ConfigError(
            f"encoder.init: nli: label2id {dict(label2id)} names more classes than the "
            f"{len(state['classifier.weight'])} of the checkpoint's classifier"
        ) from error
    try:
        head.load_state_dict(copied)
    except RuntimeError as error:
        raise ConfigError(
            f"encoder.init: nli: the checkpoint's head does not fit the encoder: {error}"
        ) from error
