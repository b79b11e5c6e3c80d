"""Options that are made from described settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from trivet.commands.command import Command, Group
from trivet.commands.options import options
from trivet.settings import RARE, Setting, SettingError


def parse_pair(text: str) -> tuple[int, int]:
    first, separator, second = text.partition("/")
    if not separator:
        raise SettingError(f"--part {text} must be NUMBER/COUNT")
    return int(first), int(second)


def check_even(value: int) -> None:
    if value % 2:
        raise SettingError(f"{value} is odd")


@dataclass(frozen=True)
class Oven:
    size: Annotated[int, Setting("Loaves.", check=check_even)] = 4
    heat_seconds: Annotated[float, Setting("Seconds.", panel=RARE, least=1)] = 60.0
    part: Annotated[
        tuple[int, int], Setting("Part.", metavar="N/M", typed=str, read=parse_pair)
    ] = (1, 1)
    names: Annotated[
        tuple[str, ...], Setting("Names.", "--name -n", typed=list[str], read=tuple)
    ] = ()
    lit: Annotated[bool, Setting("Light.")] = True
    hidden: list[str] = field(default_factory=list)  # no option


GIVEN: list[dict[str, Any]] = []


@options
def bake(
    bread: Annotated[Path, Setting("Bread.", "BREAD")],
    *,
    oven: Oven,
    slow: Annotated[bool, Setting("Slowly.")] = False,
) -> None:
    """Bake."""
    GIVEN.append({"bread": bread, "oven": oven, "slow": slow})


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer(cls=Group, rich_markup_mode=None)
    made.command(cls=Command)(bake)
    made.command(cls=Command, rich_help_panel="Other")(lambda: None)
    return made


def run(app: typer.Typer, *words: str) -> Result:
    GIVEN.clear()
    return CliRunner().invoke(app, list(words), terminal_width=80)


def test_fields_of_a_dataclass_are_options_and_the_command_gets_the_dataclass(
    app: typer.Typer,
) -> None:
    assert run(app, "bake", "rye").exit_code == 0
    assert [{"bread": Path("rye"), "oven": Oven(), "slow": False}] == GIVEN
    numbers = ["--size", "6", "--heat", "5", "--part", "2/3"]
    words = ["rye", *numbers, "-n", "a", "--name", "b", "--no-lit", "--slow"]
    assert run(app, "bake", *words).exit_code == 0
    oven = Oven(6, 5.0, (2, 3), ("a", "b"), lit=False)
    assert [{"bread": Path("rye"), "oven": oven, "slow": True}] == GIVEN


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bake rye --size 5", "Invalid value for '--size': 5 is odd"),
        ("bake rye --heat 0", "'--heat'"),
        ("bake rye --part 2", "--part 2 must be NUMBER/COUNT"),
        ("bake rye --hidden x", "No such option"),
        ("bake rye --no-slow", "No such option"),
        ("bake", "BREAD"),
    ],
)
def test_a_refused_value_is_wrong_usage(app: typer.Typer, words: str, message: str) -> None:
    result = run(app, *words.split())
    assert (result.exit_code, GIVEN) == (2, [])
    assert message in " ".join(result.output.split())


def test_the_help_has_plain_options_first_and_rare_ones_last(app: typer.Typer) -> None:
    shown = run(app, "bake", "--help").output
    places = [shown.index(f"\n{panel}:\n") for panel in ("Arguments", "Options", RARE)]
    assert places == sorted(places)
    assert shown.index("--heat") > places[2] > shown.index("--slow")
    assert shown.index("--help") > places[2]
    assert "\nOther:\n" in run(app, "--help").output
