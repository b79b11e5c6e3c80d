"""Loss of AUROC and RMSE on labelled rows between two backends of one bundle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trivet.backends.backend import Backend
from trivet.bundle.bundle import Bundle
from trivet.errors import BackendError, DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.metrics import measure
from trivet.measures.predictions import Prediction
from trivet.records import Evaluation, FailedEvaluation, LabelledExample

_AUROC = "hallucination_auroc"
_RMSES = frozenset({"relevance_rmse", "utilization_rmse", "completeness_rmse"})

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
    name: str, rows: Sequence[LabelledExample], found: Iterable[Result], data: str
) -> Values:
    """Return the overall AUROC and RMSEs of a backend's results; errors as of ``measure_rows``."""
    results = list(found)
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
    whole = [each for each in figures if each.source.endswith(("/mean", "/pooled"))]
    values = {(f.measure, f.source): f.value for f in whole or figures if f.value is not None}
    names = {name for name, _ in values}
    # A model without a head has no figures of it.
    given = [result for result in results if isinstance(result, Evaluation)]
    needs_auroc = any(each.faithfulness is not None for each in given)
    needs_rmse = any((each.relevance, each.utilization) != (None, None) for each in given)
    if (needs_auroc and _AUROC not in names) or (needs_rmse and not names & _RMSES) or not names:
        raise DataError(
            f"{data}: AUROC and RMSE cannot both be measured on these {len(rows)} rows (found: "
            f"{', '.join(sorted(names)) or 'none'}); give rows with verdicts of both kinds and "
            "with relevant or utilized sentences"
        )
    return values


def losses(reference: Values, found: Values) -> tuple[float, float]:
    """Return the largest decrease of an AUROC and increase of an RMSE; 0 where none is measured.

    Raises:
        BackendError: A measure is defined with one backend only.
    """
    if reference.keys() != found.keys():
        odd = ", ".join(" of ".join(key) for key in sorted(reference.keys() ^ found.keys()))
        raise BackendError(f"measured with one backend and not with the other: {odd}")
    rise = {key: found[key] - reference[key] for key in reference}
    auroc = max((-value for (name, _), value in rise.items() if name not in _RMSES), default=0.0)
    rmse = max((value for (name, _), value in rise.items() if name in _RMSES), default=0.0)
    return auroc, rmse
