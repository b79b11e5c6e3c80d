"""The settings that make a small DeBERTa one of the second and third version."""

from __future__ import annotations

from typing import Any

RELATIVE: dict[str, Any] = {
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}
