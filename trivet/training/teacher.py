"""A trained bundle whose logits on the same windows are targets for a smaller model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from trivet.bundle.bundle import TOKENIZER_NAME, read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import ConfigError, WindowError
from trivet.heads.losses import class_loss, evidence_cross_entropy, sentence_cross_entropy
from trivet.labelled.datamodule import Batch
from trivet.model.aggregate import gather_tokens
from trivet.model.rag_model import RagModel, TokenLogits, gather_classes, pair_logits
from trivet.model.slices import read_in_slices
from trivet.model.trunk import check_window

# A text on which tokenizers differ, besides the words of the vocabulary.
_PROBE = "Zo\u00eb's na\u00efve 3,141.5 km\u2014 or 12\u00bd?  NO\n#2"


class Teacher:
    """A model that reads a batch's windows and is not trained.

    No ``nn.Module``, so that neither checkpoints nor optimizers see its weights.

    Args:
        model: Teacher.
        ids: Its token id for each of the student's ids. *Shape:* [V].
        weight: Weight of the loss of each head.
        max_windows: Windows per call.
    """

    def __init__(self, model: RagModel, ids: Tensor, weight: float, max_windows: int) -> None:
        self.model = model.eval().requires_grad_(False)
        self.ids, self.weight, self.max_windows = ids, weight, max_windows

    def __deepcopy__(self, memo: object) -> Teacher:
        return self  # averaged weights are a copy of all that is trained

    def losses(self, batch: Batch, logits: TokenLogits) -> dict[str, Tensor]:
        """Return the sum over examples of each head's weighted loss, by head.

        The targets are the probabilities of the teacher's logits before calibration. Heads that it
        lacks have no loss.
        """
        taught = [head for head in logits if head in self.model.heads]
        if not taught:
            return {}
        losses = soft_target_losses(batch, logits, self._read(batch.windows[:3], taught))
        return {head: self.weight * loss for head, loss in losses.items()}

    def _read(self, inputs: Sequence[Tensor], heads: Collection[str]) -> Mapping[str, Tensor]:
        ids, *masks = inputs
        if self.ids.device != ids.device:
            self.model.to(ids.device)
            self.ids = self.ids.to(ids.device)
        with torch.no_grad():
            return read_in_slices(self.model, (self.ids[ids], *masks), self.max_windows, heads)


def load_teacher(
    name: str,
    student: SegmentTokenizer,
    window: int,
    weight: float,
    max_windows: int,
) -> Teacher:
    """Load a bundle as a teacher.

    Both must cut texts into the same tokens, though their ids may differ, as in BERT and MPNet.

    Args:
        name: Folder or name of the bundle.
        student: Tokenizer of the model that is trained.
        window: Length of its windows in tokens.
        weight: Weight of the loss of each head.
        max_windows: Windows per call.

    Raises:
        ConfigError: The tokenizers differ, or the teacher cannot read windows of this length.
        BundleError: The bundle is refused.
    """
    bundle = read_bundle(name)
    tokenizer = SegmentTokenizer.from_file(bundle.path(TOKENIZER_NAME))
    if student.unifies_forms:  # the teacher is given the student's tokens
        tokenizer.unify_forms()
    ids, texts = student.ids_in(tokenizer), [*student.words(), _PROBE]
    if missing := int((ids < 0).sum()):
        raise ConfigError(
            f"distill.teacher: {name} lacks {missing} of the {len(ids)} words of the student's "
            "vocabulary; both must cut texts into the same tokens"
        )
    pairs = zip(texts, student.encode(texts), tokenizer.encode(texts), strict=True)
    for text, ours, theirs in pairs:
        if not np.array_equal(ids[ours.ids], theirs.ids):
            raise ConfigError(
                f"distill.teacher: {name} cuts {text!r} into other tokens than the student "
                f"({len(theirs)} and {len(ours)}); they must be the same"
            )
    model = load_rag_model(bundle)
    try:
        check_window(model.trunk.config, window)
    except WindowError as error:
        raise ConfigError(f"distill.teacher: {name}: {error}") from error
    return Teacher(model, torch.from_numpy(ids), weight, max_windows)


def soft_target_losses(
    batch: Batch, logits: Mapping[str, Tensor], targets: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the sum over examples of each head's cross-entropy, for the heads with targets.

    The targets are the probabilities of their logits before calibration.
    """
    windows, weight = batch.windows, batch.targets.weight
    losses: dict[str, Tensor] = {}
    if "support" in targets:
        at = windows.response_at
        ours, theirs = (gather_classes(side["support"], at) for side in (logits, targets))
        losses["support"] = class_loss(ours, theirs, at >= 0, weight)
    for head in (name for name in ("relevance", "utilization") if name in targets):
        ours, theirs = (
            gather_tokens(side[head].reshape(-1), windows.context_at) for side in (logits, targets)
        )
        marks = theirs.sigmoid()
        losses[head] = sentence_cross_entropy(ours, marks, windows.context_weight, weight)
    if "evidence" in targets:
        pools = batch.pairs[:2]
        ours, theirs = (pair_logits(side["evidence"], *pools) for side in (logits, targets))
        response, context = (pool.amax(dim=-1) > 0 for pool in pools)
        real = (response[:, :, None] & context[:, None, :]).to(weight)
        example = batch.pairs.example
        counts = torch.zeros_like(weight).index_add(0, example, real.sum(dim=(1, 2)))
        share = real / counts.clamp(min=1)[example, None, None]
        losses["evidence"] = evidence_cross_entropy(ours, theirs.sigmoid(), share, example, weight)
    return losses
