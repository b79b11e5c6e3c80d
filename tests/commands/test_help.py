"""The help of all commands: whole words, panels, one form of a flag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from tests.commands.test_documented_commands import parse
from trivet.__main__ import app
from trivet.commands.command import EXAMPLES
from trivet.configs.loading import load_config

_SCREENS = (["--help"], ["evaluate", "--help"])


@pytest.mark.parametrize("help_option", ["-h", "--help"])
def test_help_shows_every_option_whole_in_80_columns(help_option: str) -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    commands: list[tuple[list[str], Any]] = [([], group)]
    for words, command in commands:  # grows while it is read
        result = CliRunner().invoke(app, [*words, help_option], terminal_width=80)
        assert result.exit_code == 0, words
        shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", result.output))
        names = [name for param in command.params for name in (*param.opts, *param.secondary_opts)]
        assert {name for name in names if name.startswith("-")} <= shown, words
        assert max(map(len, result.output.splitlines())) <= 80, words
        assert "…" not in result.output
        nested = getattr(command, "commands", {})
        commands += [([*words, name], inner) for name, inner in nested.items()]
    assert len(commands) > 10


def test_help_is_in_panels_and_its_common_half_is_one_screen() -> None:
    shown = [CliRunner().invoke(app, words, terminal_width=80).output for words in _SCREENS]
    for words, output in zip(_SCREENS, shown, strict=True):
        common = output.partition("\nRarely needed:\n")[0]
        assert len(common.splitlines()) <= 50, words
        assert "..." not in output.partition("\n")[2], words
    for panel in ("Judge answers", "Serve", "Measure", "Train", "Bundles"):
        assert f"\n{panel}:\n" in shown[0]
    for panel in ("Input", "Output", "Gates", "Model", "Rarely needed"):
        assert f"\n{panel}:\n" in shown[1]


def test_each_command_shows_two_examples_that_parse() -> None:
    group = get_command(app)
    names = [*_names(group)]
    assert names and sorted(names) == sorted(EXAMPLES)
    for name, lines in EXAMPLES.items():
        shown = CliRunner().invoke(app, [*name.split(), "--help"], terminal_width=80).output
        for line in lines:
            assert f"  {line}\n" in shown, name
            if line.startswith("trivet "):
                parse(line.replace("\\\n", ""))
            if line.startswith("trivet train "):
                _, _, recipe, *others = line.split()
                load_config([Path(recipe)], [word for word in others if "=" in word])


def _names(group: Any) -> Iterator[str]:
    for name, command in group.commands.items():
        nested = hasattr(command, "commands")
        yield from (f"{name} {inner}" for inner in _names(command)) if nested else (name,)
