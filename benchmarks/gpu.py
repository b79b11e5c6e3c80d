"""A GPU: DeBERTa-v3-large's shape in the torch backend, or every backend on a bundle.

python -m benchmarks.gpu [--device cuda] [--lengths 256 512 1024] [--windows 1 4 16]
python -m benchmarks.gpu --bundle DIR|embedded [--backends torch onnx tensorrt]

Without ``--bundle`` weights are random, and only calls of the backend are timed, copies included. A
request consists of equal calls of full windows. Speeds are compared with large matmuls in the same
precision on the same device in the same run; the last table compares answers with fp32. With
``--bundle`` whole requests are timed, from text to verdict; loading runs the bundle's self-test.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.inputs import build_example, full_windows
from benchmarks.report import Table, milliseconds, parser, publish, skipped
from benchmarks.shapes import SHAPES, Shape, windows_of
from benchmarks.timing import Contender, Run, in_a_process, race, timed
from trivet.backends.backend import Backend
from trivet.backends.loading import load_tokenizer
from trivet.data.windows import Windows
from trivet.records import RagExample
from trivet.settings import BackendName, Precision

if TYPE_CHECKING:
    from trivet.model.inference.layer import Form

VOCABULARY = 2000  # embedding rows are only read, so a short table takes the same time
# Form of attention and whether layers are compiled and calls replayed, by the name in the tables.
KINDS: dict[str, tuple[Form, bool]] = {
    "eager": ("portable", False),
    "compiled": ("portable", True),
    "fused": ("fused", False),
    "fused compiled": ("fused", True),
}
BACKENDS: tuple[BackendName, ...] = ("torch", "onnx", "tensorrt")
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


def build(shape: Shape, kind: str, device: str, precision: Precision, longest: int) -> Run:
    """Return a ``Run`` of one kind's cases."""
    backend = load_kind(shape, kind, device, precision, longest)
    made: dict[tuple[int, int], Windows] = {}

    def run(case: Case) -> Mapping[str, float]:
        size = case.windows, case.length
        if size not in made:
            made[size] = full_windows(*size, VOCABULARY)
        started = time.perf_counter()
        for _ in range(case.calls):
            backend.run(made[size])
        return {"total": time.perf_counter() - started}

    return run


def load_kind(shape: Shape, kind: str, device: str, precision: Precision, longest: int) -> Backend:
    """Return the torch backend of a kind, with random weights from a fixed seed."""
    from benchmarks.models import random_model
    from trivet.backends.torch import TorchBackend

    form, compiled = KINDS[kind]
    model = random_model(shape, VOCABULARY, longest)
    return TorchBackend(model, longest, device, precision, form=form, compiled=compiled)


def worst_differences(
    shape: Shape, kinds: Sequence[str], device: str, precision: Precision, longest: int
) -> list[tuple[str, str]]:
    """Return each kind's largest difference of a probability from fp32 on the same device."""
    windows = full_windows(2, longest, VOCABULARY)
    expected = load_kind(shape, "eager", device, "fp32", longest).run(windows).present()
    rows = []
    for kind in kinds:
        found = load_kind(shape, kind, device, precision, longest).run(windows).present()
        worst = max(float(abs(one - found[name]).max()) for name, one in expected.items())
        rows.append((kind, f"{worst:.2g}"))
    return rows


def build_bundle(folder: Path, name: BackendName, device: str, other_tokens: int) -> Run:
    """Return a ``Run`` of whole requests on a bundle; its case is the number of context tokens."""
    from trivet.evaluation.evaluator import Evaluator

    evaluator = Evaluator(folder, backend=name, device=device)
    tokenizer = load_tokenizer(evaluator.bundle)
    made: dict[int, RagExample] = {}

    def run(context_tokens: int) -> Mapping[str, float]:
        if context_tokens not in made:
            made[context_tokens] = build_example(tokenizer, context_tokens, other_tokens)
        one = made[context_tokens]
        started = time.perf_counter()
        verdict = evaluator.evaluate(one.question, one.contexts, one.response)
        return {"total": time.perf_counter() - started, "windows": verdict.windows}

    return run


