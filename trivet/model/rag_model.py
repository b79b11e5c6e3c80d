"""The model: from windows to all scores, in one forward pass."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from trivet.heads import CONTEXT_HEADS, DEFAULT_HEADS, EVIDENCE_STATES, HEAD_NAMES, HEADS, HeadName
from trivet.heads.cross_attention_head import CrossAttentionHead
from trivet.heads.support import entailment_logit
from trivet.heads.token_head import TokenHead
from trivet.model.aggregate import (
    Outputs,
    evidence_logits,
    gather_tokens,
    join,
    join_evidence,
    split_evidence,
    supported_anywhere,
)
from trivet.model.architecture import Architecture, Granularity, Reduction
from trivet.model.multi_trunk import AnyTrunk, make_trunk
from trivet.model.trunk import Hidden, Trunk, describe_encoder

_PLAIN = Architecture()
_NOWHERE = -1e4  # logit of the support of a token that is in no window
_EVIDENCE_WEIGHT, _EVIDENCE_PRIOR = 0.2, 3.0  # factor on random weights, and minus the first logit


# Logits by head at every position of every window. *Shapes:* [N, L, 3] for support (entailment,
# neutral, contradiction) or [N, L, 2] (supported, unsupported), [N, L, P] for evidence (states),
# [N, L] for the others.
TokenLogits = dict[str, Tensor]


class RagModel(nn.Module):
    """Trunk, heads and the joining of windows in one graph.

    Args:
        trunk: Encoder or encoders.
        described: Heads and joining; what it says of the trunk is not read.
    """

    def __init__(self, trunk: AnyTrunk, described: Architecture = _PLAIN) -> None:
        super().__init__()
        self.trunk = trunk
        self.support_classes = described.support_classes
        self.support_norm = described.support_norm
        self.faithfulness: Reduction = described.faithfulness
        self.dropout = described.dropout
        self.pooled_support = described.pooled_support
        self.granularity: Granularity = described.granularity
        self.lexical_overlap = dict.fromkeys(CONTEXT_HEADS, 0.0) | dict(described.lexical_overlap)
        self.similarity = described.similarity
        self.sentence_layer = described.sentence_layer
        self.heads = nn.ModuleDict()
        for name in (head for head in HEAD_NAMES if head in described.heads):
            self.add_head(name)

    def architecture(self) -> Architecture:
        """Return the argument of ``from_architecture``."""
        return Architecture(
            encoder=describe_encoder(self.trunk.config),
            heads=cast(tuple[HeadName, ...], tuple(self.heads)),
            faithfulness=self.faithfulness,
            dropout=self.dropout,
            pooled_support=self.pooled_support,
            support_classes=self.support_classes,
            support_norm=self.support_norm,
            trunk=self.trunk.kind,
            shared_layers=self.trunk.shared_layers,
            granularity=self.granularity,
            prefix_attention=self.prefix_attention,
            matches=any(part.matches is not None for part in self._encoders()),
            lexical_overlap=dict(self.lexical_overlap),
            similarity=self.similarity,
            sentence_layer=self.sentence_layer,
        )

    def add_exact_match(self) -> None:
        """Add the exact-match embedding to every encoder without one."""
        for part in self._encoders():
            part.add_exact_match()

    @property
    def prefix_attention(self) -> bool:
        """Whether contexts and question do not see the response: see ``Trunk``."""
        return any(part.prefix_attention for part in self._encoders())

    def use_prefix_attention(self) -> None:
        """Hide the response from contexts and question; the utilization head reads it instead.

        Its new layers start with random weights, its classifier from that of the old head.
        """
        for part in self._encoders():
            part.use_prefix_attention()
        if "utilization" in self.heads and isinstance(old := self.heads["utilization"], TokenHead):
            self.add_head("utilization")
            cast(CrossAttentionHead, self.heads["utilization"]).copy_classifier(old)

    def add_head(self, name: HeadName) -> None:
        """Add a head with random weights; the heads keep the order of ``HEAD_NAMES``."""
        classes, pooled, norm = HEADS[name].width, False, None
        if name == "support":
            classes, pooled, norm = self.support_classes, self.pooled_support, self.support_norm
        if name == "utilization" and self.prefix_attention:
            self.heads[name] = CrossAttentionHead(self.trunk.hidden, self.dropout)
        else:
            head = TokenHead(self.trunk.hidden, classes, self.dropout, pooled, norm)
            if name == "evidence":
                start_evidence(head.classifier)
            self.heads[name] = head
        for later in HEAD_NAMES[HEAD_NAMES.index(name) + 1 :]:
            if later in self.heads:
                self.heads[later] = self.heads.pop(later)

    def keep_heads(self, names: Collection[str]) -> None:
        """Remove all other heads, with the layers that only they have."""
        for name in [head for head in self.heads if head not in names]:
            del self.heads[name]
            self.trunk.remove_head(name)

    def freeze(self, name: HeadName) -> None:
        """Keep the weights of a head and of its own layers as they are in training."""
        parts = [self.heads[name], *self.trunk.own_parts(name)]
        for parameter in (weight for part in parts for weight in part.parameters()):
            parameter.requires_grad_(False)

    def _encoders(self) -> list[Trunk]:
        return [part for part in self.trunk.modules() if isinstance(part, Trunk)]

    @classmethod
    def from_architecture(cls, described: Architecture) -> Self:
        """Build the model with random weights."""
        encoder = Trunk.from_encoder_config(dict(described.encoder))
        if described.matches:
            encoder.add_exact_match()
        if described.prefix_attention:
            encoder.use_prefix_attention()
        trunk = make_trunk(encoder, described.trunk, described.shared_layers, described.heads)
        return cls(trunk, described)

    def read(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segment_ids: Tensor,
        *,
        heads: Collection[str] | None = None,
    ) -> TokenLogits:
        """Return the logits of some heads, by default all, in each window. *Shapes:* [N, L] x 3."""
        wanted = list(self.heads if heads is None else heads)
        hidden: Hidden = self.trunk(input_ids, attention_mask, segment_ids, wanted)
        device = input_ids.device.type
        if torch.is_autocast_enabled(device):
            # bf16 logits are too coarse for probabilities.
            with torch.autocast(device, enabled=False):
                return self._apply_heads(hidden, segment_ids * attention_mask)
        return self._apply_heads(hidden, segment_ids * attention_mask)

    def _apply_heads(self, hidden: Hidden, is_response: Tensor) -> TokenLogits:
        logits = {name: self._decide(name, states, is_response) for name, states in hidden.items()}
        return {
            name: values.squeeze(-1) if HEADS[cast(HeadName, name)].width == 1 else values
            for name, values in logits.items()
        }

    def _decide(self, name: str, hidden: Tensor, is_response: Tensor) -> Tensor:
        """Return a head's logits. *Shapes:* [N, L, H], [N, L] -> [N, L, classes]."""
        head = self.heads[name]
        if isinstance(head, CrossAttentionHead):
            read: Tensor = head(hidden, is_response)
            return read
        by_token = self.granularity == "token" or name == "evidence"
        logits: Tensor = head(hidden if by_token else hidden[:, :1])
        return logits if by_token else logits.expand(-1, hidden.shape[1], -1)

    def join(
        self,
        logits: TokenLogits,
        attention_mask: Tensor,
        segment_ids: Tensor,
        response_at: Tensor,
        context_at: Tensor,
        context_weight: Tensor,
        question_overlap: Tensor,
        response_overlap: Tensor,
        sentence_pool: Tensor,
        sentence_features: Tensor,
        is_evidence: Tensor | None = None,
    ) -> Outputs:
        """Join logits of windows into probabilities of tokens, sentences and examples.

        The outputs of heads without logits are None. ``is_evidence`` tells which copies of response
        tokens are in evidence windows, [B, K]. The
        exported graph has no such input: there the copies in evidence windows are an example of
        their own, which the host joins with the others (``evaluation.packing``).
        """
        shown, real = response_at.amax(dim=-1) >= 0, context_at >= 0
        probs: dict[str, Tensor | None] = dict.fromkeys(DEFAULT_HEADS)
        if "support" in logits:
            support = join_support(logits["support"], response_at, is_evidence)
            probs["support"] = torch.where(shown, support.sigmoid(), 0.0)
        overlaps = {"relevance": question_overlap, "utilization": response_overlap}
        for name in (head for head in overlaps if head in logits):
            marked = self.with_overlap(name, logits[name], context_at, overlaps[name])
            if name == "relevance" and self.similarity:
                states = logits["evidence"]
                similar = question_similarity(states, attention_mask, segment_ids, context_at)
                marked = marked + self.similarity * similar
            probs[name] = torch.where(real, marked.sigmoid(), 0.0)
        return join(
            support_probs=probs["support"],
            relevance_probs=probs["relevance"],
            utilization_probs=probs["utilization"],
            response_mask=shown,
            context_weight=context_weight,
            sentence_pool=sentence_pool,
            sentence_features=sentence_features,
            faithfulness=self.faithfulness,
            layer=self.sentence_layer,
        )._replace(evidence_states=logits.get("evidence"))

    def with_overlap(
        self, name: str, logits: Tensor, context_at: Tensor, overlap: Tensor
    ) -> Tensor:
        """Return a context head's token logits. *Shapes:* [N, L], [B, C] x 2 -> [B, C]."""
        gathered: Tensor = gather_tokens(logits.reshape(-1), context_at)
        return gathered + self.lexical_overlap[name] * overlap

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segment_ids: Tensor,
        response_at: Tensor,
        context_at: Tensor,
        context_weight: Tensor,
        question_overlap: Tensor,
        response_overlap: Tensor,
        sentence_pool: Tensor,
        sentence_features: Tensor,
    ) -> Outputs:
        """Return the scores of a batch; the arguments are the fields of ``Windows``, in order."""
        logits = self.read(input_ids, attention_mask, segment_ids)
        return self.join(
            logits,
            attention_mask,
            segment_ids,
            response_at,
            context_at,
            context_weight,
            question_overlap,
            response_overlap,
            sentence_pool,
            sentence_features,
        )


