"""Prompts of ``templates/``, and a conversation about one answer.

An answer that cannot be read, a refusal and a failed call are failures of the row; no score takes
their place.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jinja2

from research.compare.systems import Score, Setup, System, require_response
from trivet.errors import ConfigError, ExampleError
from trivet.llm.chat import ChatAnswer, ChatRequest, LlmError
from trivet.records import RagExample

if TYPE_CHECKING:
    from trivet.llm.chat_client import ChatClient

_FOLDER = Path(__file__).with_name("templates")


class Conversation:
    """Calls for one example, whose texts are known to every prompt, and the answers so far."""

    def __init__(self, client: ChatClient, example: RagExample) -> None:
        self.example = example
        self.answers: list[ChatAnswer] = []
        self._client = client

    def ask(
        self,
        prompt: str,
        step: str = "user",
        *,
        max_tokens: int = 1024,
        sample: int | None = None,
        top_logprobs: int = 0,
        **values: Any,
    ) -> ChatAnswer:
        """Ask by a block of a prompt's file; a refusal is an ``ExampleError``.

        A numbered sample is asked for at temperature 1, else the temperature is 0.
        """
        messages = render(prompt, step, {**texts_of(self.example), **values})
        temperature = 0.0 if sample is None else 1.0
        request = ChatRequest(
            messages, max_tokens, temperature, sample or 0, top_logprobs=top_logprobs
        )
        answer = self._client.ask(request)
        self.answers.append(answer)
        if answer.refused:
            raise ExampleError(f"the model refused: {answer.text[:200]}", "refused")
        return answer

    def ask_json(self, prompt: str, step: str, key: str, **values: Any) -> Any:
        """Ask for a JSON object, and return the value of a key."""
        text = self.ask(prompt, step, max_tokens=4096, **values).text
        try:
            return json.loads(text[text.index("{") : text.rindex("}") + 1])[key]
        except (ValueError, KeyError) as error:
            raise unparsable(text) from error


Judge: TypeAlias = Callable[[Conversation], Score]


def prompt_system(name: str, judge: Judge, model: str, setup: Setup) -> System:
    """Return the system of a judge, with the run's model unless another one is named."""
    import openai  # noqa: F401  (a missing client is said before the first row)

    if setup.open_llm is None or not (model or setup.model):
        raise ConfigError(f"{name} asks an LLM; name its model with --model, or {name}:MODEL")
    client = setup.open_llm(model or setup.model)

    def score(example: RagExample) -> Score:
        talk = Conversation(client, example)
        try:
            require_response(example)
            read = judge(talk)
        except (ExampleError, LlmError) as error:
            if getattr(error, "fatal", False):
                raise
            read = Score(None, failed=error.code)
        return replace(
            read,
            calls=len(talk.answers),
            prompt_tokens=sum(answer.input_tokens for answer in talk.answers),
            completion_tokens=sum(answer.output_tokens for answer in talk.answers),
        )

    about = f"{name}, prompts {prompt_digest()}, model {client.model}"
    return System(about, score, client.model)


def unparsable(text: str) -> ExampleError:
    """Return the error for an answer that cannot be read."""
    return ExampleError(f"the answer cannot be read: {text[:200]}", "unparsable")


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the last match of a pattern, in any case, or raise an ``ExampleError``."""
    matches = list(re.finditer(pattern, text, re.IGNORECASE))
    if not matches:
        raise unparsable(text)
    return matches[-1]


def probability(answer: ChatAnswer, at: int, word: str, other: str) -> float:
    """Return the probability of a word against another one, one of which begins at a character.

    It is read off the alternatives of the token that begins the word, and is 1 or 0 without them.
    The token is looked for from the end, where verdicts are: tokens with a part of a character or
    with an end mark differ from the text, so offsets would lead to another token.
    """
    rest = answer.text[at:].lower()
    spoken = next(label for label in (word.lower(), other.lower()) if rest.startswith(label))
    after = ""
    for token in reversed(answer.logprobs):
        after = token.token.lower() + after
        if after.count(spoken) == rest.count(spoken):
            top = {token.token: token.logprob, **token.top}
            mass = [
                sum(math.exp(value) for text, value in top.items() if _begins(label, text))
                for label in (word, other)
            ]
            if sum(mass) > 0:
                return mass[0] / sum(mass)
            break
    return float(spoken == word.lower())


def _begins(word: str, token: str) -> bool:
    token = re.sub(r"\A\W+|\W+\Z", "", token).lower()
    return bool(token) and (word.lower().startswith(token) or token.startswith(word.lower()))


def texts_of(example: RagExample) -> dict[str, Any]:
    """Return the values that every prompt knows."""
    return {
        "question": example.question,
        "contexts": list(example.contexts),
        "context": "\n".join(example.contexts),
        "response": example.response,
    }


def render(prompt: str, step: str, values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the messages of a step: of its block, after ``STEP_system`` if the file has it."""
    template = _prompts().get_template(f"{prompt}.jinja")
    context = template.new_context(dict(values))
    return [
        {"role": role, "content": "".join(template.blocks[block](context))}
        for role, block in (("system", f"{step}_system"), ("user", step))
        if block in template.blocks
    ]


@functools.cache
def _prompts() -> jinja2.Environment:
    prompts = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # a prompt is not a page
    )
    prompts.filters["json"] = functools.partial(json.dumps, indent=4, ensure_ascii=False)
    return prompts


@functools.cache
def prompt_digest() -> str:
    """Return the digest of all prompts."""
    texts = (file.read_bytes() for file in sorted(_FOLDER.iterdir()))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]
