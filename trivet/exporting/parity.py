"""How far an engine's answers are from the model's, over shapes that break careless graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from trivet.backends.example_windows import Sizes
from trivet.bundle.schema import OUTPUTS
from trivet.data.windows import Windows
from trivet.records import BackendError, BundleError

PARITY_SCHEMA = 1
# Largest difference of any probability between the fp32 graph and the weights in torch.
FP32_TOLERANCE = 1e-4

Answer = Mapping[str, npt.NDArray[Any]]
Engine = Callable[[Windows], Answer]

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Difference(BaseModel):
    """Differences of one engine from the model on one shape: largest and mean, by output."""

    model_config = _STRICT

    largest: dict[str, float]
    mean: dict[str, float]


class ParityRow(BaseModel):
    """One shape, and how far each engine was off on it, by file."""

    model_config = _STRICT

    sizes: dict[str, int]
    differences: dict[str, Difference]


class ParityReport(BaseModel):
    """The contents of ``parity.json``.

    Attributes:
        schema_version: The version of this layout.
        reference: What the engines are compared with.
        fp32_tolerance: What the largest difference in fp32 must not exceed.
        worst: Largest difference of any output over all shapes, by file.
        rows: The shapes.
    """

    model_config = _STRICT

    schema_version: int = PARITY_SCHEMA
    reference: str = "model.safetensors in torch, fp32, the library's own encoder"
    fp32_tolerance: float = FP32_TOLERANCE
    worst: dict[str, float]
    rows: tuple[ParityRow, ...]

    def to_json(self) -> str:
        """Return ``parity.json`` as text."""
        return self.model_dump_json(indent=1) + "\n"


def joined(path: Path, other: ParityReport) -> ParityReport:
    """Return a stored report with the engines of another one, over the same grid, beside its own.

    Raises:
        BundleError: It is no report, or one over another grid.
    """
    try:
        report = ParityReport.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise BundleError(f"{path}: not a parity report: {error}") from error
    if [row.sizes for row in report.rows] != [row.sizes for row in other.rows]:
        raise BundleError(
            f"{path}: made over another grid; run `trivet export` on the bundle again"
        )
    rows = tuple(
        row.model_copy(update={"differences": {**row.differences, **added.differences}})
        for row, added in zip(report.rows, other.rows, strict=True)
    )
    worst = {**report.worst, **other.worst}
    return report.model_copy(update={"worst": worst, "rows": rows})


def grid(window: int) -> tuple[Sizes, ...]:
    """Return shapes in which every dimension is once 1, once odd and once large.

    Args:
        window: The most positions a window of this model has.
    """
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


def compare(
    reference: Engine, engines: Mapping[str, Engine], cases: Sequence[tuple[Sizes, Windows]]
) -> ParityReport:
    """Run every engine on every case and measure how far it is from the reference.

    Raises:
        BackendError: An answer has another shape or is not finite, the reference's included; the
            message names the engine, the output and the shape.
    """
    rows = []
    for sizes, windows in cases:
        expected = reference(windows)
        differences = {
            file: _difference(file, sizes, expected, engine(windows))
            for file, engine in engines.items()
        }
        rows.append(ParityRow(sizes=sizes._asdict(), differences=differences))
    worst = {
        file: max(max(row.differences[file].largest.values()) for row in rows) for file in engines
    }
    return ParityReport(worst=worst, rows=tuple(rows))


def _difference(file: str, sizes: Sizes, expected: Answer, found: Answer) -> Difference:
    largest, mean = {}, {}
    for info in OUTPUTS:
        want, have = expected[info.name], found[info.name]
        if want.shape != have.shape:
            raise BackendError(
                f"{file}: {info.name} has shape {have.shape} instead of {want.shape} on {sizes}"
            )
        for whose, values in (("the reference", want), (file, have)):
            if not np.isfinite(values).all():
                raise BackendError(f"{whose}: {info.name} is not finite on {sizes}")
        off = np.abs(have - want)
        largest[info.name] = float(f"{off.max():.3g}")
        mean[info.name] = float(f"{off.mean():.3g}")
    return Difference(largest=largest, mean=mean)
