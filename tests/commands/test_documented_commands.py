"""Command lines of the documents: each could be typed as it stands there."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from trivet.__main__ import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
ARITHMETIC = re.compile(r"\$\(\(.*?\)\)")


def parse(line: str) -> None:
    """Parse a command line as typer does, without running its command; the shell's parts go."""
    words = shlex.split(re.split(r" (?:[|;&>]|2>)", ARITHMETIC.sub("1", line))[0], comments=True)
    command: Any = get_command(app)
    context = None
    name, *rest = words
    while nested := getattr(command, "commands", {}):
        if rest[0].startswith("-"):  # not parsed: --install-completion changes the machine
            assert rest[0] in {"--help", *(name for param in command.params for name in param.opts)}
            return
        context = command.make_context(name, [], context, resilient_parsing=True)
        name, *rest = rest
        command = nested[name]
    with contextlib.suppress(typer.Exit):  # such as --formats
        command.make_context(name, rest, context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_line_could_be_typed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(BLOCK.findall(text)).replace("\\\n", "")
    for line in re.findall(r"^ *(trivet .*)", blocks, re.MULTILINE):
        parse(line)
    # In a sentence what must be given may be left out, and a value be a name for one.
    for line in re.findall(r"`(trivet [^`]+)`", BLOCK.sub("", text)):
        try:
            parse(line)
        except typer.BadParameter:
            pass
        except Exception as error:
            assert "requires an argument" in str(error), f"{line}: {error!r}"
