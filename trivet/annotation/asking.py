"""Prompts, and requests that are sent again until the answer passes its checks.

A prompt is a Jinja file with a block ``user`` and perhaps a block ``system``; without blocks, all
of it is the user's message. Texts of rows are values of a template, never a template.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic import ValidationError

from trivet.errors import ConfigError, ExampleError, fault_words
from trivet.llm.chat import ChatAnswer, ChatRequest

if TYPE_CHECKING:
    from jinja2 import Template


_PROMPTS = Path(__file__).with_name("prompts")


class Prompt:
    """A prompt, and its ``version``: a name of the package, or name and digest of a file."""

    def __init__(self, name: str | Path) -> None:
        """Read a prompt of the package by its name, or a file; else ``ConfigError``."""
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        packaged = _PROMPTS / f"{name}.j2"
        path = packaged if packaged.is_file() else Path(name)
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        try:
            content = path.read_bytes()
            self._template: Template = environment.from_string(content.decode())
        except (OSError, ValueError, TemplateError) as error:
            raise ConfigError(f"prompt {path} cannot be read: {error}") from error
        digest = hashlib.sha256(content).hexdigest()[:8]
        self.version = path.stem if path == packaged else f"{path.stem}-{digest}"

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
Ask: TypeAlias = Callable[[ChatRequest], ChatAnswer]

_SENT_BACK = 3  # times that an answer that fails a check is sent back
_OTHER_TEMPERATURE = 0.7  # after a repeated fault
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
    """No answer of a model can be used; ``calls`` tells of its calls."""

    def __init__(self, message: str, code: str, calls: Mapping[str, Any]) -> None:
        super().__init__(message, code)
        self.calls = calls


def ask_checked(
    ask: Ask, request: ChatRequest, provenance: Provenance, read: Callable[[str], _Result]
) -> _Result:
    """Ask until ``read`` accepts the answer, and return what it made of it.

    ``read`` raises a ``ValueError`` whose message tells the model what to mend. Without an accepted
    answer a `RejectedError` is raised.
    """
    first, fault = list(request.messages), ""
    for attempt in range(1 + _SENT_BACK):
        spoken = ask(request)
        provenance.add(spoken)
        if spoken.refused:
            raise RejectedError(f"the model refused: {spoken.text}", "refused", vars(provenance))
        try:
            if spoken.is_cut:
                raise ValueError(f"it ends after {spoken.output_tokens} tokens: be shorter")
            result = read(spoken.text)
            provenance.answer = None  # the caller keeps what was read
            return result
        except ValidationError as error:
            fault = fault_words(error, _SHOWN_FAULTS)
        except ValueError as error:
            fault = str(error)
        back = f"Your answer cannot be used: {fault}. Answer again, with the whole answer."
        messages = [
            *first,
            {"role": "assistant", "content": spoken.text[:_SHOWN_ANSWER]},
            {"role": "user", "content": back},
        ]
        request = replace(
            request,
            messages=messages,
            sample=request.sample + 1,
            temperature=_OTHER_TEMPERATURE * bool(attempt),
        )
    message = f"still inconsistent after {1 + _SENT_BACK} answers: {fault}"
    raise RejectedError(message, "inconsistent", vars(provenance))


_LONGEST = 400_000  # characters that are repaired; it takes long


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object in an answer, repaired if need be; without one ``ValueError``."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        import json_repair

        if len(text) > _LONGEST:
            message = f"the answer is not JSON, and too long to repair: {len(text)} characters"
            raise ValueError(message) from None
        try:
            value = json_repair.loads(text, skip_json_loads=True)
        except RecursionError as error:
            raise ValueError("the answer is nested too deeply") from error
    if isinstance(value, list):  # objects with text between them
        value = next((part for part in reversed(value) if isinstance(part, dict)), None)
    if not isinstance(value, dict) or not value:
        raise ValueError("the answer holds no JSON object")
    return value
