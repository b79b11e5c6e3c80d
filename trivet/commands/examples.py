"""Examples of each command, shown at the end of its help."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, str]] = {
    "evaluate": (
        "trivet evaluate log.jsonl --out verdicts.jsonl --report report.html",
        "trivet evaluate log.csv --map question=prompt --fail-over unsupported=0.05",
    ),
    "show": ("trivet show verdicts.jsonl", "trivet show verdicts.jsonl --id 17"),
    "report": (
        "trivet report verdicts.jsonl --out report.html",
        "trivet report before.jsonl after.jsonl --out change.html",
    ),
    "serve": (
        "trivet serve --port 8080",
        "trivet serve --host 0.0.0.0 --keys keys.txt",
    ),
    "mcp": ("trivet mcp", "trivet mcp --bundle runs/judge/bundle"),
    "test": (
        "trivet test labelled.csv --report errors.html",
        "trivet test --data ragtruth:data/ragtruth --split dev",
    ),
    "calibrate": (
        "trivet calibrate runs/judge/bundle --data jsonl:dev.jsonl",
        "trivet calibrate embedded --data jsonl:dev.jsonl --thresholds-only --out mine",
    ),
    "annotate": (
        "trivet annotate log.jsonl --out labelled.jsonl --model gpt-5-mini",
        "trivet annotate log.jsonl --out labelled.jsonl --model qwen3 "
        "\\\n    --base-url http://127.0.0.1:8000/v1",
    ),
    "adapt": (
        "trivet adapt labelled.jsonl --out runs/mine",
        "trivet adapt labelled.jsonl --out runs/mine optim.epochs=5",
    ),
    "train": (
        "trivet train embedded.yaml encoder.name=DIR --dry-run",
        "trivet train embedded.yaml encoder.name=DIR --resume",
    ),
    "ablate": (
        "trivet ablate grid.yaml --out runs/grid",
        "trivet ablate grid.yaml --out runs/grid --table-only",
    ),
    "info": ("trivet info", "trivet info runs/judge/bundle"),
    "publish": (
        "trivet publish runs/judge/bundle org/name --private",
        "trivet evaluate log.jsonl --bundle org/name",
    ),
    "export onnx": (
        "trivet export onnx runs/judge/bundle",
        "trivet export onnx runs/judge/bundle --precision int8 --out runs/served",
    ),
    "export openvino": (
        "trivet export openvino runs/judge/bundle --data jsonl:dev.jsonl",
        "trivet evaluate log.jsonl --bundle runs/judge/bundle --backend openvino",
    ),
    "export tensorrt": (
        "trivet export tensorrt runs/judge/bundle --data jsonl:dev.jsonl",
        "trivet evaluate log.jsonl --bundle runs/judge/bundle --backend tensorrt",
    ),
    "export triton": (
        "trivet export triton runs/judge/bundle --out models --encoder onnxruntime",
        "tritonserver --model-repository models",
    ),
    "import lettucedetect": (
        "trivet import lettucedetect org/name --out runs/detector",
        "trivet evaluate log.jsonl --bundle runs/detector",
    ),
}
