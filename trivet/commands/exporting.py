"""``trivet export``: ONNX graphs, an OpenVINO model, a TensorRT engine or a Triton repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trivet.commands.command import Command
from trivet.commands.options import BundleArgument, OneDataOption, options
from trivet.commands.shared import needs_extra
from trivet.settings import Precision, Setting, SplitOption, ThreadsOption

if TYPE_CHECKING:
    from trivet.records import LabelledExample

export = typer.Typer(
    name="export",
    help="Export a bundle to ONNX, OpenVINO, TensorRT or Triton.",
    no_args_is_help=True,
)

EncoderKind = Literal["tensorrt", "onnxruntime", "python-onnx"]
OutOption = Annotated[
    Path | None, Setting("Write a serving bundle without weights here; default: add to BUNDLE.")
]
Form = Literal["portable", "attention"]


@export.command(cls=Command)
@options
def onnx(
    bundle: BundleArgument,
    *,
    out: OutOption = None,
    precision: Annotated[
        Precision | None,
        Setting("int8 or fp32: write only this graph; bf16 or fp16: write this graph too."),
    ] = None,
    form: Annotated[
        Form, Setting("attention: also write model.attention.onnx for TensorRT (opset 23).")
    ] = "portable",
    threads: ThreadsOption = None,
) -> None:
    """Write ONNX graphs and compare them with the weights."""
    keep: tuple[Precision, ...] | None = (precision,) if precision else None
    if precision in ("bf16", "fp16"):
        keep = ("fp32", "int8", precision)  # an engine may be compared with fp32
    write_graphs(bundle, out, keep, form, threads)
    print(out or bundle)


@export.command(cls=Command)
@options
def openvino(
    bundle: BundleArgument,
    *,
    data: OneDataOption,
    split: SplitOption = "dev",
    out: OutOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Choose the fastest accurate model for OpenVINO."""
    rows = _load_rows(data, split)
    bundle = _with_graphs(bundle, out, ("fp32", "int8"), "portable", threads)
    with needs_extra("export"):
        from trivet.exporting.openvino_export import describe, export_openvino
    chosen = export_openvino(bundle, rows, data, split, keep_fp32=out is None, threads=threads)
    for candidate in chosen.candidates:
        kept = " (kept)" if candidate.method == chosen.method else ""
        print(f"{describe(candidate)}{kept}")
    print(bundle)


@export.command(cls=Command)
@options
def tensorrt(
    bundle: BundleArgument,
    *,
    data: OneDataOption,
    split: SplitOption = "dev",
    precision: Annotated[
        Literal["fp16", "bf16", "fp32"], Setting("Precision of the engine.")
    ] = "fp16",
    limit: Annotated[
        int | None, Setting("Compare on the first N rows.", metavar="N", least=1)
    ] = None,
    form: Annotated[
        Form, Setting("Form of the graph, if the bundle has none in this precision.")
    ] = "attention",
    out: OutOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Build and check an engine for this machine's GPU."""
    from trivet.backends.tensorrt_build import find_target
    from trivet.bundle.bundle import read_bundle

    find_target()  # refuses a machine without TensorRT, GPU or driver before any work
    rows = _load_rows(data, split)[:limit]
    graphs = read_bundle(bundle).info.graphs
    exported = any(graph.precision == precision for graph in graphs)
    if out is not None or not exported:
        bundle = _with_graphs(
            bundle, out, ("fp32", "int8", precision), form, threads, exported=exported
        )
    with needs_extra("tensorrt"):
        from trivet.exporting.tensorrt_export import describe, export_tensorrt, show_steps
    with show_steps() as progress:
        built = export_tensorrt(bundle, rows, data, precision, progress)
    print(describe(built))
    print(bundle)


@export.command(cls=Command)
@options
def triton(
    bundle: BundleArgument,
    *,
    out: Annotated[Path, Setting("Empty or new folder for the repository.")],
    encoder: Annotated[
        EncoderKind,
        Setting("Backend of the encoder; tensorrt uses the engine that was built here."),
    ],
    precision: Annotated[Precision | None, Setting("Graph to use; default: the fastest.")] = None,
    threads: ThreadsOption = None,
) -> None:
    """Write a model repository for NVIDIA Triton."""
    from trivet.serve.triton.repository import export_triton

    export_triton(bundle, out, encoder, precision=precision, threads=threads)
    print(out)


def write_graphs(
    bundle: Path,
    out: Path | None,
    keep: tuple[Precision, ...] | None,
    form: Form,
    threads: int | None,
) -> None:
    """Write ONNX graphs, and print how far each is from the weights."""
    with needs_extra("export"):
        from trivet.export import export_onnx
    report = export_onnx(bundle, out, keep=keep, form=form, threads=threads)
    for file, worst in report.worst.items():
        print(f"{file}: largest difference from the weights {worst:.2g}")


def _with_graphs(
    bundle: Path,
    out: Path | None,
    keep: tuple[Precision, ...],
    form: Form,
    threads: int | None,
    exported: bool = False,
) -> Path:
    """Write the graphs if the bundle has weights; return the folder that holds the graphs.

    A bundle with an fp32 graph and no weights was exported elsewhere, for a machine with a GPU for
    example, and is copied, as is one that was ``exported`` in the form that its owner chose.
    Weights are read back from an int8 graph alone.
    """
    from trivet.bundle.bundle import GRAPH_NAME, WEIGHTS_NAME, copy_graphs, read_bundle

    stored = read_bundle(bundle)
    if stored.has(GRAPH_NAME) and (exported or not stored.has(WEIGHTS_NAME)):
        if out is not None:
            copy_graphs(stored, out)
        return out or bundle
    write_graphs(bundle, out, keep, form, threads)
    return out or bundle


def _load_rows(data: str, split: str) -> list[LabelledExample]:
    with needs_extra("train"):
        from trivet.labelled.sources import load_source
    return load_source(data, split)[0]
