"""``trivet export``: ONNX graphs, an OpenVINO model, a TensorRT engine or a Triton repository."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trivet.commands.shared import Precision, ThreadsOption, needs_extra

if TYPE_CHECKING:
    from trivet.records import LabelledExample

export = typer.Typer(
    name="export",
    help="Export a bundle to ONNX, OpenVINO, TensorRT or Triton.",
    no_args_is_help=True,
)

EncoderKind = Literal["tensorrt", "onnxruntime", "python-onnx"]
BundleArgument = Annotated[
    Path,
    typer.Argument(metavar="BUNDLE", help="Bundle with weights or graphs: a folder, or embedded."),
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Write a serving bundle without weights here; default: add to BUNDLE."),
]
FormOption = Annotated[
    Literal["portable", "attention"],
    typer.Option(help="attention: also write model.attention.onnx for TensorRT (opset 23)."),
]
DataOption = Annotated[
    str,
    typer.Option(
        metavar="SPEC", help="Labelled rows that no weight was trained on: jsonl:dev.jsonl."
    ),
]
SplitOption = Annotated[str, typer.Option(help="Split of the rows.")]


@export.command()
def onnx(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="Bundle with weights: a folder, or embedded.")
    ],
    out: OutOption = None,
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="int8 or fp32: write only this graph; bf16 or fp16: write this graph too.",
            show_default=False,
        ),
    ] = None,
    form: FormOption = "portable",
    threads: ThreadsOption = None,
) -> None:
    """Write ONNX graphs and compare them with the weights."""
    keep: tuple[Precision, ...] | None = (precision,) if precision else None
    if precision in ("bf16", "fp16"):
        keep = ("fp32", "int8", precision)  # an engine may be compared with fp32
    write_graphs(bundle, out, keep, form, threads)
    print(out or bundle)


@export.command()
def openvino(
    bundle: BundleArgument,
    data: DataOption,
    split: SplitOption = "dev",
    out: OutOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Choose the fastest accurate model for OpenVINO."""
    rows = _load_rows(data, split)
    bundle = _with_graphs(bundle, out, ("fp32", "int8"), "portable", threads)
    with needs_extra("export"):
        from trivet.exporting.openvino import describe, export_openvino
    chosen = export_openvino(bundle, rows, data, split, keep_fp32=out is None, threads=threads)
    for candidate in chosen.candidates:
        kept = " (kept)" if candidate.method == chosen.method else ""
        print(f"{describe(candidate)}{kept}")
    print(bundle)


@export.command()
def tensorrt(
    bundle: BundleArgument,
    data: DataOption,
    split: SplitOption = "dev",
    precision: Annotated[
        Literal["fp16", "bf16", "fp32"], typer.Option(help="Precision of the engine.")
    ] = "fp16",
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Compare on the first N rows.")
    ] = None,
    form: Annotated[
        Literal["portable", "attention"],
        typer.Option(help="Form of the graph, if the bundle has none in this precision."),
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
    exported = any(each.precision == precision for each in graphs)
    if out is not None or not exported:
        bundle = _with_graphs(
            bundle, out, ("fp32", "int8", precision), form, threads, exported=exported
        )
    with needs_extra("tensorrt"):
        from trivet.exporting.tensorrt import export_tensorrt
    with show_steps() as progress:
        built = export_tensorrt(bundle, rows, data, precision, progress)
    print(
        f"engine of {built.graph} for {built.target.gpu}, built in {built.build_seconds:.0f} s: "
        f"AUROC {-(built.auroc_loss or 0):+.4f}, RMSE {built.rmse_loss or 0:+.4f}, "
        f"{built.flipped} of {built.rows} verdicts changed, largest difference "
        f"{built.difference:.2g}"
    )
    print(bundle)


@contextlib.contextmanager
def show_steps() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar with the time left for each step on stderr; yield the function that moves them."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def move(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield move


@export.command()
def triton(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="Folder of a bundle, or embedded.")
    ],
    out: Annotated[Path, typer.Option(help="Empty or new folder for the repository.")],
    encoder: Annotated[
        EncoderKind,
        typer.Option(help="Backend of the encoder; tensorrt uses the engine that was built here."),
    ],
    precision: Annotated[
        Precision | None,
        typer.Option(help="Graph to use; default: the fastest.", show_default=False),
    ] = None,
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
    form: Literal["portable", "attention"],
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
    form: Literal["portable", "attention"],
    threads: int | None,
    exported: bool = False,
) -> Path:
    """Write the graphs if the bundle has weights; return the folder that holds the graphs.

    A bundle with an fp32 graph and no weights was exported elsewhere, for a machine with a GPU for
    example, and is copied, as is one that was ``exported`` in the form that its owner chose.
    Weights are read back from an int8 graph alone.
    """
    from trivet.bundle.bundle import (
        CARD_NAME,
        ENCODER_NAME,
        GRAPH_NAME,
        INFO_NAME,
        TOKENIZER_NAME,
        WEIGHTS_NAME,
        read_bundle,
        write_bundle,
    )

    found = read_bundle(bundle)
    if found.has(GRAPH_NAME) and (exported or not found.has(WEIGHTS_NAME)):
        if out is None:
            return bundle
        tokenizer = found.path(TOKENIZER_NAME).read_text(encoding="utf-8")
        left_out = {TOKENIZER_NAME, INFO_NAME, CARD_NAME, WEIGHTS_NAME, ENCODER_NAME}
        copied = {name: found.path(name) for name in found.manifest.files.keys() - left_out}
        write_bundle(out, found.info, tokenizer, extra=copied)
        return out
    write_graphs(bundle, out, keep, form, threads)
    return out or bundle


def _load_rows(data: str, split: str) -> list[LabelledExample]:
    with needs_extra("train"):
        from trivet.data.labelled.sources import load_source
    return load_source(data, split)[0]
