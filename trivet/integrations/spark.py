"""Spark: a DataFrame scored by its executors, each worker with an evaluator that it loaded once.

    from trivet.integrations.spark import score

    score(spark.read.parquet("log")).write.parquet("scored")

Trivet must be installed where the executors run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trivet.integrations.judge import foreign
from trivet.integrations.scored_rows import Load, RowScoring


def score(
    frame: Any,
    load: Load | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    prefix: str = "trivet_",
) -> Any:
    """Return the frame with the columns of ``scored_rows.COLUMNS`` added; lazy, as all of it is.

    The rows of a partition's Arrow batch (``spark.sql.execution.arrow.maxRecordsPerBatch``) are
    judged together.

    Args:
        frame: A ``DataFrame`` with a question, contexts and a response.
        load: Loads the judge in a worker, such as
            ``functools.partial(trivet.Evaluator, bundle, threads=1)`` with a path that is good on
            every node; ``None`` is the embedded bundle on one thread.
        mapping: Other names of the fields, such as ``{"question": "prompt"}``.
        prefix: Stands before the names of the added columns.

    Raises:
        MissingLibraryError: PySpark is not installed.
        DataError: ``load`` cannot be sent to another process, or a column is there already.
    """
    types = foreign("pyspark.sql.types", "pyspark")
    spark_types = {float: types.DoubleType, bool: types.BooleanType, str: types.StringType}
    scoring = RowScoring.of(load, mapping, prefix)
    added = scoring.columns(frame.columns)
    fields = [types.StructField(name, spark_types[kind](), True) for name, kind in added.items()]
    schema = types.StructType([*frame.schema.fields, *fields])
    return frame.mapInPandas(frame_scorer(scoring), schema)


def frame_scorer(scoring: RowScoring) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return what a worker runs: pandas frames in, the same with the columns added out."""

    def score_frames(frames: Iterator[Any]) -> Iterator[Any]:
        for part in frames:
            scored = scoring.score(part.to_dict("records"))
            yield part.assign(**scored)

    return score_frames
