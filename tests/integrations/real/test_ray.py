"""Ray Data scores a dataset with two actors on two CPUs, and does not wait forever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integrations.conftest import Rows
from trivet.errors import ConfigError, DataError
from trivet.integrations.row_scoring import score_ray


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.shutdown()  # the documented example may have started it
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def test_two_ray_actors_score_rows(ray: Any, rows: Rows, expected: Callable[[str], Any]) -> None:
    many = [{"number": number, **rows[number % 3]} for number in range(150)]
    many[70]["contexts"] = [""]
    data = ray.data.from_items(many, override_num_blocks=4)
    scored = sorted(score_ray(data, actors=2).take_all(), key=lambda row: row["number"])
    assert len(scored) == 150
    assert [row["trivet_faithfulness"] for row in scored[:3]] == expected("faithfulness")
    assert scored[70]["trivet_error"].startswith("empty_contexts: ")
    assert scored[70]["trivet_verdict"] is None
    assert sum(row["trivet_error"] is None for row in scored) == 149


def test_ray_must_keep_a_cpu_for_the_reader(ray: Any, rows: Rows) -> None:
    data = ray.data.from_items(rows)
    with pytest.raises(ConfigError, match=r"actors=2 with cpus=1 leave 0 of 2 CPUs"):
        score_ray(data, actors=2, cpus=1)
    with pytest.raises(DataError, match="columns trivet_error exist already"):
        score_ray(data.add_column("trivet_error", lambda batch: batch["question"]))
