"""Candidates for OpenVINO measured: what they lose, how long a window takes, which one wins."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

from trivet.backends.backend import Backend
from trivet.bundle.bundle import Bundle
from trivet.bundle.openvino_info import MOST_LOSS, OpenVinoCandidate
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.model.aggregate import Outputs
from trivet.records import (
    BackendError,
    DataError,
    Evaluation,
    FailedEvaluation,
    LabelledExample,
)

_AUROC = "hallucination_auroc"
_RMSES = frozenset({"relevance_rmse", "utilization_rmse", "completeness_rmse"})
# Calls that are timed, and how often.
_TIMED, _ROUNDS = 4, 5

Result = Evaluation | FailedEvaluation
Values = Mapping[tuple[str, str], float]
"""A measure's value, by its name and the source it is of."""


class Recorder:
    """Keeps the calls that an engine answers: real windows, as the evaluator packs them."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name = backend.name
        self.calls: list[Windows] = []

    def run(self, windows: Windows) -> Outputs:
        """Run the engine; see ``Backend.run``."""
        self.calls.append(windows)
        return self._backend.run(windows)


def judge_rows(
    bundle: Bundle, backend: Backend, rows: Sequence[LabelledExample], data: str
) -> dict[tuple[str, str], float]:
    """Judge labelled rows with one engine and return the overall AUROC and RMSEs.

    Args:
        bundle: Whose windows and thresholds hold.
        backend: The engine.
        rows: What is judged.
        data: How messages name the rows.

    Raises:
        DataError: No AUROC or no RMSE can be measured on these rows.
        BackendError: The engine fails on a row.
    """
    return overall(rows, judge(bundle, backend, rows), data)


def judge(bundle: Bundle, backend: Backend, rows: Sequence[LabelledExample]) -> list[Result]:
    """Judge labelled rows with one engine; arguments and errors as in ``judge_rows``."""
    results = list(
        Evaluator(bundle.folder, backend=backend).evaluate_many(row.example for row in rows)
    )
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, FailedEvaluation) and result.code == "backend_failed":
            raise BackendError(f"{backend.name} fails on row {row.example.id}: {result.message}")
    return results


def overall(
    rows: Sequence[LabelledExample], results: Sequence[Result], data: str
) -> dict[tuple[str, str], float]:
    """Return the overall AUROC and RMSEs of rows that were judged.

    Raises:
        DataError: No AUROC or no RMSE can be measured on these rows.
    """
    pairs = zip(rows, results, strict=True)
    figures = [
        figure
        for figure in measure([Prediction(row, result) for row, result in pairs], resamples=1)
        if figure.measure in _RMSES | {_AUROC}
        and figure.generator is None
        and figure.value is not None
    ]
    whole = [each for each in figures if each.source.endswith(("/mean", "/pooled"))]
    values = {(f.measure, f.source): f.value for f in whole or figures if f.value is not None}
    names = {name for name, _ in values}
    if _AUROC not in names or not names & _RMSES:
        raise DataError(
            f"{data}: no AUROC and RMSE can both be measured on these {len(rows)} rows (found: "
            f"{', '.join(sorted(names)) or 'none'}); give rows with verdicts of both kinds and "
            "with relevant or utilized sentences"
        )
    return values


def choose(candidates: Sequence[OpenVinoCandidate]) -> OpenVinoCandidate:
    """Return the fastest candidate that loses little enough.

    Raises:
        BackendError: None does; the message has all their figures.
    """
    fitting = [candidate for candidate in candidates if candidate.fits]
    if not fitting:
        raise BackendError(
            f"no way of OpenVINO loses at most {MOST_LOSS} of AUROC and RMSE: "
            f"{'; '.join(map(describe, candidates))}. Nothing was written; stay with --backend "
            "onnx, or give more rows, if these are few"
        )
    return min(fitting, key=lambda candidate: candidate.milliseconds)


def describe(candidate: OpenVinoCandidate) -> str:
    """Return a candidate's figures for a person."""
    return (
        f"{candidate.method}: {candidate.milliseconds:.1f} ms a window, AUROC "
        f"{-candidate.auroc_loss:+.4f}, RMSE {candidate.rmse_loss:+.4f}"
    )


def losses(reference: Values, found: Values) -> tuple[float, float]:
    """Return the most that an AUROC fell by, and the most that an RMSE rose by.

    Raises:
        BackendError: A measure is defined with one engine alone.
    """
    if reference.keys() != found.keys():
        odd = ", ".join(" of ".join(key) for key in sorted(reference.keys() ^ found.keys()))
        raise BackendError(f"measured with one engine and not with the other: {odd}")
    rise = {key: found[key] - reference[key] for key in reference}
    auroc = max(-value for (name, _), value in rise.items() if name not in _RMSES)
    return auroc, max(value for (name, _), value in rise.items() if name in _RMSES)


def time_windows(backends: Sequence[Backend], calls: Sequence[Windows]) -> list[float]:
    """Return the median seconds each engine takes for a window, on the largest of some calls.

    The engines take turns, so that what else the machine does befalls all of them.
    """
    largest = sorted(calls, key=lambda call: -call.input_ids.size)[:_TIMED]
    windows = sum(len(call.input_ids) for call in largest)
    taken: list[list[float]] = [[] for _ in backends]
    for _ in range(1 + _ROUNDS):
        for own, backend in zip(taken, backends, strict=True):
            started = time.perf_counter()
            for call in largest:
                backend.run(call)
            own.append((time.perf_counter() - started) / windows)
    return [statistics.median(own[1:]) for own in taken]
