"""Adds score columns to rows in the worker processes of Ray and Spark."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import trivet
from trivet.errors import DataError
from trivet.integrations.judge import Judge, Result, judge_rows
from trivet.records import FailedEvaluation

Load = Callable[[], Judge]

COLUMNS: Mapping[str, type] = {
    "faithfulness": float,
    "supported_share": float,
    "relevance": float,
    "utilization": float,
    "completeness": float,
    "adherent": bool,
    "verdict": str,
    "error": str,
}
"""Types of the added columns; ``verdict`` is JSON, and each value may be ``None``."""


@dataclass(frozen=True)
class RowScoring:
    """Picklable description of how rows are scored."""

    load: bytes  # pickled function that loads a judge, which cannot be pickled, once per process
    mapping: Mapping[str, str]
    prefix: str

    @classmethod
    def of(cls, load: Load | None, mapping: Mapping[str, str] | None, prefix: str) -> RowScoring:
        """Pickle ``load``, or a default: the embedded bundle on one thread per process."""
        try:
            pickled = pickle.dumps(load or functools.partial(trivet.Evaluator, threads=1))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DataError(
                f"load={load!r} cannot be sent to another process ({error}); use a function of a "
                "module, or functools.partial(trivet.Evaluator, bundle)"
            ) from error
        return cls(pickled, dict(mapping or {}), prefix)

    def columns(self, present: Sequence[str]) -> dict[str, type]:
        """Return the types of the added columns, which must not be present yet."""
        added = {self.prefix + name: kind for name, kind in COLUMNS.items()}
        if twice := sorted(added.keys() & set(present)):
            raise DataError(f"columns {', '.join(twice)} exist already; choose another prefix")
        return added

    def score(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """Evaluate rows together and return the added columns, with one value per row."""
        results = judge_rows(_loaded(self.load), rows, self.mapping)
        cells = [_cells(result) for result in results]
        return {self.prefix + name: [row.get(name) for row in cells] for name in COLUMNS}


def _cells(result: Result) -> dict[str, Any]:
    if isinstance(result, FailedEvaluation):
        return {"error": f"{result.code}: {result.message}"}
    scores = {name: getattr(result, name) for name in COLUMNS if name not in ("verdict", "error")}
    return {**scores, "verdict": result.to_json()}


@functools.lru_cache(maxsize=1)
def _loaded(pickled: bytes) -> Judge:
    return cast(Load, pickle.loads(pickled))()
