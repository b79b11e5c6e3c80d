"""DeBERTa-v3-large's shape on a GPU without TensorRT: our module compiled by torch, in bf16.

python -m benchmarks.gpu [--device cuda] [--lengths 256 512 1024] [--windows 1 4 16]

Random weights; only the device is timed. A request consists of equal calls of full windows. Speeds
are compared with large bf16 matmuls on the same device in the same run. With ``--device cpu`` torch
needs a C++ compiler.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.inputs import full_windows
from benchmarks.report import Table, milliseconds, parser, publish
from benchmarks.shapes import SHAPES, Shape, windows_of
from benchmarks.timing import Contender, Run, in_a_process, race, timed

VOCABULARY = 2000  # embedding rows are only read, so a short table takes the same time
KINDS = ("library eager", "ours eager", "ours compiled")
MATMUL = (8192, 1024, 4096)  # rows, inner, columns
_MATMULS = 300  # in one run, so that launch times do not matter


class Case(NamedTuple):
    """``calls`` in a row, each of ``windows`` windows of ``length`` positions."""

    length: int
    windows: int
    calls: int = 1

    def tflop(self, shape: Shape) -> float:
        """Return the 10^12 operations of all calls."""
        return self.calls * self.windows * shape.gflop(self.length) / 1000


def request_case(context: int, other: int, length: int, most: int) -> Case:
    """Return the equal calls of at most ``most`` windows that show a request.

    Raises:
        ValueError: Question and response leave no room for context.
    """
    windows = windows_of(context, other, length)
    calls = math.ceil(windows / most)
    return Case(length, math.ceil(windows / calls), calls)


def request_cases(
    contexts: Sequence[int], others: Sequence[int], lengths: Sequence[int], most: int
) -> dict[tuple[int, int, int], Case]:
    """Return the case of every request and window length with room for it."""
    cases = {}
    for context, other, length in itertools.product(contexts, others, lengths):
        with contextlib.suppress(ValueError):
            cases[context, other, length] = request_case(context, other, length, most)
    return cases


def build(shape: Shape, kind: str, device: str, longest: int, threads: int) -> Run:
    """Return a ``Run`` of one kind's cases."""
    import torch

    from benchmarks.gpu_model import Call, DeviceModel
    from benchmarks.models import random_model

    torch.set_num_threads(threads)
    model = DeviceModel(
        random_model(shape, VOCABULARY, longest),
        longest,
        device,
        form=None if kind.startswith("library") else "portable",
        compiled=kind.endswith("compiled"),
    )
    ready: dict[tuple[int, int], Call] = {}

    def run(case: Case) -> Mapping[str, float]:
        size = case.length, case.windows
        if size not in ready:
            ready[size] = model.prepare(full_windows(case.windows, case.length, VOCABULARY))
        started = time.perf_counter()
        for _ in range(case.calls):
            ready[size]()
        model.wait()
        return {"total": time.perf_counter() - started}

    return run


def build_matmuls(device: str, threads: int, rows: int, inner: int, columns: int) -> Run:
    """Return a ``Run`` of many matmuls of two large bf16 matrices."""
    import torch

    torch.set_num_threads(threads)
    left = torch.randn(rows, inner, device=device, dtype=torch.bfloat16)
    right = torch.randn(inner, columns, device=device, dtype=torch.bfloat16)

    def multiply(_: object) -> None:
        for _ in range(_MATMULS):
            left @ right
        if left.is_cuda:
            torch.cuda.synchronize(left.device)

    return timed(multiply)


def device_name(device: str) -> str:
    """Return the name of a torch device."""
    import torch

    on_gpu = torch.device(device).type == "cuda"
    return torch.cuda.get_device_name(device) if on_gpu else "the processor"


def main(arguments: Sequence[str] | None = None) -> int:
    """Time matmuls, windows and requests on the device and print them."""
    flags = parser(__doc__, repeats=10, bundle=False)
    flags.add_argument("--device", default="cuda", help="torch device")
    shapes = sorted(name for name, shape in SHAPES.items() if shape.model_type == "deberta-v2")
    flags.add_argument("--shape", choices=shapes, default="deberta-v3-large")
    flags.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    flags.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024])
    flags.add_argument(
        "--windows", type=int, nargs="+", default=[1, 4, 16], help="windows of a call"
    )
    flags.add_argument("--contexts", type=int, nargs="*", default=[4096, 16384], help="requests")
    flags.add_argument("--others", type=int, nargs="+", default=[100, 300])
    flags.add_argument("--matmul", type=int, nargs=3, default=MATMUL, help="rows inner columns")
    given = flags.parse_args(arguments)
    shape, longest = SHAPES[given.shape], max(given.lengths)
    name = in_a_process(device_name, given.device)
    on = given.device, given.threads
    matmuls = race([Contender("matmuls", build_matmuls, (*on, *given.matmul))], given.repeats)
    work = 2 * math.prod(given.matmul) * _MATMULS / 1e12
    peak = work / matmuls.measured["matmuls", None].median()
    sweep = [Case(*size) for size in itertools.product(given.lengths, given.windows)]
    requests = request_cases(given.contexts, given.others, given.lengths, max(given.windows))
    contenders = [
        Contender(kind, build, (shape, kind, given.device, longest, given.threads))
        for kind in given.kinds
    ]
    outcome = race(contenders, given.repeats, list(dict.fromkeys([*sweep, *requests.values()])))

    def cells(kind: str, case: Case, parts: int = 1) -> tuple[object, ...]:
        measured = outcome.measured[kind, case]
        rate = case.tflop(shape) / measured.median()
        taken = milliseconds([seconds / parts for seconds in measured.seconds()], 2)
        return taken, f"{rate:.1f}", f"{100 * rate / peak:.0f} %"

    figures = ("TFLOP/s", "share of matmuls")
    title = f"{shape.name} shape, random weights, on {name}; matmuls in bf16 {peak:.1f} TFLOP/s"
    publish(
        "gpu",
        [
            Table(
                f"{title}; windows:",
                ("kind", "positions", "windows a call", "ms a window (least to most)", *figures),
                [
                    (kind, case.length, case.windows, *cells(kind, case, case.windows))
                    for case, kind in itertools.product(sweep, given.kinds)
                ],
            ),
            Table(
                "Requests:",
                (
                    "kind",
                    "context tokens",
                    "question + response",
                    "positions",
                    "calls x windows",
                    "ms (least to most)",
                    *figures,
                ),
                [
                    (kind, *request, f"{case.calls} x {case.windows}", *cells(kind, case))
                    for (request, case), kind in itertools.product(requests.items(), given.kinds)
                ],
            ),
        ],
        given,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
