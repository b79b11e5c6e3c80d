"""Spark adds scores and errors to a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integrations.conftest import Rows
from trivet.integrations.row_scoring import score_spark


@pytest.fixture
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    pytest.importorskip("pandas")
    builder = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_spark_adds_score_columns(spark: Any, rows: Rows, expected: Callable[[str], Any]) -> None:
    many = [{"number": number, **rows[number % 3]} for number in range(90)]
    many[40]["contexts"] = [""]
    frame = spark.createDataFrame(many).repartition(4)
    scored = sorted(score_spark(frame).collect(), key=lambda row: row["number"])
    assert len(scored) == 90
    assert [row["trivet_faithfulness"] for row in scored[:3]] == expected("faithfulness")
    assert scored[40]["trivet_error"].startswith("empty_contexts: ")
    assert scored[40]["trivet_faithfulness"] is None  # null, not NaN
    assert scored[40]["trivet_adherent"] is None
    assert isinstance(scored[0]["trivet_adherent"], bool)
    assert sum(row["trivet_error"] is None for row in scored) == 89


def test_spark_types_do_not_depend_on_the_values(spark: Any, rows: Rows) -> None:
    (row,) = score_spark(spark.createDataFrame([{**rows[0], "contexts": [""]}])).collect()
    assert row["trivet_relevance"] is None
    assert row["trivet_error"].startswith("empty_contexts: ")
