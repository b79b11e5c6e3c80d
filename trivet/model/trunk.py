"""The encoder under the heads, from the library, with our own mask.

The library masks a full L x L product with the smallest number of the data type; a fully padded row
of it turns to NaN in bf16. Ours is on keys only, with a finite constant.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from trivet.records import ConfigError, WindowError

# Large enough to vanish after softmax, finite in fp16 and bf16.
MASKED = -3.0e4


class Trunk(nn.Module):
    """One encoder that all heads share: windows in, hidden states out."""

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        self.encoder = encoder
        self.hidden = int(encoder.config.hidden_size)
        self._segments = int(getattr(encoder.config, "type_vocab_size", 0) or 0) > 1
        self._bool_mask = encoder.config.model_type == "deberta-v2"

    @classmethod
    def from_pretrained(cls, name_or_path: str, attention_dropout: float | None = None) -> Self:
        """Load the encoder's weights from a folder or the hub, without its task heads.

        Args:
            name_or_path: A folder in the library's format, or a name on the hub.
            attention_dropout: Replaces the checkpoint's own, in [0, 1]; 0 lets a CPU use its fast
                attention kernel in training.

        Raises:
            ConfigError: The checkpoint cannot be read, or is no encoder with a hidden width.
        """
        changed = (
            {} if attention_dropout is None else {"attention_probs_dropout_prob": attention_dropout}
        )
        try:
            config = AutoConfig.from_pretrained(name_or_path, trust_remote_code=False, **changed)
            encoder = AutoModel.from_pretrained(
                name_or_path,
                config=config,
                dtype=torch.float32,
                trust_remote_code=False,
                use_safetensors=True,
                **_without_pooler(config.model_type),
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"encoder.name: cannot load {name_or_path!r}: {error}") from error
        return cls(encoder)

    @classmethod
    def from_encoder_config(cls, encoder_config: dict[str, Any]) -> Self:
        """Build the encoder with random weights from ``encoder_config()``'s dictionary."""
        values = dict(encoder_config)
        model_type = values.pop("model_type")
        config = AutoConfig.for_model(model_type, **values)
        return cls(
            AutoModel.from_config(config, trust_remote_code=False, **_without_pooler(model_type))
        )

    def encoder_config(self) -> dict[str, Any]:
        """Return what ``from_encoder_config`` needs: JSON types, without paths of this machine."""
        values: dict[str, Any] = self.encoder.config.to_diff_dict()
        for name in ("_name_or_path", "architectures", "dtype", "transformers_version"):
            values.pop(name, None)
        return {**values, "model_type": self.encoder.config.model_type}

    def check_window(self, size: int) -> None:
        """Refuse windows longer than the encoder's position table.

        Raises:
            WindowError: ``size`` exceeds it.
        """
        if self._bool_mask and not getattr(self.encoder.config, "position_biased_input", True):
            return  # relative positions alone: no table to run out of
        most = int(getattr(self.encoder.config, "max_position_embeddings", size))
        if self.encoder.config.model_type in ("roberta", "xlm-roberta"):
            most -= self.encoder.config.pad_token_id + 1  # these count positions from behind it
        if size > most:
            raise WindowError(
                f"window.size ({size} tokens) exceeds the {most} positions of the encoder "
                f"({self.encoder.config.model_type}); lower window.size"
            )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Return hidden states. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        keys = attention_mask[:, None, None, :]
        # DeBERTa fills by a boolean, with a finite constant of its own.
        mask = keys > 0 if self._bool_mask else (1.0 - keys.to(self.encoder.dtype)) * MASKED
        segments = {"token_type_ids": segment_ids} if self._segments else {}
        output = self.encoder(input_ids=input_ids, attention_mask=mask, **segments)
        hidden: Tensor = output.last_hidden_state
        return hidden


def _without_pooler(model_type: str) -> dict[str, bool]:
    # BERT-shaped encoders carry a pooler that nothing here reads.
    return {"add_pooling_layer": False} if model_type in ("bert", "roberta", "xlm-roberta") else {}
