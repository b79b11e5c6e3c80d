"""``trivet info``: facts and scores of a bundle."""

from __future__ import annotations

from typing import Any

from trivet.commands.options import BundleOption, options


@options
def info(bundle: BundleOption = None) -> None:
    """Check the files of a bundle and show its facts and scores."""
    from trivet.bundle.bundle import read_bundle
    from trivet.bundle.hub import EMBEDDED_BUNDLE
    from trivet.report import terminal
    from trivet.report.bundle_facts import render_info

    found = read_bundle(bundle or EMBEDDED_BUNDLE)
    terminal.show(render_info(found.info, str(found.folder), describe_devices(), found.revision))


def describe_devices() -> list[tuple[str, str]]:
    """Return what this machine computes on: GPUs, and the libraries that can use them."""
    from importlib import metadata

    import onnxruntime

    from trivet.backends.device import find_driver

    driver = find_driver()
    providers = [name.removesuffix("ExecutionProvider") for name in _offered(onnxruntime)]
    rows = [
        (
            "GPU",
            f"{driver.gpus}, driver for CUDA {driver.cuda[0]}.{driver.cuda[1]}"
            if driver
            else "none",
        ),
        ("onnxruntime", f"{onnxruntime.__version__} ({', '.join(providers)})"),
    ]
    for name, package in (
        ("openvino", "openvino"),
        ("tensorrt", "tensorrt-cu13"),
        ("torch", "torch"),
    ):
        try:
            rows.append((name, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return rows


def _offered(onnxruntime: Any) -> list[str]:
    """Return the providers of ONNX Runtime that trivet uses."""
    offered = onnxruntime.get_available_providers()
    return [name for name in offered if name.startswith(("CUDA", "Tensorrt", "CPU"))]
