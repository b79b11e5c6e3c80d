"""Adds scores to a Ray dataset, with a pool of actors that each load an evaluator once.

Needs Ray 2.54 or later (CVE-2026-27482); its job API trusts every caller, so keep its ports closed.
Example: ``score(ray.data.read_parquet("log.parquet"), actors=4).write_parquet("scored")``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.errors import ConfigError
from trivet.integrations.judge import import_tool
from trivet.integrations.row_scoring import Load, RowScoring


def score(
    dataset: Any,
    load: Load | None = None,
    *,
    actors: int = 1,
    cpus: float = 0.5,
    batch_size: int = 64,
    mapping: Mapping[str, str] | None = None,
    prefix: str = "trivet_",
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

    Raises:
        ConfigError: The actors leave less than one CPU, so that the run would never end.
        DataError: ``load`` cannot be pickled, or a column exists already.
    """
    ray = import_tool("ray", "ray[data]>=2.54")
    data = import_tool("ray.data", "ray[data]>=2.54")
    scoring = RowScoring.of(load, mapping, prefix)
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
        types = {float: arrow.float64(), bool: arrow.bool_(), str: arrow.string()}
        columns = self._scoring.columns(batch.column_names)
        for name, values in self._scoring.score(batch.to_pylist()).items():
            batch = batch.append_column(name, arrow.array(values, types[columns[name]]))
        return batch
