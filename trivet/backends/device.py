"""Devices: options such as ``cuda:1``, and the GPUs that NVIDIA's driver reports."""

from __future__ import annotations

import ctypes
import functools
import re
from importlib import metadata
from typing import NamedTuple

from trivet.errors import BackendError

_DRIVERS = ("libcuda.so.1", "nvcuda.dll")
_DEVICE = re.compile(r"cpu|cuda(?::(\d+))?")


class Driver(NamedTuple):
    """NVIDIA's driver: the newest CUDA version that it runs, and its number of GPUs."""

    cuda: tuple[int, int]
    gpus: int


@functools.cache
def find_driver() -> Driver | None:
    """Return the driver of this machine; ``None`` without one or without a GPU."""
    for name in _DRIVERS:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        version, gpus = ctypes.c_int(), ctypes.c_int()
        failed = (
            library.cuInit(0)
            or library.cuDriverGetVersion(ctypes.byref(version))
            or library.cuDeviceGetCount(ctypes.byref(gpus))
        )
        if not failed and gpus.value:
            return Driver((version.value // 1000, version.value % 1000 // 10), gpus.value)
    return None


def is_device(name: object) -> bool:
    """Return whether ``name`` has the form of a device: ``cpu``, ``cuda`` or ``cuda:N``."""
    return isinstance(name, str) and _DEVICE.fullmatch(name) is not None


def find_gpu(device: str | None) -> int | None:
    """Return the number of the GPU that ``device`` names; ``None`` means the CPU.

    Args:
        device: ``cpu``, ``cuda`` or ``cuda:N``; ``None`` takes the first GPU if there is one.

    Raises:
        BackendError: There is no such device.
    """
    named = _DEVICE.fullmatch(device or "cuda")
    if named is None:
        raise BackendError(f"no device {device}; use cpu, cuda or cuda:N")
    driver = None if device == "cpu" else find_driver()
    number = int(named[1] or 0)
    if driver is not None and number < driver.gpus:
        return number
    if device in ("cpu", None):
        return None
    hardware = f"{driver.gpus} GPU{'s' * (driver.gpus > 1)}" if driver else "no driver or no GPU"
    raise BackendError(f"no device {device}: CUDA finds {hardware}; use --device cpu")


def check_driver(library: str, built_for: str) -> None:
    """Refuse a driver that is older than the CUDA version that a library was built for.

    Raises:
        BackendError: The driver is too old; the message names both versions.
    """
    driver = find_driver()
    if driver is not None and int(built_for.split(".")[0]) > driver.cuda[0]:
        raise BackendError(
            f"the NVIDIA driver runs CUDA {driver.cuda[0]}.{driver.cuda[1]} at most, and {library} "
            f"needs CUDA {built_for}; update the driver, or install {library} for CUDA "
            f"{driver.cuda[0]}"
        )


def describe_devices() -> list[tuple[str, str]]:
    """Return what this machine computes on: GPUs, and the libraries that can use them."""
    import onnxruntime

    driver = find_driver()
    cuda = driver and f"{driver.gpus}, driver for CUDA {driver.cuda[0]}.{driver.cuda[1]}"
    providers = [
        name.removesuffix("ExecutionProvider")
        for name in onnxruntime.get_available_providers()
        if name.startswith(("CUDA", "Tensorrt", "CPU"))
    ]
    rows = [
        ("GPU", cuda or "none"),
        ("onnxruntime", f"{onnxruntime.__version__} ({', '.join(providers)})"),
    ]
    for name, package in (("openvino",) * 2, ("tensorrt", "tensorrt-cu13"), ("torch",) * 2):
        try:
            rows.append((name, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return rows
