"""Compare exported graphs with a reference: answers over a grid of shapes, measures on rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from trivet.backends.backend import Backend
from trivet.backends.profiles import Sizes, make_windows
from trivet.bundle.bundle import Bundle
from trivet.bundle.manifest import Part
from trivet.data.windows import Windows
from trivet.errors import BackendError, BundleError, DataError, fault_words
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import Evaluation, FailedEvaluation, LabelledExample

PARITY_SCHEMA = 1
# Largest difference of a probability between the fp32 graph and the weights in torch.
FP32_TOLERANCE = 1e-4

Arrays = Mapping[str, npt.NDArray[Any]]
Run = Callable[[Windows], Arrays]
"""One way to run a model: returns the fields of ``Outputs`` by name."""


class Difference(Part):
    """Largest and mean difference from the reference on one shape, by output."""

    largest: dict[str, float]
    mean: dict[str, float]


class ParityRow(Part):
    """One shape and the differences on it, by file."""

    sizes: dict[str, int]
    differences: dict[str, Difference]


class ParityReport(Part):
    """The contents of ``parity.json``."""

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


def _difference(file: str, sizes: Sizes, expected: Arrays, outputs: Arrays) -> Difference:
    largest, mean = {}, {}
    if expected.keys() != outputs.keys():
        raise BackendError(
            f"{file}: has the outputs {', '.join(sorted(outputs))} instead of "
            f"{', '.join(sorted(expected))}"
        )
    for output, want in expected.items():
        have = outputs[output]
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


_AUROC = "hallucination_auroc"
# Not of completeness, which follows from both: which answers have one is a matter of rounding.
_RMSES = frozenset({"relevance_rmse", "utilization_rmse"})

Values = Mapping[tuple[str, str], float]
"""Values of measures by their name and source."""
Result = Evaluation | FailedEvaluation


def measure_rows(
    bundle: Bundle, backend: Backend, rows: Sequence[LabelledExample], data: str
) -> Values:
    """Evaluate labelled rows with a backend and return the overall AUROC and RMSEs.

    Raises:
        DataError: No AUROC or no RMSE can be measured on these rows.
        BackendError: The backend fails on a row.
    """
    evaluator = Evaluator(bundle.folder, backend=backend)
    return measure_results(
        backend.name, rows, evaluator.evaluate_many(row.example for row in rows), data
    )


def measure_results(
    name: str, rows: Sequence[LabelledExample], judged: Iterable[Result], data: str
) -> Values:
    """Return the overall AUROC and RMSEs of a backend's results; errors as of ``measure_rows``."""
    results = list(judged)
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, FailedEvaluation) and result.code == "backend_failed":
            raise BackendError(f"{name} fails on row {row.example.id}: {result.message}")
    pairs = [Prediction(row, result) for row, result in zip(rows, results, strict=True)]
    figures = [
        figure
        for figure in measure(pairs, resamples=1)
        if figure.measure in _RMSES | {_AUROC}
        and figure.generator is None
        and figure.value is not None
    ]
    whole = [figure for figure in figures if figure.source.endswith(("/mean", "/pooled"))]
    values = {(f.measure, f.source): f.value for f in whole or figures if f.value is not None}
    names = {name for name, _ in values}
    # A model without a head has no figures of it.
    verdicts = [result for result in results if isinstance(result, Evaluation)]
    needs_auroc = any(verdict.adherent is not None for verdict in verdicts)
    needs_rmse = any(
        (verdict.relevance, verdict.utilization) != (None, None) for verdict in verdicts
    )
    if (needs_auroc and _AUROC not in names) or (needs_rmse and not names & _RMSES) or not names:
        raise DataError(
            f"{data}: AUROC and RMSE cannot both be measured on these {len(rows)} rows (found: "
            f"{', '.join(sorted(names)) or 'none'}); give rows with verdicts of both kinds and "
            "with relevant or utilized sentences"
        )
    return values


def losses(reference: Values, measured: Values) -> tuple[float, float]:
    """Return the largest decrease of an AUROC and increase of an RMSE; 0 where none is measured.

    Raises:
        BackendError: A measure is defined with one backend only.
    """
    if reference.keys() != measured.keys():
        odd = ", ".join(" of ".join(key) for key in sorted(reference.keys() ^ measured.keys()))
        raise BackendError(f"measured with one backend and not with the other: {odd}")
    rise = {key: measured[key] - reference[key] for key in reference}
    auroc = max((-value for (name, _), value in rise.items() if name not in _RMSES), default=0.0)
    rmse = max((value for (name, _), value in rise.items() if name in _RMSES), default=0.0)
    return auroc, rmse
