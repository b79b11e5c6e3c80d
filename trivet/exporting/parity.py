"""Compare the answers of exported graphs with a reference, over a grid of shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from trivet.backends.example_windows import Sizes, make_windows
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError, fault_words

PARITY_SCHEMA = 1
# Largest difference of a probability between the fp32 graph and the weights in torch.
FP32_TOLERANCE = 1e-4

Arrays = Mapping[str, npt.NDArray[Any]]
Run = Callable[[Windows], Arrays]
"""One way to run a model: returns the fields of ``Outputs`` by name."""

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Difference(BaseModel):
    """Largest and mean difference from the reference on one shape, by output."""

    model_config = _STRICT

    largest: dict[str, float]
    mean: dict[str, float]


class ParityRow(BaseModel):
    """One shape and the differences on it, by file."""

    model_config = _STRICT

    sizes: dict[str, int]
    differences: dict[str, Difference]


class ParityReport(BaseModel):
    """The contents of ``parity.json``."""

    model_config = _STRICT

    schema_version: int = PARITY_SCHEMA
    reference: str = "model.safetensors in torch, fp32, the library's own encoder"
    fp32_tolerance: float = FP32_TOLERANCE  # largest difference that an fp32 graph may have
    worst: dict[str, float]  # largest difference of any output over all shapes, by file
    rows: tuple[ParityRow, ...]

    def to_json(self) -> str:
        """Return ``parity.json`` as text."""
        return self.model_dump_json(indent=1) + "\n"


def merge_into(path: Path, other: ParityReport) -> ParityReport:
    """Return the report stored at ``path``, extended by the files of ``other``.

    Raises:
        BundleError: The file is not a parity report, or was made over another grid.
    """
    try:
        report = ParityReport.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BundleError(f"{path}: not a parity report: {fault_words(error, 1)}") from error
    if [row.sizes for row in report.rows] != [row.sizes for row in other.rows]:
        raise BundleError(
            f"{path}: made over another grid; run `trivet export onnx` on the bundle again"
        )
    rows = tuple(
        row.model_copy(update={"differences": {**row.differences, **added.differences}})
        for row, added in zip(report.rows, other.rows, strict=True)
    )
    return report.model_copy(update={"worst": {**report.worst, **other.worst}, "rows": rows})


def grid(window: int) -> tuple[Sizes, ...]:
    """Return shapes up to ``window`` with every dimension once 1, once odd and once large."""
    full, half = window, max(2, window // 2)
    wanted = (
        Sizes(N=1, L=1, B=1, R=1, K=1, C=1, S=1),
        Sizes(N=1, L=full, B=1, R=1, K=1, C=full, S=1),
        Sizes(N=1, L=33, B=3, R=31, K=1, C=1, S=7),
        Sizes(N=2, L=full, B=1, R=129, K=2, C=2 * full, S=1),
        Sizes(N=3, L=half + 1, B=2, R=17, K=3, C=257, S=5),
        Sizes(N=5, L=63, B=5, R=1, K=5, C=101, S=1),
        Sizes(N=7, L=1, B=2, R=3, K=7, C=5, S=3),
        Sizes(N=9, L=65, B=1, R=400, K=9, C=2000, S=40),
        Sizes(N=17, L=17, B=9, R=5, K=1, C=33, S=2),
        Sizes(N=33, L=7, B=33, R=2, K=1, C=3, S=2),
    )
    return tuple(sizes._replace(L=min(sizes.L, window)) for sizes in wanted)


def grid_windows(window: int, vocab: int) -> list[tuple[Sizes, Windows]]:
    """Return random windows of every shape of ``grid``; arguments as of it and ``make_windows``."""
    return [(sizes, make_windows(sizes, vocab, seed)) for seed, sizes in enumerate(grid(window))]


def compare(
    reference: Run, runs: Mapping[str, Run], cases: Sequence[tuple[Sizes, Windows]]
) -> ParityReport:
    """Run everything on every case and measure the differences from the reference.

    Raises:
        BackendError: An answer has another shape or is not finite, including the reference's; the
            message names the file, the output and the shape.
    """
    rows = []
    for sizes, windows in cases:
        expected = reference(windows)
        differences = {
            file: _difference(file, sizes, expected, run(windows)) for file, run in runs.items()
        }
        rows.append(ParityRow(sizes=sizes._asdict(), differences=differences))
    worst = {
        file: max(max(row.differences[file].largest.values()) for row in rows) for file in runs
    }
    return ParityReport(worst=worst, rows=tuple(rows))


def _difference(file: str, sizes: Sizes, expected: Arrays, found: Arrays) -> Difference:
    largest, mean = {}, {}
    if expected.keys() != found.keys():
        raise BackendError(
            f"{file}: has the outputs {', '.join(sorted(found))} instead of "
            f"{', '.join(sorted(expected))}"
        )
    for output, want in expected.items():
        have = found[output]
        if want.shape != have.shape:
            raise BackendError(
                f"{file}: {output} has shape {have.shape} instead of {want.shape} on {sizes}"
            )
        for name, values in (("the reference", want), (file, have)):
            if not np.isfinite(values).all():
                raise BackendError(f"{name}: {output} is not finite on {sizes}")
        off = np.abs(have - want)
        largest[output] = float(f"{off.max():.3g}")
        mean[output] = float(f"{off.mean():.3g}")
    return Difference(largest=largest, mean=mean)
