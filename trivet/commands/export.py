"""``trivet export``: a bundle becomes graphs, an engine, or a model repository for Triton."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trivet.commands.shared import BackendName, Precision, ThreadsOption, needs_extra
from trivet.records import LabelledExample

EncoderKind = Literal["tensorrt", "onnxruntime", "python-onnx"]
# What is written from the weights alone.
Traced = Literal["int8", "fp32", "bf16", "fp16"]


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
    backend: Annotated[
        BackendName,
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
    quantize: Annotated[
        Literal["int8", "fp8"] | None,
        typer.Option(
            help="For TensorRT: the layers' products in 8 bits, with ranges from --data, kept if "
            "AUROC and RMSE lose at most 0.005 there."
        ),
    ] = None,
    triton: Annotated[
        Path | None,
        typer.Option(
            help="Write a model repository for NVIDIA Triton here; builds no graph and no engine."
        ),
    ] = None,
    encoder: Annotated[
        EncoderKind | None,
        typer.Option(help="What runs it in Triton; tensorrt: the engine that was built here."),
    ] = None,
) -> None:
    """Write a bundle's ONNX graphs, compared with its weights over a grid of shapes."""
    from trivet.bundle.bundle import WEIGHTS_NAME, read_bundle

    if (triton is None) != (encoder is None):
        raise typer.BadParameter("--triton DIR and --encoder KIND belong together; give both")
    if triton is not None and encoder is not None:
        if (
            out is not None
            or data is not None
            or backend != "onnx"
            or form != "portable"
            or quantize
        ):
            raise typer.BadParameter(
                "--triton builds no graph and no engine; export these first, without it"
            )
        from trivet.serve.triton.repository import export_triton

        export_triton(bundle, triton, encoder, precision=precision, threads=threads)
        print(triton)
        return
    if quantize and (data is None or backend == "openvino" or precision in ("int8", "fp32")):
        raise typer.BadParameter(
            "--quantize is for TensorRT: it finds ranges and measures losses on --data DATA, and "
            "leaves the other products in --precision bf16 or fp16"
        )
    if precision == "int8-qdq" or precision == "fp8-qdq":
        raise typer.BadParameter(f"{precision} is made by --quantize {precision[:-4]}")
    if backend == "openvino" and (data is None or precision is not None):
        raise typer.BadParameter(
            "--backend openvino chooses the precision itself, by what it measures on --data DATA"
        )
    if backend == "tensorrt" and (data is None or precision == "int8"):
        raise typer.BadParameter(
            "--backend tensorrt is built in bf16, fp16 or fp32, and kept only if it leaves the "
            "verdicts on --data DATA as they are"
        )
    keep: tuple[Traced, ...] | None = (precision,) if precision else None
    if backend == "tensorrt" or precision in ("bf16", "fp16"):
        keep = ("fp32", "int8", precision or "bf16")  # an engine is compared with the first
    if backend == "openvino" or (quantize and precision is None):
        keep = ("fp32", "int8")
    # On the machine of the card there may be no weights: the graphs were written elsewhere.
    if backend == "onnx" or read_bundle(bundle).has(WEIGHTS_NAME):
        with needs_extra("export"):
            from trivet.export import export_onnx
        report = export_onnx(bundle, out, keep=keep, form=form, threads=threads)
        for file, worst in report.worst.items():
            print(f"{file}: largest difference from the weights {worst:.2g}")
        bundle = out or bundle
    rows: list[LabelledExample] = []
    if data is not None and (backend != "onnx" or quantize):
        with needs_extra("train"):
            from trivet.data.labelled.sources import load_source
        rows = load_source(data, split)[0]
    if backend == "openvino":
        with needs_extra("export"):
            from trivet.exporting.openvino import export_openvino
            from trivet.exporting.openvino_candidates import describe
        chosen = export_openvino(
            bundle, rows, str(data), split, keep_fp32=out is None, threads=threads
        )
        for candidate in chosen.candidates:
            kept = " (kept)" if candidate.method == chosen.method else ""
            print(f"{describe(candidate)}{kept}")
    wanted = f"{quantize}-qdq" if quantize else precision or "bf16"
    # Without weights the graph was made elsewhere, with them it went when the others were written.
    if quantize and all(each.precision != wanted for each in read_bundle(bundle).info.graphs):
        with needs_extra("export"):
            from trivet.exporting.quantized import export_quantized
        half: Literal["bf16", "fp16"] = "fp16" if precision == "fp16" else "bf16"
        lost = export_quantized(
            bundle, quantize, rows, str(data), split, half=half, threads=threads
        )
        print(
            f"{lost.file}: AUROC {-lost.auroc_loss:+.4f}, RMSE {lost.rmse_loss:+.4f}, "
            f"{lost.flipped} of {lost.rows} verdicts changed"
        )
    if backend == "tensorrt":
        from trivet.exporting.tensorrt import export_tensorrt

        labelled = rows if quantize else []
        examples = [row.example for row in rows]
        built = export_tensorrt(bundle, wanted, examples, labelled=labelled)
        print(f"engine for {built.target.gpu}: largest difference from fp32 {built.difference:.2g}")
    print(bundle)
