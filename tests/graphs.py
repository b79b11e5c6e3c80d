"""Two-layer encoders with random weights, and their graphs, each traced once for all tests."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import transformers
from onnx import TensorProto, helper

from tests.conftest import MODERN, RELATIVE, TINY, bundle_info
from tests.judges import write_model
from tests.once import once
from trivet import export
from trivet.export import export_onnx
from trivet.exporting.graph import OPSET, trace
from trivet.exporting.graph_files import ATTENTION_OPSET
from trivet.model.architecture import Architecture
from trivet.model.inference.layer import Form
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk

# With 1,200 words the embeddings are quantized.
WINDOW, VOCAB, LAYERS = 48, 1200, 2
OPSETS: dict[Form, int] = {"portable": OPSET, "runtime": OPSET, "attention": ATTENTION_OPSET}
_SIZES = TINY | {"vocab_size": VOCAB, "max_position_embeddings": 96, "initializer_range": 0.1}


@functools.cache
@torch.inference_mode(False)  # whatever mode the first caller is in
def model_of(kind: str) -> RagModel:
    """Return a model with an encoder of each kind; tests must not change it."""
    torch.manual_seed(1)
    encoder: transformers.PreTrainedModel
    if kind == "bert":
        bert = transformers.BertConfig(type_vocab_size=2, **_SIZES)
        encoder = transformers.BertModel(bert, add_pooling_layer=False)
    elif kind == "mpnet":
        encoder = transformers.MPNetModel(transformers.MPNetConfig(**_SIZES), False)
        torch.nn.init.normal_(encoder.encoder.relative_attention_bias.weight)
    elif kind == "modernbert":
        encoder = transformers.ModernBertModel(transformers.ModernBertConfig(**_SIZES | MODERN))
    else:
        encoder = transformers.DebertaV2Model(transformers.DebertaV2Config(**_SIZES, **RELATIVE))
    model = RagModel(Trunk(encoder), Architecture(pooled_support=True)).eval()
    for parameter in model.heads.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # probabilities are far from one half
    return model


def graph_of(kind: str, form: Form = "portable") -> onnx.ModelProto:
    """Return the fp32 graph of a model; tests must not change it."""
    return _trace(kind, form)


@functools.cache
def _trace(kind: str, form: Form) -> onnx.ModelProto:
    def write(path: Path) -> None:
        graph = trace(inference_model(model_of(kind), WINDOW, form), VOCAB, OPSETS[form])
        onnx.save(graph, path)

    return onnx.load(once(f"{kind}.{form}.onnx", write))


def exported_bundle(kind: str) -> Path:
    """Return the bundle of a model with its weights and graphs; tests must not change it."""

    def write(folder: Path) -> None:
        write_tiny(folder, model_of(kind))
        with shared_graphs():
            export_onnx(folder, threads=1)

    return once(f"{kind}.bundle", write)


@contextlib.contextmanager
def shared_graphs() -> Iterator[None]:
    """Let exports take the graphs of ``graph_of`` instead of tracing again."""

    def find(model: RagModel, window: int, form: Form) -> onnx.ModelProto:
        return graph_of(str(model.trunk.config.model_type), form)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "inference_model", find)
        patch.setattr(export, "trace", lambda graph, *_, **__: copy.deepcopy(graph))
        yield


def write_tiny(folder: Path, model: RagModel, tokenizer: str = "{}", **changes: Any) -> Path:
    """Write a bundle of a tiny model with weights; ``changes`` are fields of its description."""
    info = bundle_info(model.trunk.config.model_type, **changes)
    return write_model(folder, info, tokenizer, model)


def write_other_graph(path: Path) -> None:
    """Write a graph that is not a model of this package."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N"]) for n in ("text", "score")]
    node = helper.make_node("Sqrt", ["text"], ["score"])
    graph = helper.make_graph([node], "other", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
