"""Prompts: Jinja files, named by their version. Those of the package lie in ``prompts``.

A template has a block ``user`` and perhaps a block ``system``, which become messages; without
blocks, all of it is the user's message. Texts of rows are values of a template, never a template.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trivet.errors import ConfigError

if TYPE_CHECKING:
    from jinja2 import Template

PROMPTS = Path(__file__).with_name("prompts")


class Prompt:
    """A prompt that was read.

    Attributes:
        version: Name of the package's prompt, such as ``annotate-1``; for a file of the user its
            name and the first digits of its digest.
    """

    def __init__(self, name: str | Path) -> None:
        """Read a prompt of the package by its name, or a file.

        Raises:
            ConfigError: There is no such prompt, or it is no template.
        """
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        own = PROMPTS / f"{name}.j2"
        path = own if own.is_file() else Path(name)
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        try:
            content = path.read_bytes()
            self._template: Template = environment.from_string(content.decode())
        except (OSError, ValueError, TemplateError) as error:
            raise ConfigError(f"prompt {path} cannot be read: {error}") from error
        digest = hashlib.sha256(content).hexdigest()[:8]
        self.version = own.stem if path == own else f"{path.stem}-{digest}"

    def messages(self, values: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the messages for some values; a template that fails raises ``ConfigError``."""
        from jinja2 import TemplateError

        context = self._template.new_context(dict(values))
        blocks = self._template.blocks
        parts = {role: blocks[role] for role in ("system", "user") if role in blocks}
        parts = parts or {"user": self._template.root_render_func}
        try:
            return [
                {"role": role, "content": "".join(render(context)).strip()}
                for role, render in parts.items()
            ]
        except (TemplateError, TypeError, ValueError) as error:
            raise ConfigError(f"prompt {self.version} cannot be filled in: {error}") from error
