"""What this machine can do at most: products of large matrices, and copying memory."""

from __future__ import annotations

from collections.abc import Callable, Collection

from benchmarks.timing import Contender, Measured, Run, race, timed

ROWS, INNER, COLUMNS = 2048, 1024, 4096
COPIED = 512_000_000  # bytes, far beyond any cache
COPY = "copy"


def build(threads: int) -> Run:
    """Return what multiplies in the precision that its case names, or copies."""
    import torch

    torch.set_num_threads(threads)
    matrices = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)
    left, right = (matrix.bfloat16() for matrix in matrices)
    one, other = (
        torch.randint(-128, 128, shape, dtype=torch.int8)
        for shape in ((ROWS, INNER), (INNER, COLUMNS))
    )
    given, taken = torch.zeros(COPIED // 4), torch.zeros(COPIED // 4)
    works: dict[str, Callable[[], object]] = {
        "fp32": lambda: matrices[0] @ matrices[1],
        "bf16": lambda: left @ right,
        "int8": lambda: torch._int_mm(one, other),
        COPY: lambda: taken.copy_(given),
    }
    return timed(lambda case: works[case]())


def measure_peaks(
    threads: int, repeats: int, precisions: Collection[str]
) -> dict[str, list[float]]:
    """Return 10^9 operations a second by precision, and GB a second of ``copy``; one a round.

    Args:
        threads: Of torch.
        repeats: Rounds.
        precisions: Of ``fp32``, ``bf16`` and ``int8``, those to be measured: what a processor has
            no instructions for takes minutes.

    Raises:
        ImportError: torch is not installed.
    """
    outcome = race([Contender("peaks", build, (threads,))], repeats, (*precisions, COPY))
    if outcome.skipped:
        raise ImportError(f"{outcome.skipped['peaks']}; pip install 'trivet[export]'")
    work = dict.fromkeys(precisions, 2 * ROWS * INNER * COLUMNS / 1e9) | {COPY: 2 * COPIED / 1e9}
    return {name: _rates(outcome.measured["peaks", name], work[name]) for name in work}


def _rates(measured: Measured, work: float) -> list[float]:
    return [work / seconds for seconds in measured.seconds()]
