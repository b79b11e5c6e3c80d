"""A client for one chat model at one OpenAI-compatible endpoint; several threads may share it."""

from __future__ import annotations

import datetime
import os
import threading
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from trivet.errors import ConfigError
from trivet.interface import replace_surrogates
from trivet.llm.chat import Budget, ChatAnswer, ChatRequest, LlmError, Price, TokenLogprob

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion

_RETRIES = 8
_FIRST_RETRIES = 3  # until an endpoint has answered once: a wrong address should be said soon
_SAFETY = 2  # tokens of rare text by the estimate, which is for English
_TOO_LONG = "context"  # in the refusals of requests that are too long: "maximum context length"
_NAMED = 300  # characters of a refusal in which a parameter is looked for
# Refusals that all calls would get, by status: code, and what the endpoint does.
_FATAL = {
    **dict.fromkeys((401, 403), ("unauthorized", "refuses the key in OPENAI_API_KEY")),
    404: ("unknown_model", "has no model {model!r}, or is not such an endpoint"),
    429: ("rate_limited", "allows no more calls now"),
    **dict.fromkeys((502, 503, 504), ("unreachable", "is not available")),
}
# Parameters that some models or endpoints refuse, and what is sent instead.
_FALLBACK = {"max_tokens": "max_completion_tokens"}
_OPTIONAL = ("response_format", "max_tokens", "temperature", "top_logprobs", "logprobs")


