"""``trivet export``: a bundle becomes graphs, and an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.shared import EngineName, Precision, ThreadsOption, needs_extra


def export(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle with weights.")],
    out: Annotated[
        Path | None, typer.Option(help="Write a serving bundle here; without it, add to BUNDLE.")
    ] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="Write this graph alone; bf16 or fp16, for TensorRT, beside the others.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="tensorrt: build an engine for this machine's card as well.")
    ] = "onnx",
    data: Annotated[
        str | None, typer.Option(help="Rows whose verdicts the engine must not change.")
    ] = None,
    split: Annotated[str, typer.Option(help="Their split.")] = "dev",
    form: Annotated[
        Literal["portable", "attention"],
        typer.Option(help="attention: write model.attention.onnx as well, for TensorRT."),
    ] = "portable",
    threads: ThreadsOption = None,
) -> None:
    """Write a bundle's ONNX graphs, compared with its weights over a grid of shapes."""
    from trivet.model.bundle import WEIGHTS_NAME, read_bundle

    keep: tuple[Precision, ...] | None = (precision,) if precision else None
    if engine == "tensorrt" or precision in ("bf16", "fp16"):
        keep = ("fp32", "int8", precision or "bf16")  # an engine is compared with the first
    # On the machine of the card there may be no weights: the graphs were written elsewhere.
    if engine == "onnx" or read_bundle(bundle).has(WEIGHTS_NAME):
        with needs_extra("export"):
            from trivet.export import export_onnx
        report = export_onnx(bundle, out, keep=keep, form=form, threads=threads)
        for file, worst in report.worst.items():
            print(f"{file}: largest difference from the weights {worst:.2g}")
        bundle = out or bundle
    if engine == "tensorrt":
        from trivet.serve.engine_export import export_tensorrt

        rows = []
        if data is not None:
            with needs_extra("train"):
                from trivet.data.sources import load_source
            rows = [row.example for row in load_source(data, split)[0]]
        built = export_tensorrt(bundle, precision or "bf16", rows)
        print(f"engine for {built.target.gpu}: largest difference from fp32 {built.difference:.2g}")
    print(bundle)
