"""Initial models: from an encoder, an NLI checkpoint or a trained bundle."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection
from typing import Any, cast

from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from trivet.bundle.bundle import TOKENIZER_NAME, read_bundle
from trivet.bundle.info import BundleInfo
from trivet.bundle.weights import load_rag_model
from trivet.configs.schema import TrainConfig
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.window_layout import WindowLayout
from trivet.errors import ConfigError, install_line
from trivet.heads import HEAD_NAMES, HeadName
from trivet.heads.support import copy_nli_head
from trivet.heads.token_head import TokenHead
from trivet.model.architecture import NO_LAYER, Architecture
from trivet.model.multi_trunk import make_trunk
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk, dropout_settings

_CONVERTERS = ("sentencepiece", "google.protobuf")
_LEAST_SHARE = 0.9  # of the encoder's ids that its tokenizer has; some are padding


def initial_model(
    config: TrainConfig, keeps_verdicts: bool = False
) -> tuple[RagModel, SegmentTokenizer]:
    """Build the initial model and its tokenizer.

    A bundle's shared trunk is copied for any other kind, and a bundle keeps its exact-match
    embedding, and with ``keeps_verdicts`` its calibration, its reduction and its tokenizer. It gets
    an evidence head if it has none, and any but support, beside its own, if it has none of those
    asked for.

    Raises:
        ConfigError: The checkpoint cannot be read or has no NLI head, or does not allow the trunk
            or the attention.
        BundleError: The bundle is refused.
    """
    if config.encoder.init == "bundle":
        model, tokenizer = _from_bundle(config, keeps_verdicts)
    else:
        model, tokenizer = _from_encoder(config)
    if not keeps_verdicts:
        tokenizer.unify_forms()
    if config.encoder.exact_match_embedding:
        model.add_exact_match()
    return model, tokenizer


def _from_bundle(config: TrainConfig, keeps_verdicts: bool) -> tuple[RagModel, SegmentTokenizer]:
    encoder, asked = config.encoder, _asked_heads(config)
    bundle = read_bundle(encoder.name)
    info, bundle_heads = bundle.info, bundle.info.heads
    _check_trunk(info, encoder.name, encoder.trunk, encoder.shared_layers)
    changed: dict[str, Any] = {
        "faithfulness": info.faithfulness if keeps_verdicts else config.faithfulness,
        "granularity": config.granularity,
        "dropout": encoder.head_dropout,
        "encoder": dropout_settings(
            info.encoder.model_type, encoder.attention_dropout, encoder.hidden_dropout
        ),
    }
    if not keeps_verdicts:  # fitted for the old weights, as the overlap's weights
        changed |= {"lexical_overlap": {}, "similarity": 0.0, "sentence_layer": NO_LAYER}
    missing = [name for name in asked if name not in bundle_heads]
    adds = missing == ["evidence"] or (missing == asked and "support" not in missing)
    if missing and (not adds or info.trunk != "shared"):
        raise ConfigError(
            f"heads: {encoder.name} has no {' and no '.join(missing)} head (it has "
            f"{', '.join(bundle_heads)}); leave it out, or start from another bundle"
        )
    model = load_rag_model(bundle, changed)
    if model.prefix_attention != _prefix_attention(config, model.prefix_attention, keeps_verdicts):
        model.use_prefix_attention()
    heads = [*kept_heads(bundle_heads, asked), *asked]
    model.keep_heads(heads)
    for name in missing:
        model.add_head(name)
    if isinstance(model.trunk, Trunk):
        model.trunk = make_trunk(model.trunk, encoder.trunk, encoder.shared_layers, heads)
    return model, SegmentTokenizer.from_file(bundle.path(TOKENIZER_NAME))


def _from_encoder(config: TrainConfig) -> tuple[RagModel, SegmentTokenizer]:
    encoder, heads = config.encoder, _asked_heads(config)
    trunk = Trunk.from_pretrained(encoder.name, encoder.attention_dropout, encoder.hidden_dropout)
    if _prefix_attention(config):
        trunk.use_prefix_attention()
    nli = encoder.init == "nli"
    model = RagModel(
        make_trunk(trunk, encoder.trunk, encoder.shared_layers, heads),
        Architecture(
            heads=tuple(heads),
            faithfulness=config.faithfulness,
            dropout=encoder.head_dropout,
            pooled_support=nli,
            granularity=config.granularity,
        ),
    )
    if nli and "support" not in heads:
        raise ConfigError(
            f"encoder.init: nli initialises the support head, which heads ({', '.join(heads)}) "
            "leaves out; set encoder.init to plain"
        )
    if nli:
        copy_nli_head(cast(TokenHead, model.heads["support"]), *_read_nli_head(encoder.name))
    return model, read_tokenizer(encoder.name, int(model.trunk.config.vocab_size))


def _asked_heads(config: TrainConfig) -> list[HeadName]:
    return [name for name in HEAD_NAMES if name in config.heads]


def kept_heads(present: Collection[HeadName], asked: Collection[HeadName]) -> list[HeadName]:
    """Return the heads of a bundle that stay as they are next to those asked for.

    These are all of its own where none of them is asked for: the others are added to it.
    """
    return [] if set(present) & set(asked) else [name for name in HEAD_NAMES if name in present]


def window_layout(config: TrainConfig) -> WindowLayout:
    """Return the layout of the windows: that of the bundle that training starts from."""
    if config.encoder.init != "bundle":
        return "plain"
    return read_bundle(config.encoder.name).info.window.layout


def _prefix_attention(config: TrainConfig, before: bool | None = None, kept: bool = False) -> bool:
    """Return whether contexts and question do not see the response.

    Without a setting it is a bundle's own, and true for an encoder, unless its first token decides,
    which must see the response.

    Args:
        config: Configuration.
        before: Setting of the bundle that training starts from; ``None`` for an encoder.
        kept: Whether that bundle's weights stay as they are.

    Raises:
        ConfigError: The granularity or the bundle does not allow what is asked.
    """
    setting = config.encoder.prefix_attention
    if setting is None:
        setting = config.granularity == "token" if before is None else before
    if setting and config.granularity == "example":
        raise ConfigError(
            "granularity: example needs a window whose first token sees the response, which "
            "encoder.prefix_attention hides: "
            + ("start from another bundle" if before else "set it to false")
        )
    if before is not None and setting != before and (before or kept):
        raise ConfigError(
            f"encoder.prefix_attention ({str(setting).lower()}) must be {str(before).lower()}, "
            "as that of the bundle that training starts from; leave it out"
        )
    return setting


def _check_trunk(info: BundleInfo, name: str, trunk: str, shared_layers: int | None) -> None:
    """Refuse a bundle with another trunk, unless it is shared and can be copied."""
    same = info.trunk == trunk and (trunk != "partial" or info.shared_layers == shared_layers)
    if info.trunk == "shared" or same:
        return

    def words(kind: str, layers: int | None) -> str:
        return f"{kind} (shared_layers: {layers})" if kind == "partial" else kind

    raise ConfigError(
        f"encoder.trunk: the trunk of {name} is {words(info.trunk, info.shared_layers)}, from "
        f"which a {words(trunk, shared_layers)} one cannot start; ask for the same, or start from "
        "a bundle with a shared trunk"
    )


def _read_nli_head(name: str) -> tuple[dict[str, Tensor], dict[str, int]]:
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        checkpoint, loading = AutoModelForSequenceClassification.from_pretrained(
            name, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"encoder.name: {name!r} is not an NLI checkpoint: {reason}") from error
    state: dict[str, Tensor] = checkpoint.state_dict()
    for tensor in loading["missing_keys"]:  # the library fills them with random numbers
        state.pop(tensor, None)
    return state, config.label2id


def read_tokenizer(name: str, vocab_size: int, revision: str | None = None) -> SegmentTokenizer:
    """Read a tokenizer, converting a SentencePiece model or a word list if it has no other file.

    The bundle holds the result as its ``tokenizer.json``, so it is converted once.

    Raises:
        ConfigError: It cannot be read or converted, or has other ids than the encoder.
    """
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            name, revision=revision, trust_remote_code=False
        )
    except (ImportError, OSError, ValueError) as error:
        missing = [module for module in _CONVERTERS if importlib.util.find_spec(module) is None]
        if missing:
            raise ConfigError(
                f"encoder.name: {name!r} has no readable tokenizer.json, and converting another "
                f"file needs {' and '.join(missing)}; {install_line('train')}"
            ) from error
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"encoder.name: {name!r} has no readable tokenizer: {reason}") from error
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"encoder.name: {name!r} has a tokenizer that cannot be converted to a tokenizer.json, "
            "which offsets need"
        )
    segmenter = SegmentTokenizer(tokenizer.backend_tokenizer)
    # Without any file of a vocabulary the library returns the special tokens alone.
    if not _LEAST_SHARE * vocab_size <= segmenter.vocab_size <= vocab_size:
        raise ConfigError(
            f"encoder.name: the tokenizer of {name!r} has {segmenter.vocab_size} ids and the "
            f"encoder {vocab_size}; a file is missing (tokenizer.json, vocab.txt or spm.model), "
            "or it belongs to another model"
        )
    return segmenter