class ChatClient:
    """A chat model.

    The key is read from ``OPENAI_API_KEY``, and the endpoint from ``OPENAI_BASE_URL`` if none is
    given. Retries after 429 (as ``Retry-After`` says), 5xx and lost connections.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        price: Price | None = None,
        budget: Budget | None = None,
        timeout: float = 600.0,
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Raises:
            ConfigError: ``base_url`` is not an address, or holds a password.
        """
        self.model = model
        self.price = price or Price()
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        self._budget = budget or Budget()
        self._timeout = timeout
        self._first = threading.Lock()
        self._has_answered = False
        self._refused: set[str] = set()
        self._key = os.environ.get("OPENAI_API_KEY") or ""
        self._client: OpenAI | None = None
        address = urlsplit(self._base_url)
        self._where = address.hostname or "api.openai.com"
        if address.password or address.username:
            raise ConfigError("the base URL holds a user name or a password; use OPENAI_API_KEY")
        if self._base_url and (address.scheme not in ("http", "https") or not address.netloc):
            raise ConfigError(
                f"base URL {base_url!r} is not an address, such as http://127.0.0.1:8080/v1"
            )

    def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer of the endpoint.

        Raises:
            BudgetError: The call may cost more than what is left.
            LlmError: There is no answer; ``code`` says why.
        """
        tokens = _SAFETY * request.estimate_input_tokens(), request.max_tokens
        with self._budget.reserve(self.price.cost(*tokens)):
            answer = self._call(request)
            self._budget.pay(self.price.cost(answer.input_tokens, answer.output_tokens))
        return answer

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _call(self, request: ChatRequest) -> ChatAnswer:
        """Ask the endpoint; the first call is made alone."""
        if not self._has_answered:
            with self._first:
                if not self._has_answered:
                    return self._send(request, _FIRST_RETRIES)
        return self._send(request, _RETRIES)

    def _send(self, request: ChatRequest, retries: int) -> ChatAnswer:
        """Ask the endpoint, without the parameters that it refuses."""
        import openai

        client = self._connect().with_options(max_retries=retries)
        try:
            while True:
                parameters = self._parameters(request)
                try:
                    completion = client.chat.completions.create(**parameters)
                    break
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if not self._drop_refused(error, parameters):
                        raise
        except openai.OpenAIError as error:
            raise self._explain(error) from None  # the cause may hold the key
        except ValueError as error:  # an answer that is not JSON
            raise self._no_chat(error) from None
        self._has_answered = True
        return self._read(completion, request)

    def _connect(self) -> OpenAI:
        from openai import OpenAI

        if not self._key and not self._base_url:
            message = "OPENAI_API_KEY is not set; set it, or name an endpoint with --base-url"
            raise LlmError(message, "unauthorized", fatal=True)
        if self._client is None:  # made in the first call, which is made alone
            self._client = OpenAI(
                api_key=self._key or "none", base_url=self._base_url or None, timeout=self._timeout
            )
        return self._client

    def _parameters(self, request: ChatRequest) -> dict[str, Any]:
        messages = [
            {name: replace_surrogates(text)[0] for name, text in message.items()}
            for message in request.messages
        ]
        parameters: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        if request.schema is not None:
            schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.top_logprobs:
            parameters |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        for name in self._refused & parameters.keys():
            value = parameters.pop(name)
            if name in _FALLBACK:
                parameters[_FALLBACK[name]] = value
        return parameters

    def _drop_refused(self, error: Any, parameters: dict[str, Any]) -> bool:
        """Remember an optional parameter that a refusal names; tell whether there is one."""
        message = str(error.message)[:_NAMED]  # some repeat the whole request after that
        named = f"{error.param or ''} {message}".replace("json_schema", "response_format")
        if _TOO_LONG in named:  # which names max_tokens as well
            return False
        refused = next((name for name in _OPTIONAL if name in parameters and name in named), None)
        if refused:
            self._refused.add(refused)
        return refused is not None

    def _explain(self, error: Exception) -> LlmError:
        import openai

        where, reason = self._where, self._clean(error)
        status = error.status_code if isinstance(error, openai.APIStatusError) else 0
        if isinstance(error, openai.APITimeoutError):
            return LlmError(f"{where} did not answer in {self._timeout:g} s", "timeout")
        if isinstance(error, openai.APIConnectionError):
            return LlmError(f"{where} cannot be reached: {reason}", "unreachable", fatal=True)
        if not status:
            return self._no_chat(error)
        if status in _FATAL:
            code, words = _FATAL[status]
            text = f"{where} {words.format(model=self.model)}: {reason}"
            return LlmError(text, code, fatal=True)
        if status >= 500:
            return LlmError(f"{where} failed: {reason}", "server_error")
        if status == 413 or _TOO_LONG in reason:
            return LlmError(f"{self.model} cannot read so much text: {reason}", "too_long")
        return LlmError(f"{where} refuses the request: {reason}", "bad_request")

    def _read(self, completion: ChatCompletion, request: ChatRequest) -> ChatAnswer:
        try:
            choice = completion.choices[0]
            message, usage = choice.message, completion.usage
            text = self._redact(message.content or message.refusal or "")
            logprobs = tuple(
                TokenLogprob(t.token, t.logprob, {top.token: top.logprob for top in t.top_logprobs})
                for t in (choice.logprobs and choice.logprobs.content) or ()
            )
            return ChatAnswer(
                text=text,
                model=str(completion.model or self.model),
                time=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                # Some local servers count nothing.
                input_tokens=(usage and usage.prompt_tokens) or request.estimate_input_tokens(),
                output_tokens=(usage and usage.completion_tokens) or len(text.encode()) // 4,
                refused=bool(message.refusal) or choice.finish_reason == "content_filter",
                is_cut=choice.finish_reason == "length",
                logprobs=logprobs,
            )
        except (AttributeError, IndexError, TypeError):
            raise self._no_chat(completion) from None

    def _no_chat(self, answer: object) -> LlmError:
        text = f"{self._where} does not answer as a chat model: {self._clean(answer)}"
        return LlmError(text, "invalid_answer", fatal=True)

    def _clean(self, message: object) -> str:
        """Return what an endpoint said on one short line, without the key."""
        plain = "".join(letter if letter.isprintable() else " " for letter in str(message))
        return self._redact(" ".join(plain.split()))[:300]

    def _redact(self, text: str) -> str:
        """Remove the key, which an endpoint may repeat."""
        return text.replace(self._key, "***") if self._key else text
