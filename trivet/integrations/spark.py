"""Adds scores to a Spark DataFrame, with one evaluator per Python worker.

Trivet must be installed where the executors run.
Example: ``score(spark.read.parquet("log")).write.parquet("scored")``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trivet.integrations.judge import import_tool
from trivet.integrations.row_scoring import Load, RowScoring


def score(
    frame: Any,
    load: Load | None = None,
    *,
    mapping: Mapping[str, str] | None = None,
    prefix: str = "trivet_",
) -> Any:
    """Return the frame with the columns ``row_scoring.COLUMNS`` added, lazily.

    The rows of an Arrow batch (``spark.sql.execution.arrow.maxRecordsPerBatch``) are evaluated
    together.

    Args:
        frame: ``DataFrame`` with a question, contexts and a response.
        load: Loads the judge in a worker, such as ``functools.partial(trivet.Evaluator, bundle)``
            with a path that is valid on every node; ``None`` loads the embedded bundle on one
            thread.
        mapping: Field names that replace the known ones, such as ``{"question": "prompt"}``.
        prefix: Prefix of the added columns.

    Raises:
        DataError: ``load`` cannot be pickled, or a column exists already.
    """
    types = import_tool("pyspark.sql.types", "pyspark")
    spark_types = {float: types.DoubleType, bool: types.BooleanType, str: types.StringType}
    scoring = RowScoring.of(load, mapping, prefix)
    added = scoring.columns(frame.columns)
    fields = [types.StructField(name, spark_types[kind](), True) for name, kind in added.items()]
    schema = types.StructType([*frame.schema.fields, *fields])
    return frame.mapInPandas(frame_scorer(scoring), schema)


def frame_scorer(scoring: RowScoring) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of a worker, which adds the columns to pandas frames."""

    def score_frames(frames: Iterator[Any]) -> Iterator[Any]:
        for part in frames:
            yield part.assign(**scoring.score(part.to_dict("records")))

    return score_frames
