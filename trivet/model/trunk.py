"""A transformers encoder that all heads share.

It has its own mask with a finite constant: the library's mask, with the smallest number of the data
type, turns fully padded windows into NaN in bf16.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from trivet.errors import ConfigError, WindowError
from trivet.heads import DEFAULT_HEADS
from trivet.model.architecture import TrunkKind
from trivet.model.exact_match_embedding import ExactMatchEmbedding
from trivet.model.mpnet_layers import MPNetLayers

# Large enough to vanish after softmax, finite in fp16 and bf16.
MASKED = -3.0e4


# Hidden states for each head, the same tensor if they share an encoder. *Shape of each:* [N, L, H].
Hidden = dict[str, Tensor]


class Trunk(nn.Module):
    """One encoder that all heads share."""

    kind: TrunkKind = "shared"
    shared_layers: int | None = None

    def __init__(self, encoder: PreTrainedModel) -> None:
        super().__init__()
        self.encoder = encoder
        if encoder.config.model_type == "mpnet":
            encoder.encoder = MPNetLayers(cast(Any, encoder).encoder)
        self.matches: ExactMatchEmbedding | None = None  # the name in stored weights
        self.prefix_attention = False
        self.hidden = int(encoder.config.hidden_size)
        self._segments = int(getattr(encoder.config, "type_vocab_size", 0) or 0) > 1
        self._bool_mask = encoder.config.model_type == "deberta-v2"
        # The convolution of some DeBERTa-v2 needs the plain mask.
        self._plain_mask = getattr(encoder.config, "conv_kernel_size", 0) > 0
        self._local = encoder.config.model_type == "modernbert"

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str,
        attention_dropout: float | None = None,
        hidden_dropout: float | None = None,
    ) -> Self:
        """Load an encoder without its task heads.

        An attention dropout of 0 allows the fused attention kernel on CPUs; a hidden dropout of 0
        saves a quarter of a training step there.

        Raises:
            ConfigError: The checkpoint cannot be read, or lacks weights of the encoder.
        """
        config = read_encoder_config(name_or_path, attention_dropout, hidden_dropout)
        try:
            encoder, loading = AutoModel.from_pretrained(
                name_or_path,
                config=config,
                dtype=torch.float32,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                **_without_pooler(config.model_type),
            )
        except (OSError, ValueError) as error:
            raise _cannot_load(name_or_path, error) from error
        # The library fills missing tensors with random numbers; the pooler is not used.
        missing = sorted(name for name in loading["missing_keys"] if "pooler" not in name)
        if missing:
            raise ConfigError(
                f"encoder.name: {name_or_path!r} lacks {len(missing)} tensors of the encoder, "
                f"first {missing[0]}; the file is incomplete, or belongs to another encoder"
            )
        return cls(encoder)

    @classmethod
    def from_encoder_config(cls, encoder_config: dict[str, Any]) -> Self:
        """Build the encoder with random weights from what ``describe_encoder`` returned."""
        values = dict(encoder_config)
        config = AutoConfig.for_model(values.pop("model_type"), **values)
        pooler = _without_pooler(config.model_type)
        return cls(AutoModel.from_config(config, trust_remote_code=False, **pooler))

    def add_exact_match(self) -> None:
        """Add the exact-match embedding with random weights, unless there is one."""
        width = self._words.embedding_dim
        self.matches = self.matches or ExactMatchEmbedding(width, by_segment=not self._segments)
        self.matches.of_response = self.prefix_attention

    def use_prefix_attention(self) -> None:
        """Hide the response from contexts and question, which it reads itself.

        So the hidden states of contexts depend on contexts and question alone. It is the mask of a
        prefix language model (Raffel et al., arXiv 1910.10683, 3.2.1), here with attention in both
        directions inside the response as well.

        Raises:
            ConfigError: The encoder has a convolution, by which neighbours see each other.
        """
        if self._plain_mask:
            raise ConfigError(
                "encoder.prefix_attention: set it to false for a DeBERTa with a convolution "
                f"(conv_kernel_size {self.config.conv_kernel_size}), by which neighbours see "
                "each other"
            )
        self.prefix_attention = True
        if self.matches is not None:
            self.matches.of_response = True

    @property
    def _words(self) -> nn.Embedding:
        return cast(nn.Embedding, self.encoder.get_input_embeddings())

    @property
    def config(self) -> Any:
        """Configuration of the encoder."""
        return self.encoder.config

    def shared_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that all heads share."""
        return list(self.parameters())

    def own_parts(self, name: str) -> list[nn.Module]:
        """Return the parts that no other head reads: none."""
        return []

    def remove_head(self, name: str) -> None:
        """Remove the parts of a head: none."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        segment_ids: Tensor,
        heads: Collection[str] = DEFAULT_HEADS,
    ) -> Hidden:
        """Return the hidden states for each of the heads. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        return dict.fromkeys(heads, self.encode(input_ids, attention_mask, segment_ids))

    def encode(self, input_ids: Tensor, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Run the encoder once. *Shapes:* [N, L] x 3 -> [N, L, H]."""
        segments = {"token_type_ids": segment_ids} if self._segments else {}
        mask: Any = attention_mask if self._plain_mask else self.mask(attention_mask, segment_ids)
        if self._local:
            far = far_apart(input_ids.shape[1], self.config.sliding_window).to(mask.device)
            local = mask + MASKED * far.to(mask.dtype)
            mask = {"full_attention": mask, "sliding_attention": local}
        words = self._words(input_ids)
        if self.matches is not None:
            words = words + self.matches(input_ids, segment_ids)
        if self._bool_mask and self.prefix_attention:
            # The library's embeddings of DeBERTa take no mask that differs between queries.
            encoder = cast(Any, self.encoder)
            words = encoder.embeddings(inputs_embeds=words, mask=attention_mask, **segments)
            output = encoder.encoder(words, mask)
        else:
            output = self.encoder(inputs_embeds=words, attention_mask=mask, **segments)
        hidden: Tensor = output.last_hidden_state
        return hidden

    def mask(self, attention_mask: Tensor, segment_ids: Tensor) -> Tensor:
        """Return the mask for the encoder's layers. *Shapes:* [N, L] x 2 -> [N, 1, 1 or L, L]."""
        mask = additive_mask(attention_mask, segment_ids, self.encoder.dtype, self.prefix_attention)
        return mask == 0 if self._bool_mask else mask  # DeBERTa has its own finite constant


def additive_mask(
    attention_mask: Tensor, segment_ids: Tensor, dtype: torch.dtype, prefix_attention: bool
) -> Tensor:
    """Return 0 where a query sees a key, and else a large negative number.

    Keys of padding are hidden from all; with ``prefix_attention`` those of the response are hidden
    from contexts and question. *Shapes:* [N, L] x 2 -> [N, 1, 1 or L, L].
    """
    mask = (1.0 - attention_mask[:, None, None, :].to(dtype)) * MASKED
    if not prefix_attention:
        return mask
    response = segment_ids.to(dtype)
    hidden = (1.0 - response)[:, None, :, None] * response[:, None, None, :]
    return mask + hidden * MASKED


def far_apart(length: int, reach: int) -> Tensor:
    """Return whether a key is more than ``reach`` from a query. *Shape:* [length, length] bool."""
    at = torch.arange(length)
    return (at[:, None] - at[None, :]).abs() > reach


def read_encoder_config(
    name_or_path: str, attention_dropout: float | None = None, hidden_dropout: float | None = None
) -> Any:
    """Read an encoder's configuration, without its weights, and set its dropouts.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        config = AutoConfig.from_pretrained(name_or_path, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise _cannot_load(name_or_path, error) from error
    config.update(dropout_settings(config.model_type, attention_dropout, hidden_dropout))
    return config


def describe_encoder(config: Any) -> dict[str, Any]:
    """Return an encoder's configuration as JSON types, without local paths."""
    values: dict[str, Any] = config.to_diff_dict()
    for name in ("_name_or_path", "architectures", "dtype", "transformers_version"):
        values.pop(name, None)
    return {**values, "model_type": config.model_type}


def check_window(config: Any, size: int) -> None:
    """Raise ``WindowError`` if windows are longer than an encoder's position table."""
    kind = config.model_type
    if kind == "deberta-v2" and not getattr(config, "position_biased_input", True):
        return  # relative positions only: no limit
    most = int(getattr(config, "max_position_embeddings", size))
    if kind in ("roberta", "xlm-roberta", "mpnet"):  # their positions start after the padding's
        most -= (1 if kind == "mpnet" else config.pad_token_id) + 1
    if size > most:
        raise WindowError(
            f"window.size ({size} tokens) exceeds the {most} positions of the encoder "
            f"({kind}); lower window.size"
        )


def _cannot_load(name_or_path: str, error: Exception) -> ConfigError:
    reason = str(error).strip().partition("\n")[0]  # the library goes on with advice
    return ConfigError(
        f"encoder.name: cannot load {name_or_path!r}: {reason.rstrip('.')}; give the folder of a "
        "checkpoint, or its name on a hub that can be reached"
    )


def dropout_settings(
    model_type: str, attention: float | None, hidden: float | None
) -> dict[str, float]:
    """Return the settings of an encoder's configuration for these dropouts; None keeps its own."""
    names = ("attention_probs_dropout_prob", "hidden_dropout_prob")
    if model_type == "modernbert":
        names = ("attention_dropout", "mlp_dropout")
    pairs = zip(names, (attention, hidden), strict=True)
    return {name: value for name, value in pairs if value is not None}


def checkpoint_layers(trunk: nn.Module) -> None:
    """Keep only the inputs of the encoder's layers for the backward pass, which repeats them."""
    for module in trunk.modules():
        if isinstance(module, (GradientCheckpointingLayer, MPNetLayers)):
            layer = cast(Any, module)
            layer.gradient_checkpointing = True
            layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)


def compile_layers(trunk: nn.Module) -> None:
    """Compile the encoder's layers in place, once for all layers and lengths of windows."""
    for module in trunk.modules():
        if isinstance(module, (GradientCheckpointingLayer, MPNetLayers)):
            cast(Any, module).compile(dynamic=True)


def _without_pooler(model_type: str) -> dict[str, bool]:
    # The pooler of BERT-like encoders is not used.
    pooled = ("bert", "roberta", "xlm-roberta", "mpnet")
    return {"add_pooling_layer": False} if model_type in pooled else {}
