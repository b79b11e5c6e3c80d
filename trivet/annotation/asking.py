"""Prompts, and requests that are sent again until the answer passes its checks.

Prompts are Jinja files, named by their version; those of the package lie in ``prompts``. A template
has a block ``user`` and perhaps a block ``system``, which become messages; without blocks, all of
it is the user's message. Texts of rows are values of a template, never a template.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from trivet.errors import ConfigError, ExampleError, fault_words
from trivet.llm.chat import ChatAnswer, ChatRequest
from trivet.llm.client import ChatClient

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


_Result = TypeVar("_Result")

SENT_BACK = 3
"""How often an answer that fails a check is sent back."""
OTHER_TEMPERATURE = 0.7
"""Temperature of another sample of the same request, and at least after a repeated fault."""
_SHOWN_ANSWER, _SHOWN_FAULTS = 20_000, 8  # of an answer that is sent back: characters, faults


@dataclass
class Provenance:
    """The calls for one row: model as it names itself, time of the last, number, and tokens."""

    model: str
    prompt: str
    time: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    answer: dict[str, Any] | str | None = None

    def add(self, answer: ChatAnswer) -> None:
        """Count a call; its text is kept until an answer passes."""
        self.model, self.time, self.answer = answer.model, answer.time, answer.text
        self.calls += 1
        self.input_tokens += answer.input_tokens
        self.output_tokens += answer.output_tokens


class RejectedError(ExampleError):
    """No answer of a model can be used; ``provenance`` tells of its calls."""

    def __init__(self, message: str, code: str, provenance: Provenance) -> None:
        super().__init__(message, code)
        self.provenance = provenance


def ask_checked(
    client: ChatClient, request: ChatRequest, prompt: str, read: Callable[[str], _Result]
) -> tuple[_Result, Provenance]:
    """Ask until ``read`` accepts the answer, and return what it made of it.

    Args:
        client: Model.
        request: First request; those that follow contain the refused answer and its faults.
        prompt: Version of the prompt.
        read: Function that raises a ``ValueError`` whose message tells the model what to mend.

    Raises:
        RejectedError: The model refused, or no answer was accepted.
        LlmError: There was no answer.
    """
    first, fault = list(request.messages), ""
    provenance = Provenance(client.model, prompt)
    for attempt in range(1 + SENT_BACK):
        given = client.ask(request)
        provenance.add(given)
        if given.refused:
            raise RejectedError(f"the model refused: {given.text}", "refused", provenance)
        try:
            if given.is_cut:
                raise ValueError(f"it ends after {given.output_tokens} tokens: be shorter")
            result = read(given.text)
        except ValidationError as error:
            fault = fault_words(error, _SHOWN_FAULTS)
        except ValueError as error:
            fault = str(error)
        else:
            provenance.answer = None  # the caller keeps what was read
            return result, provenance
        back = f"Your answer cannot be used: {fault}. Answer again, with the whole answer."
        messages = [
            *first,
            {"role": "assistant", "content": given.text[:_SHOWN_ANSWER]},
            {"role": "user", "content": back},
        ]
        request = replace(
            request,
            messages=messages,
            sample=request.sample + 2,
            temperature=max(request.temperature, OTHER_TEMPERATURE * bool(attempt)),
        )
    raise RejectedError(
        f"still inconsistent after {1 + SENT_BACK} answers: {fault}", "inconsistent", provenance
    )


_LONGEST = 400_000  # characters that are repaired; it takes long
_ALIKE = 0.8  # of two names, 1 if they are equal


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object in an answer, repaired if need be; without one ``ValueError``."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _repaired(text)
    if isinstance(value, list):  # objects with text between them
        value = next((each for each in reversed(value) if isinstance(each, dict)), None)
    if not isinstance(value, dict) or not value:
        raise ValueError("the answer holds no JSON object")
    return value


def _repaired(text: str) -> Any:
    import json_repair

    if len(text) > _LONGEST:
        raise ValueError(
            f"the answer is no JSON, and too long to be repaired: {len(text)} characters"
        )
    try:
        return json_repair.loads(text, skip_json_loads=True)
    except RecursionError as error:
        raise ValueError("the answer is nested too deeply") from error


def rename_fields(value: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the fields with one of these names, or with a name that is nearly one of them."""
    found: dict[str, Any] = {}
    for name in names:
        given = name if name in value else None
        if given is None:
            given = next(iter(difflib.get_close_matches(name, value, 1, _ALIKE)), None)
        if given is not None:
            found[name] = value[given]
    return found
