"""Models of a given shape with random weights, in torch and as ONNX graphs.

Times do not depend on the weights; the answers mean nothing. The "stock" forms do without this
project: the library's module in torch, or exported and quantized with the libraries' own tools.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.shapes import Shape
from trivet.data.windows import Windows
from trivet.exporting.graph import trace
from trivet.exporting.int8 import quantize
from trivet.model.aggregate import Outputs
from trivet.model.inference.rag_inference import inference_model
from trivet.model.rag_model import RagModel, as_tensors, to_numpy
from trivet.model.trunk import Trunk


class TorchBackend:
    """A torch model as a backend."""

    def __init__(self, model: torch.nn.Module, name: str, threads: int, bf16: bool = False) -> None:
        torch.set_num_threads(threads)
        self.name = name
        self._model = model.eval()
        self._bf16 = bf16

    def run(self, windows: Windows) -> Outputs:
        """Run the model; shapes as in ``Windows`` and ``Outputs``."""
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
            answer = self._model(*as_tensors(windows))
            return to_numpy(answer)


def random_model(shape: Shape, vocabulary: int, longest: int) -> RagModel:
    """Return a model with random weights from a fixed seed."""
    torch.manual_seed(0)
    config: dict[str, Any] = {
        "model_type": shape.model_type,
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.inner,
        "max_position_embeddings": longest,
    }
    if shape.model_type == "deberta-v2":  # as the published DeBERTa-v3 has them
        config |= {
            "max_position_embeddings": 512,
            "type_vocab_size": 0,
            "relative_attention": True,
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_biased_input": False,
            "layer_norm_eps": 1e-7,
        }
    trunk = Trunk.from_encoder_config(config)
    trunk.encoder.set_attn_implementation("eager")
    return RagModel(trunk).eval()


def write_graph(model: RagModel, longest: int, file: Path, precision: str) -> Path:
    """Write the graph that ``trivet export`` writes."""
    form: Literal["portable", "runtime"] = "runtime" if precision == "int8" else "portable"
    graph = trace(inference_model(model, longest, form), int(model.trunk.config.vocab_size))
    onnx.save(quantize(graph) if precision == "int8" else graph, file)
    return file


def write_stock_graph(model: RagModel, file: Path, precision: str) -> Path:
    """Write the graph of the library's own encoder, with the heads and joining of ``write_graph``.

    int8 is ONNX Runtime's dynamic quantization of every constant matmul, one scale an output
    channel.
    """
    graph = trace(model, int(model.trunk.config.vocab_size), fuse_sums=True)
    if precision == "fp32":
        onnx.save(graph, file)
        return file
    given = file.with_suffix(".fp32.onnx")
    onnx.save(graph, given)
    heads = [node.name for node in graph.graph.node if node.name.startswith("heads.")]
    quantize_dynamic(
        given, file, weight_type=QuantType.QInt8, per_channel=True, nodes_to_exclude=heads
    )
    given.unlink()
    return file
