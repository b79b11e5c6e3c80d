"""Peers that ask an LLM: a prompt of ``prompts/``, a parser, and the sum of the answers.

A judge is a function of an example and of a `Conversation`. Answers that it cannot read, refusals
and failed calls are failures of the row; no score takes their place.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any, TypeAlias

import jinja2

from trivet.errors import ConfigError, ExampleError
from trivet.llm.chat import ChatAnswer, ChatRequest, LlmError
from trivet.peers.claims import require_response
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample

if TYPE_CHECKING:
    from trivet.llm.client import ChatClient

_ROLES = "system", "user"
_SAMPLES = 1000  # samples of one request in one repeat of a run


class Conversation:
    """Calls for one example.

    Attributes:
        example: The example; its texts are known to every prompt.
        answers: Answers so far.
        hard: Whether a verdict counted 1 or 0 because its log probabilities were not at hand.
    """

    def __init__(self, client: ChatClient, example: RagExample, repeat: int) -> None:
        self.example = example
        self.answers: list[ChatAnswer] = []
        self.hard = False
        self._client, self._repeat = client, repeat

    def ask(
        self,
        prompt: str,
        *,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        sample: int = 0,
        top_logprobs: int = 0,
        history: Sequence[Mapping[str, str]] = (),
        extra: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> ChatAnswer:
        """Ask by a prompt of the package.

        Args:
            prompt: Name of its file, without ``.jinja``.
            max_tokens: As in `ChatRequest`, also the next three.
            temperature: Temperature of sampling.
            sample: Number of the sample.
            top_logprobs: Number of alternatives.
            history: Messages before those of the prompt.
            extra: Further parameters of the request.
            values: Values of the prompt beside the texts of the example.

        Raises:
            ExampleError: The model refused.
            LlmError: There is no answer.
        """
        request = ChatRequest(
            [*history, *render(prompt, {**texts_of(self.example), **values})],
            max_tokens,
            temperature,
            self._repeat * _SAMPLES + sample,
            top_logprobs=top_logprobs,
            extra=extra,
        )
        answer = self._client.ask(request)
        self.answers.append(answer)
        if answer.refused:
            raise ExampleError(f"the model refused: {answer.text[:200]}", "refused")
        return answer

    def probability(self, answer: ChatAnswer, at: int, word: str, other: str) -> float:
        """Return the probability of a word against another one, one of which an answer says.

        It is 1 or 0, which ``hard`` records, where it cannot be read off log probabilities.

        Args:
            answer: The answer.
            at: Character of its text at which either word begins.
            word: Word whose probability is returned.
            other: The only other choice.
        """
        found = probability(answer, at, word, other)
        if found is not None:
            return found
        self.hard = True
        return float(answer.text[at:].lower().startswith(word.lower()))

    def ask_json(self, prompt: str, key: str, **values: Any) -> Any:
        """Ask for a JSON object, and return the value of a key."""
        text = self.ask(prompt, max_tokens=4096, **values).text
        try:
            return json.loads(text[text.index("{") : text.rindex("}") + 1])[key]
        except (ValueError, KeyError) as error:
            raise unparsable(text) from error


Judge: TypeAlias = Callable[[Conversation], PeerScore]


class LlmPeer(Peer):
    """A judge with the client of a model."""

    concurrent = True

    def __init__(self, kind: str, judge: Judge, client: ChatClient, repeat: int = 0) -> None:
        self.model = client.model
        self.about = f"{kind}, prompts {prompt_digest()}, model {client.model}"
        self._judge, self._client, self._repeat = judge, client, repeat

    def score(self, example: RagExample) -> PeerScore:
        """Score one example; an ``LlmError`` that would meet every row is raised."""
        talk = Conversation(self._client, example, self._repeat)
        try:
            require_response(example)
            score = self._judge(talk)
        except ExampleError as error:
            score = PeerScore(None, failed=error.code)
        except LlmError as error:
            if error.fatal:
                raise
            score = PeerScore(None, failed=error.code)
        return replace(
            score,
            calls=len(talk.answers),
            prompt_tokens=sum(answer.input_tokens for answer in talk.answers),
            completion_tokens=sum(answer.output_tokens for answer in talk.answers),
            seconds=sum(answer.seconds for answer in talk.answers),
            raw={"answers": [answer.text for answer in talk.answers], "hard": talk.hard},
        )


def llm_peer(kind: str, judge: Judge, model: str, setup: PeerSetup) -> Peer:
    """Return the peer of a judge, with the run's model unless another one is named.

    Raises:
        ConfigError: There is no model.
        ModuleNotFoundError: The client of LLMs is not installed.
    """
    importlib.import_module("openai")  # if it is missing, that is said before the first row
    if setup.open_llm is None:
        raise ConfigError(f"peer {kind} asks an LLM; name its model with --model")
    return LlmPeer(kind, judge, setup.open_llm(model or setup.model), setup.repeat)


def unparsable(text: str) -> ExampleError:
    """Return the error for an answer that cannot be read."""
    return ExampleError(f"the answer cannot be read: {text[:200]}", "unparsable")


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the last match of a pattern, in any case, or raise an ``ExampleError``."""
    matches = list(re.finditer(pattern, text, re.IGNORECASE))
    if not matches:
        raise unparsable(text)
    return matches[-1]


def probability(answer: ChatAnswer, at: int, word: str, other: str) -> float | None:
    """Return the probability of a word against another one, one of which begins at a character.

    It is read off the alternatives of the token that begins the word; ``None`` if there are none.
    The token is looked for from the end, where verdicts are: tokens with a part of a character or
    with an end mark differ from the text, so offsets would lead to another token.
    """
    rest = answer.text[at:].lower()
    said = next(each for each in (word.lower(), other.lower()) if rest.startswith(each))
    after = ""
    for token in reversed(answer.logprobs):
        after = token.token.lower() + after
        if after.count(said) == rest.count(said):
            top = {token.token: token.logprob, **token.top}
            mass = [
                sum(math.exp(value) for text, value in top.items() if _begins(each, text))
                for each in (word, other)
            ]
            return mass[0] / sum(mass) if sum(mass) > 0 else None
    return None


def _begins(word: str, token: str) -> bool:
    token = re.sub(r"\A\W+|\W+\Z", "", token).lower()
    return bool(token) and (word.lower().startswith(token) or token.startswith(word.lower()))


def texts_of(example: RagExample) -> dict[str, Any]:
    """Return the values that every prompt knows."""
    contexts = list(example.contexts)
    return {
        "question": example.question,
        "contexts": contexts,
        "context": "\n".join(contexts),
        "response": example.response,
    }


def render(prompt: str, values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the messages of a prompt: one for each block of its file."""
    template = _prompts().get_template(f"{prompt}.jinja")
    context = template.new_context(dict(values))
    return [
        {"role": role, "content": "".join(template.blocks[role](context))}
        for role in _ROLES
        if role in template.blocks
    ]


@functools.cache
def _prompts() -> jinja2.Environment:
    prompts = jinja2.Environment(
        loader=jinja2.PackageLoader("trivet.peers", "prompts"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # a prompt is no page
    )
    prompts.filters["json"] = functools.partial(json.dumps, indent=4, ensure_ascii=False)
    return prompts


@functools.cache
def prompt_digest() -> str:
    """Return the digest of all prompts of the package."""
    folder = resources.files("trivet.peers") / "prompts"
    texts = sorted(file.read_text(encoding="utf-8") for file in folder.iterdir())
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:12]
