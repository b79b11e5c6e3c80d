"""Adds score columns to a Ray dataset, with evaluators in the worker processes.

Example: ``score_ray(ray.data.read_parquet("log.parquet"), actors=4).write_parquet("scored")``.

Needs Ray 2.54 or later (CVE-2026-27482); its job API trusts every caller, so keep its ports closed.
Trivet must be installed where the workers run.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import trivet
from trivet.errors import ConfigError, DataError
from trivet.integrations.judge import Judge, import_tool, judge_rows
from trivet.interface import Result
from trivet.records import FailedEvaluation
from trivet.report.run_tally import SCORES

Load = Callable[[], Judge]

COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(SCORES, float),
    "adherent": bool,
    "abstains": bool,
    "to_check": int,
    "verdict": str,
    "error": str,
}
"""Types of the added columns; ``to_check`` is the number of spans, ``verdict`` is JSON, and
each value may be ``None``."""


@dataclass(frozen=True)
class RowScoring:
    """Picklable description of how rows are scored."""

    load: bytes  # pickled function that loads a judge, which cannot be pickled, once per process
    mapping: Mapping[str, str]
    prefix: str
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls, load: Load | None, mapping: Mapping[str, str] | None, prefix: str, **options: Any
    ) -> RowScoring:
        """Pickle ``load``, or a default: the embedded bundle on one thread per process."""
        try:
            pickled = pickle.dumps(load or functools.partial(trivet.Evaluator, threads=1))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DataError(
                f"load={load!r} cannot be sent to another process ({error}); use a function of a "
                "module, or functools.partial(trivet.Evaluator, bundle)"
            ) from error
        return cls(pickled, dict(mapping or {}), prefix, options)

    def columns(self, present: Sequence[str]) -> dict[str, type]:
        """Return the types of the added columns, which must not be present yet."""
        added = {self.prefix + name: kind for name, kind in COLUMNS.items()}
        if twice := sorted(added.keys() & set(present)):
            raise DataError(f"columns {', '.join(twice)} exist already; choose another prefix")
        return added

    def score(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """Evaluate rows together and return the added columns, with one value per row."""
        results = judge_rows(_loaded(self.load), rows, self.mapping, **self.options)
        cells = [_cells(result) for result in results]
        return {self.prefix + name: [row.get(name) for row in cells] for name in COLUMNS}


def _cells(result: Result) -> dict[str, Any]:
    if isinstance(result, FailedEvaluation):
        return {"error": f"{result.code}: {result.message}"}
    cells = {name: getattr(result, name) for name in (*SCORES, "adherent", "abstains")}
    return {**cells, "to_check": len(result.to_check), "verdict": result.to_json()}


@functools.lru_cache(maxsize=1)
def _loaded(pickled: bytes) -> Judge:
    return cast(Load, pickle.loads(pickled))()


def score_ray(
    dataset: Any,
    load: Load | None = None,
    *,
    actors: int = 1,
    cpus: float = 0.5,
    batch_size: int = 64,
    mapping: Mapping[str, str] | None = None,
    prefix: str = "trivet_",
    **options: Any,
) -> Any:
    """Return the dataset with the columns ``row_scoring.COLUMNS`` added, lazily.

    Args:
        dataset: ``ray.data.Dataset`` with a question, contexts and a response.
        load: Loads the judge in an actor, such as ``functools.partial(trivet.Evaluator, bundle)``;
            ``None`` loads the embedded bundle on one thread.
        actors: Number of processes that evaluate.
        cpus: CPUs that Ray reserves for each; the rest read and write the data.
        batch_size: Rows that are evaluated together.
        mapping: Field names that replace the known ones, such as ``{"question": "prompt"}``.
        prefix: Prefix of the added columns.
        options: Options of the judge, such as ``threshold``.

    Raises:
        ConfigError: The actors leave less than one CPU, so that the run would never end.
        DataError: ``load`` cannot be pickled, or a column exists already.
    """
    ray = import_tool("ray", "ray[data]>=2.54")
    data = import_tool("ray.data", "ray[data]>=2.54")
    scoring = RowScoring.of(load, mapping, prefix, **options)
    scoring.columns(dataset.columns() or ())
    check_cpus(actors, cpus, ray.cluster_resources().get("CPU", 0.0))
    return dataset.map_batches(
        RowActor,
        fn_constructor_kwargs={"scoring": scoring},
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=data.ActorPoolStrategy(size=actors),
        num_cpus=cpus,
    )


def check_cpus(actors: int, cpus: float, available: float) -> None:
    """Raise a ``ConfigError`` if a pool of actors leaves no CPU to the tasks that read the data."""
    if available - actors * cpus < 1:
        raise ConfigError(
            f"actors={actors} with cpus={cpus} leave {available - actors * cpus:g} of "
            f"{available:g} CPUs; reading takes one, and would wait forever. Use fewer actors or a "
            "smaller cpus (0 if the cluster grows by itself)"
        )


class RowActor:
    """Callable that Ray runs in each actor."""

    def __init__(self, scoring: RowScoring) -> None:
        self._scoring = scoring
        scoring.score([])  # loads the judge before the first batch

    def __call__(self, batch: Any) -> Any:
        """Return a ``pyarrow.Table`` with the columns added."""
        arrow = import_tool("pyarrow", "pyarrow")
        types = {
            float: arrow.float64(),
            bool: arrow.bool_(),
            int: arrow.int64(),
            str: arrow.string(),
        }
        columns = self._scoring.columns(batch.column_names)
        for name, values in self._scoring.score(batch.to_pylist()).items():
            batch = batch.append_column(name, arrow.array(values, types[columns[name]]))
        return batch
