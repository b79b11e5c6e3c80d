"""The model: from windows to all scores, in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from trivet.heads.token_head import TokenHead
from trivet.model.aggregate import (
    Outputs,
    gather_tokens,
    join,
    join_evidence,
    split_evidence,
    supported_anywhere,
)
from trivet.model.architecture import Granularity, HeadName, Reduction
from trivet.model.calibration import PiecewiseLinear, entailment_logit
from trivet.model.multi_trunk import AnyTrunk, make_trunk
from trivet.model.trunk import Hidden, Trunk

HEADS: dict[HeadName, int] = {"support": 3, "relevance": 1, "utilization": 1}
_NOWHERE = -1e4  # logit of the support of a token that is in no window


class TokenLogits(NamedTuple):
    """Logits of the heads at every position of every window."""

    support: Tensor  # entailment, neutral, contradiction; [N, L, 3]
    relevance: Tensor  # [N, L]
    utilization: Tensor  # [N, L]


class RagModel(nn.Module):
    """Trunk, three heads and the joining of windows in one graph.

    Args:
        trunk: Encoder or encoders.
        faithfulness: Part of a response that decides.
        dropout: Dropout before each head's classifier.
        pooled_support: Whether the support head has the dense layer of an NLI checkpoint's head.
        granularity: ``token``: logits for each position. ``example``: the logits of the first
            position hold for the whole window.
        calibration: Arguments of ``PiecewiseLinear``, the map of the logits, by head.
        lexical_overlap: Weights of lexical overlap in the logits, by head; 0 by default. Fitted in
            calibration, since the encoder knows the rows that it is trained on.
    """

    def __init__(
        self,
        trunk: AnyTrunk,
        faithfulness: Reduction = "weakest_sentence",
        dropout: float = 0.0,
        pooled_support: bool = False,
        granularity: Granularity = "token",
        calibration: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
        lexical_overlap: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.faithfulness: Reduction = faithfulness
        self.dropout = dropout
        self.pooled_support = pooled_support
        self.granularity: Granularity = granularity
        self.calibration = nn.ModuleDict(
            {name: PiecewiseLinear(**knots) for name, knots in (calibration or {}).items()}
        )
        self.lexical_overlap = dict.fromkeys(HEADS, 0.0) | dict(lexical_overlap or {})
        self.heads = nn.ModuleDict()
        for name, classes in HEADS.items():
            pooled = pooled_support and name == "support"
            self.heads[name] = TokenHead(trunk.hidden, classes, dropout, pooled)

    def architecture(self) -> dict[str, Any]:
        """Return the argument of ``from_architecture``, as JSON types."""
        architecture: dict[str, Any] = {
            "encoder": self.trunk.encoder_config(),
            "heads": list(self.heads),
            "faithfulness": self.faithfulness,
            "dropout": self.dropout,
            "pooled_support": self.pooled_support,
            "trunk": self.trunk.kind,
            "shared_layers": self.trunk.shared_layers,
            "granularity": self.granularity,
        }
        if any(part.matches is not None for part in self._encoders()):
            architecture["matches"] = True
        if any(self.lexical_overlap.values()):
            architecture["lexical_overlap"] = dict(self.lexical_overlap)
        if self.calibration:
            architecture["calibration"] = {
                name: {"x": list(one.x), "y": list(one.y)}
                for name, one in self.calibration.items()
                if isinstance(one, PiecewiseLinear)
            }
        return architecture

    def add_exact_match(self) -> None:
        """Add the exact-match embedding to every encoder without one."""
        for part in self._encoders():
            part.add_exact_match()

    def _encoders(self) -> list[Trunk]:
        return [part for part in self.trunk.modules() if isinstance(part, Trunk)]

    @classmethod
    def from_architecture(cls, architecture: dict[str, Any]) -> Self:
        """Build the model with random weights from the result of ``architecture()``."""
        encoder = Trunk.from_encoder_config(architecture["encoder"])
        if architecture.get("matches", False):
            encoder.add_exact_match()
        kind, shared_layers = architecture.get("trunk", "shared"), architecture.get("shared_layers")
        return cls(
            make_trunk(encoder, kind, shared_layers),
            faithfulness=architecture["faithfulness"],
            dropout=architecture["dropout"],
            pooled_support=architecture["pooled_support"],
            granularity=architecture.get("granularity", "token"),
            calibration=architecture.get("calibration"),
            lexical_overlap=architecture.get("lexical_overlap"),
        )

    def read(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> TokenLogits:
        """Return the logits of every window. *Shapes:* [N, L] x 3."""
        hidden: Hidden = self.trunk(input_ids, attention_mask, segment_ids)
        device = input_ids.device.type
        if torch.is_autocast_enabled(device):
            # bf16 logits are too coarse for probabilities.
            with torch.autocast(device, enabled=False):
                return self._apply_heads(hidden)
        return self._apply_heads(hidden)

    def _apply_heads(self, hidden: Hidden) -> TokenLogits:
        support, relevance, utilization = (
            self._decide(name, states) for name, states in hidden._asdict().items()
        )
        return TokenLogits(support, relevance.squeeze(-1), utilization.squeeze(-1))

    def _decide(self, name: str, hidden: Tensor) -> Tensor:
        """Return a head's logits. *Shapes:* [N, L, H] -> [N, L, classes]."""
        each = self.granularity == "token"
        logits: Tensor = self.heads[name](hidden if each else hidden[:, :1])
        return logits if each else logits.expand(-1, hidden.shape[1], -1)

    def join(
        self,
        logits: TokenLogits,
        response_at: Tensor,
        context_at: Tensor,
        context_weight: Tensor,
        question_overlap: Tensor,
        response_overlap: Tensor,
        context_overlap: Tensor,
        sentence_pool: Tensor,
        is_evidence: Tensor | None = None,
    ) -> Outputs:
        """Join logits of windows into probabilities of tokens, sentences and examples.

        ``is_evidence`` tells which copies of response tokens are in evidence windows, [B, K]. The
        exported graph has no such input: there the copies in evidence windows are an example of
        their own, which the host joins with the others (``evaluation.packing``).
        """
        relevance = self.with_overlap("relevance", logits.relevance, context_at, question_overlap)
        relevance = self._calibrated("relevance", relevance)
        used = self.with_overlap("utilization", logits.utilization, context_at, response_overlap)
        used = self._calibrated("utilization", used)

        def calibrated(support: Tensor) -> Tensor:
            support = support + self.lexical_overlap["support"] * context_overlap
            return self._calibrated("support", support)

        support = join_support(logits.support, response_at, is_evidence, calibrated)
        shown, real = response_at.amax(dim=-1) >= 0, context_at >= 0
        return join(
            support_probs=torch.where(shown, support.sigmoid(), 0.0),
            relevance_probs=torch.where(real, relevance.sigmoid(), 0.0),
            utilization_probs=torch.where(real, used.sigmoid(), 0.0),
            response_mask=shown,
            context_weight=context_weight,
            sentence_pool=sentence_pool,
            faithfulness=self.faithfulness,
        )

    def with_overlap(
        self, name: str, logits: Tensor, context_at: Tensor, overlap: Tensor
    ) -> Tensor:
        """Return a context head's token logits. *Shapes:* [N, L], [B, C] x 2 -> [B, C]."""
        gathered: Tensor = gather_tokens(logits.reshape(-1), context_at)
        return gathered + self.lexical_overlap[name] * overlap

    def _calibrated(self, name: str, logits: Tensor) -> Tensor:
        """Return a head's calibrated logits."""
        return self.calibration[name](logits) if name in self.calibration else logits

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
        context_overlap: Tensor,
        sentence_pool: Tensor,
    ) -> Outputs:
        """Return the scores of a batch; the arguments are the fields of ``Windows``, in order."""
        logits = self.read(input_ids, attention_mask, segment_ids)
        return self.join(
            logits,
            response_at,
            context_at,
            context_weight,
            question_overlap,
            response_overlap,
            context_overlap,
            sentence_pool,
        )


