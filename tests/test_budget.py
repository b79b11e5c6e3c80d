"""Each room keeps to its budget of lines (``[tool.trivet.budget]`` in pyproject.toml).

A budget may be raised only in a commit that says what went elsewhere, or why nothing could.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUDGET: dict[str, int] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
    "tool"
]["trivet"]["budget"]


def lines_of(room: Path) -> int:
    """Return the lines of a room: of its code, or of its pages where it has no code."""
    files = sorted(room.rglob("*.py")) or sorted(room.rglob("*.md"))
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def rooms() -> dict[str, Path]:
    """Return the folders of the package and of the repository that have a budget."""
    inner = (path for path in (ROOT / "trivet").iterdir() if any(path.glob("*.py")))
    outer = (ROOT / name for name in ("tests", "docs", "benchmarks", "research"))
    return {path.name: path for path in (*inner, *outer)}


def test_every_room_has_a_budget() -> None:
    assert BUDGET.keys() == {*rooms(), "top"}


@pytest.mark.parametrize("name", BUDGET)
def test_a_room_keeps_to_its_budget(name: str) -> None:
    if name == "top":  # the files that stand in no room
        lines = sum(
            len(file.read_text(encoding="utf-8").splitlines())
            for file in (ROOT / "trivet").glob("*.py")
        )
    else:
        lines = lines_of(rooms()[name])
    assert lines <= BUDGET[name], f"{name} has {lines} lines, and its budget is {BUDGET[name]}"
