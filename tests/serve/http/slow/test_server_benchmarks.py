"""The server's benchmarks run, and bars that do not depend on the machine's load hold."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

# Both are read as they are meant, so the request behind them is a second one.
LENIENT = ("bare line feeds", "a chunk size with a space")
Tables = dict[str, list[dict[str, Any]]]


def run(name: str, folder: Path, *flags: str) -> Tables:
    """Run a benchmark; return its tables' rows by the beginning of their titles."""
    file = folder / "figures.json"
    main = importlib.import_module(f"benchmarks.{name}").main
    assert main([*flags, "--repeats", "1", "--json", str(file)]) == 0
    report = json.loads(file.read_bytes())
    return {table["title"].partition(",")[0]: table["rows"] for table in report["tables"]}


def test_slow_and_silent_connections_are_closed_in_time_and_floods_take_no_memory(
    tmp_path: Path,
) -> None:
    tables = run("server_attacks", tmp_path, "--timeout", "3")
    for row in tables["Closed by the server"]:
        assert float(row["last, s"]) <= 3 + 1
        assert float(row["first, s"]) >= 3 - 0.1
        assert row["told 408"] == (row["how many"] if row["connections"] == "slow bodies" else 0)
    for row in tables["Too much"]:
        found = (row["answer"], row["answers in all"])
        if row["what"] == "10,000 requests at once":
            assert found == ("200", 10_000)
        else:  # a reset may overtake the answer
            assert found in {("400", 1), ("413", 1), ("431", 1), ("closed", 0)}, row
        assert float(row["peak memory, MB"]) <= 5, row
    for row in tables["Smuggling"]:
        expected = ("400", 2, "no") if row["probe"] in LENIENT else ("400", 1, "yes")
        assert (row["answer"], row["answers in all"], row["closed"]) == expected, row


def test_a_minute_of_good_and_bad_leaves_memory_and_descriptors_as_they_were(
    tmp_path: Path,
) -> None:
    tables = run("server_soak", tmp_path, "--seconds", "60")
    (rows,) = tables.values()
    values = {row["what"]: row["figure"] for row in rows}
    assert float(values["growth, MB"]) <= 10
    before, most, after = map(int, values["descriptors before, most, after"].split(", "))
    assert after <= before
    assert most <= before + 2 * 16 + 2
    assert not {name for name in values if name in {"ended 500", "ended broken"}}


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("server_load", ["--seconds", "3", "--starts", "1"]),
        ("server_fairness", ["--seconds", "5", "--tokens", "2000"]),
        ("server_shutdown", ["--grace", "120"]),
    ],
)
def test_what_a_busy_machine_would_spoil_runs(tmp_path: Path, name: str, flags: list[str]) -> None:
    for title, rows in run(name, tmp_path, *flags).items():
        assert rows, title
        for row in rows:
            said = str(row.get("answers", ""))
            assert not any(word in said for word in ("500", "broken")), row
