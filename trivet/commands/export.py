"""``trivet export``: a bundle becomes graphs, and an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.shared import EngineName, Precision, ThreadsOption, needs_extra
from trivet.records import LabelledExample


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
        EngineName,
        typer.Option(
            help="openvino: measure on --data what is fastest and good; tensorrt: build an engine "
            "for this machine's card."
        ),
    ] = "onnx",
    data: Annotated[
        str | None, typer.Option(help="Labelled rows to measure the engine on; dev rows.")
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

    if engine == "openvino" and (data is None or precision is not None):
        raise typer.BadParameter(
            "--engine openvino chooses the precision itself, by what it measures on --data DATA"
        )
    if engine == "tensorrt" and (data is None or precision == "int8"):
        raise typer.BadParameter(
            "--engine tensorrt is built in bf16, fp16 or fp32, and kept only if it leaves the "
            "verdicts on --data DATA as they are"
        )
    keep: tuple[Precision, ...] | None = (precision,) if precision else None
    if engine == "tensorrt" or precision in ("bf16", "fp16"):
        keep = ("fp32", "int8", precision or "bf16")  # an engine is compared with the first
    if engine == "openvino":
        keep = ("fp32", "int8")
    # On the machine of the card there may be no weights: the graphs were written elsewhere.
    if engine == "onnx" or read_bundle(bundle).has(WEIGHTS_NAME):
        with needs_extra("export"):
            from trivet.export import export_onnx
        report = export_onnx(bundle, out, keep=keep, form=form, threads=threads)
        for file, worst in report.worst.items():
            print(f"{file}: largest difference from the weights {worst:.2g}")
        bundle = out or bundle
    rows: list[LabelledExample] = []
    if data is not None and engine != "onnx":
        with needs_extra("train"):
            from trivet.data.sources import load_source
        rows = load_source(data, split)[0]
    if engine == "openvino":
        with needs_extra("export"):
            from trivet.serve.openvino_candidates import describe
            from trivet.serve.openvino_export import export_openvino
        chosen = export_openvino(
            bundle, rows, str(data), split, keep_fp32=out is None, threads=threads
        )
        for candidate in chosen.candidates:
            kept = " (kept)" if candidate.method == chosen.method else ""
            print(f"{describe(candidate)}{kept}")
    if engine == "tensorrt":
        from trivet.serve.engine_export import export_tensorrt

        built = export_tensorrt(bundle, precision or "bf16", [row.example for row in rows])
        print(f"engine for {built.target.gpu}: largest difference from fp32 {built.difference:.2g}")
    print(bundle)