def build_matmuls(device: str, precision: Precision, rows: int, inner: int, columns: int) -> Run:
    """Return a ``Run`` of many matmuls of two large matrices."""
    import torch

    from trivet.backends.torch import TYPES

    left = torch.randn(rows, inner, device=device, dtype=TYPES[precision])
    right = torch.randn(inner, columns, device=device, dtype=TYPES[precision])

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
    flags.add_argument("--bundle", type=Path, help="time the backends on this bundle instead")
    flags.add_argument("--backends", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    shapes = sorted(name for name, shape in SHAPES.items() if shape.model_type == "deberta-v2")
    flags.add_argument("--shape", choices=shapes, default="deberta-v3-large")
    flags.add_argument("--precision", choices=["bf16", "fp16", "fp32"], default="bf16")
    flags.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    flags.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024])
    flags.add_argument(
        "--windows", type=int, nargs="+", default=[1, 4, 16], help="windows of a call"
    )
    flags.add_argument("--contexts", type=int, nargs="*", default=[4096, 16384], help="requests")
    flags.add_argument("--others", type=int, nargs="+", default=[100, 300])
    flags.add_argument("--matmul", type=int, nargs=3, default=MATMUL, help="rows inner columns")
    given = flags.parse_args(arguments)
    if given.bundle is not None:
        return time_bundle(given)
    shape, longest = SHAPES[given.shape], max(given.lengths)
    name = in_a_process(device_name, given.device)
    on = given.device, given.precision
    matmuls = race([Contender("matmuls", build_matmuls, (*on, *given.matmul))], given.repeats)
    work = 2 * math.prod(given.matmul) * _MATMULS / 1e12
    peak = work / matmuls.measured["matmuls", None].median()
    sweep = [Case(*size) for size in itertools.product(given.lengths, given.windows)]
    requests = request_cases(given.contexts, given.others, given.lengths, max(given.windows))
    contenders = [Contender(kind, build, (shape, kind, *on, longest)) for kind in given.kinds]
    outcome = race(contenders, given.repeats, list(dict.fromkeys([*sweep, *requests.values()])))

    def cells(kind: str, case: Case, parts: int = 1) -> tuple[object, ...]:
        measured = outcome.measured[kind, case]
        rate = case.tflop(shape) / measured.median()
        taken = milliseconds([seconds / parts for seconds in measured.seconds()], 2)
        return taken, f"{rate:.1f}", f"{100 * rate / peak:.0f} %"

    figures = ("TFLOP/s", "share of matmuls")
    title = (
        f"{shape.name} shape, random weights, on {name}; matmuls in {given.precision} "
        f"{peak:.1f} TFLOP/s"
    )
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
            Table(
                f"Largest difference in {given.precision} from fp32:",
                ("kind", "of a probability"),
                in_a_process(worst_differences, shape, given.kinds, *on, longest),
            ),
        ],
        given,
    )
    return 0


def time_bundle(given: argparse.Namespace) -> int:
    """Time whole requests on a bundle with every backend that loads."""
    contenders = [
        Contender(f"{name}, {other}", build_bundle, (given.bundle, name, given.device, other))
        for other in given.others
        for name in given.backends
    ]
    outcome = race(contenders, given.repeats, given.contexts)
    rows = []
    for (name, context), measured in outcome.measured.items():
        windows = round(measured.samples[0]["windows"])
        rate = f"{windows / measured.median():.0f}"
        rows.append((name, context, windows, milliseconds(measured.seconds(), 1), rate))
    header = (
        "backend, question + response",
        "context tokens",
        "windows",
        "ms (least to most)",
        "windows/s",
    )
    publish("gpu-bundle", [Table("", header, rows), skipped(outcome)], given)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