def join_support(support: Tensor, response_at: Tensor, is_evidence: Tensor | None) -> Tensor:
    """Return the logit of each response token's support. *Shape:* [B, R].

    Args:
        support: Logits of the support head. *Shape:* [N, L, 3].
        response_at: As in ``Windows``. *Shape:* [B, R, K].
        is_evidence: Copies in evidence windows, if there are any. *Shape:* [B, K].
    """
    margins = entailment_logit(support).reshape(-1)
    if is_evidence is None:
        # The maximum of logits is that of probabilities.
        highest: Tensor = supported_anywhere(margins, response_at, nothing=_NOWHERE)
        return highest
    kinds = split_evidence(response_at, is_evidence)
    ordinary, gathered = (supported_anywhere(margins, at, nothing=_NOWHERE) for at in kinds)
    shown, windows = kinds[1].amax(dim=-1) >= 0, (kinds[0] >= 0).sum(dim=-1)
    joined: Tensor = join_evidence(ordinary, gathered, shown, windows)
    return joined


def gather_classes(logits: Tensor, at: Tensor) -> Tensor:
    """Return ``gather_tokens`` of each class. *Shapes:* [N, L, 3], [B, R, K] -> [B, R, K, 3]."""
    columns = (column.reshape(-1) for column in logits.unbind(-1))
    return torch.stack([gather_tokens(column, at) for column in columns], -1)