def join_support(
    support: Tensor,
    response_at: Tensor,
    is_evidence: Tensor | None,
    calibrated: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> Tensor:
    """Return the logit of each response token's support. *Shape:* [B, R].

    Args:
        support: Logits of the support head. *Shape:* [N, L, 3].
        response_at: As in ``Windows``. *Shape:* [B, R, K].
        is_evidence: Copies in evidence windows, if there are any. *Shape:* [B, K].
        calibrated: Rising map of the logits before ordinary and evidence windows are joined.
    """
    margins = entailment_logit(support).reshape(-1)
    if is_evidence is None:
        # The maximum of logits is that of probabilities.
        return calibrated(supported_anywhere(margins, response_at, nothing=_NOWHERE))
    kinds = split_evidence(response_at, is_evidence)
    ordinary, gathered = (
        calibrated(supported_anywhere(margins, at, nothing=_NOWHERE)) for at in kinds
    )
    joined: Tensor = join_evidence(ordinary, gathered, kinds[1].amax(dim=-1) >= 0)
    return joined


def as_tensors(windows: Sequence[Any], device: torch.device | str = "cpu") -> tuple[Tensor, ...]:
    """Return the arrays of a ``Windows`` as tensors, in order."""
    return tuple(torch.as_tensor(array).to(device) for array in windows)
