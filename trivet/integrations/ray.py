"""Ray Data: a dataset scored by a pool of actors, each with an evaluator that it loaded once.

    from trivet.integrations.ray import score

    score(ray.data.read_parquet("log.parquet"), actors=4).write_parquet("scored")

Ray 2.54 or later (CVE-2026-27482); its job API answers whoever reaches it, so keep its ports
closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trivet.integrations.judge import foreign
from trivet.integrations.scored_rows import Load, RowScoring
from trivet.records import ConfigError


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
    """Return the dataset with the columns of ``scored_rows.COLUMNS`` added; lazy, as all of it is.

    Args:
        dataset: A ``ray.data.Dataset`` with a question, contexts and a response.
        load: Loads the judge in an actor, such as
            ``functools.partial(trivet.Evaluator, bundle, threads=4)``; ``None`` is the embedded
            bundle on one thread.
        actors: How many processes judge.
        cpus: The CPUs that Ray sets aside for each. What remains reads and writes the data.
        batch_size: Rows that are judged together.
        mapping: Other names of the fields, such as ``{"question": "prompt"}``.
        prefix: Stands before the names of the added columns.

    Raises:
        MissingLibraryError: Ray is not installed.
        ConfigError: The actors would leave less than one CPU, and the run would wait for ever.
        DataError: ``load`` cannot be sent to another process, or a column is there already.
    """
    ray = foreign("ray", "ray[data]>=2.54")
    data = foreign("ray.data", "ray[data]>=2.54")
    scoring = RowScoring.of(load, mapping, prefix)
    scoring.columns(dataset.columns() or ())
    check_room(actors, cpus, ray.cluster_resources().get("CPU", 0.0))
    return dataset.map_batches(
        RowActor,
        fn_constructor_kwargs={"scoring": scoring},
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=data.ActorPoolStrategy(size=actors),
        num_cpus=cpus,
    )


def check_room(actors: int, cpus: float, there: float) -> None:
    """Refuse a pool that leaves nothing for the tasks that read the data.

    Raises:
        ConfigError: It leaves less than one CPU.
    """
    if there - actors * cpus < 1:
        raise ConfigError(
            f"actors={actors} with cpus={cpus} leave {there - actors * cpus:g} of {there:g} CPUs; "
            "reading takes one, and would wait for ever. Use fewer actors or a smaller cpus (0 "
            "where the cluster grows by itself)"
        )


class RowActor:
    """What an actor runs."""

    def __init__(self, scoring: RowScoring) -> None:
        """Load the judge before the first batch."""
        self._scoring = scoring
        scoring.score([])

    def __call__(self, batch: Any) -> Any:
        """Return a ``pyarrow.Table`` with the columns added."""
        arrow = foreign("pyarrow", "pyarrow")
        types = {float: arrow.float64(), bool: arrow.bool_(), str: arrow.string()}
        columns = self._scoring.columns(batch.column_names)
        for name, values in self._scoring.score(batch.to_pylist()).items():
            batch = batch.append_column(name, arrow.array(values, types[columns[name]]))
        return batch
