"""Rows with their verdicts beside them, for engines that spread rows over many processes.

What loads a judge travels pickled, for no judge can; a process loads it once.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import trivet
from trivet.integrations.judge import Judge, Result
from trivet.integrations.rows import judge_rows
from trivet.records import DataError, FailedEvaluation

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
"""What is added to a row, and of which type; each may be ``None``.

``verdict`` is all of the verdict as JSON, ``error`` says why there is none.
"""


@dataclass(frozen=True)
class RowScoring:
    """How rows are scored, as plain data that can be sent to another process.

    Attributes:
        load: The pickled function that loads a judge.
        mapping: Other names of the fields.
        prefix: Stands before the names of the columns that are added.
    """

    load: bytes
    mapping: Mapping[str, str]
    prefix: str

    @classmethod
    def of(cls, load: Load | None, mapping: Mapping[str, str] | None, prefix: str) -> RowScoring:
        """Describe it; without ``load`` the embedded bundle judges, on one thread a process.

        Raises:
            DataError: ``load`` cannot be sent to another process.
        """
        try:
            pickled = pickle.dumps(load or functools.partial(trivet.Evaluator, threads=1))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DataError(
                f"load={load!r} cannot be sent to another process ({error}); use a function of a "
                "module, or functools.partial(trivet.Evaluator, bundle)"
            ) from error
        return cls(pickled, dict(mapping or {}), prefix)

    def columns(self, present: Sequence[str]) -> dict[str, type]:
        """Return the columns that are added to those that are present.

        Raises:
            DataError: One of them is there already.
        """
        added = {self.prefix + name: kind for name, kind in COLUMNS.items()}
        if twice := sorted(added.keys() & set(present)):
            raise DataError(f"columns {', '.join(twice)} are there already; choose another prefix")
        return added

    def score(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """Judge rows together; return the added columns, with one value a row."""
        results = judge_rows(_loaded(self.load), rows, self.mapping)
        cells = [_cells(result) for result in results]
        return {self.prefix + name: [row.get(name) for row in cells] for name in COLUMNS}


def _cells(result: Result) -> dict[str, Any]:
    """Return what is added to one row."""
    if isinstance(result, FailedEvaluation):
        return {"error": f"{result.code}: {result.message}"}
    scores = {name: getattr(result, name) for name in COLUMNS if name not in ("verdict", "error")}
    return {**scores, "verdict": result.to_json()}


@functools.lru_cache(maxsize=1)
def _loaded(pickled: bytes) -> Judge:
    load = cast(Load, pickle.loads(pickled))
    return load()