def pair_logits(states: Tensor, response_pool: Tensor, context_pool: Tensor) -> Tensor:
    """Return ``evidence_logits`` in fp32, also under autocast."""
    with torch.autocast(states.device.type, enabled=False):
        logits: Tensor = evidence_logits(states.float(), response_pool, context_pool)
    return logits


def question_similarity(
    states: Tensor, attention_mask: Tensor, segment_ids: Tensor, context_at: Tensor
) -> Tensor:
    """Return how well each context token fits the question, by the evidence head's states.

    The question takes the place of a response sentence in ``evidence_logits``; its tokens and
    separators are those after the last context token that counts. The mean over a sentence's
    tokens is the sentence's logit. *Shapes:* [N, L, P], [N, L] x 2, [B, C] -> [B, C].
    """
    width = states.shape[1]
    real = context_at >= 0
    # The last entry takes what padding marks.
    flat = torch.where(real, context_at, states.shape[0] * width).reshape(-1)
    marks = attention_mask.new_zeros(states.shape[0] * width + 1)
    marks = marks.scatter(0, flat, torch.ones_like(flat))[:-1].reshape(-1, width)
    position = torch.arange(width, device=states.device)
    after_context = position > (marks * position).amax(-1, keepdim=True)
    asked = (after_context & (attention_mask > 0) & (segment_ids == 0)).to(states.dtype)
    pool = asked / asked.sum(-1, keepdim=True).clamp(min=1.0)
    half = EVIDENCE_STATES // 2
    query = pool[:, None] @ states[..., :half]
    similarity = half * (states[..., half:] @ query.transpose(1, 2))
    gathered: Tensor = gather_tokens(similarity.reshape(-1), context_at)
    return gathered


def start_evidence(projection: nn.Linear) -> None:
    """Start the projections of the evidence head small, with a probability of 5 % for any pair."""
    half = EVIDENCE_STATES // 2
    with torch.no_grad():
        projection.weight.mul_(_EVIDENCE_WEIGHT)
        projection.bias.zero_()
        projection.bias[0] = (_EVIDENCE_PRIOR / half) ** 0.5
        projection.bias[half] = -projection.bias[0]


def to_numpy(outputs: Outputs) -> Outputs:
    """Return the outputs of torch as numpy arrays in float32; None stays."""
    return Outputs(
        *(None if output is None else output.detach().float().cpu().numpy() for output in outputs)
    )


def as_tensors(windows: Sequence[Any], device: torch.device | str = "cpu") -> tuple[Tensor, ...]:
    """Return the arrays of a ``Windows`` as tensors, in order."""
    return tuple(torch.as_tensor(array).to(device) for array in windows)
