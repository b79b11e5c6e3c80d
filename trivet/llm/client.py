"""A client for one chat model at one OpenAI-compatible endpoint.

All calls run in one background event loop, so several threads may ask a client at the same time.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import os
import threading
import time
import weakref
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from trivet.errors import ConfigError
from trivet.interface import replace_surrogates
from trivet.llm.budget import Budget, Price, Usage
from trivet.llm.cache import AnswerCache
from trivet.llm.chat import ChatAnswer, ChatRequest, LlmError, TokenLogprob

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

_Result = TypeVar("_Result")

_one_loop = threading.Lock()

_RETRIES = 8
_FIRST_RETRIES = 3  # until an endpoint has answered once: a wrong address should be said soon
_SAFETY = 2  # tokens of rare text by the estimate, which is for English
_GONE = (502, 503, 504)
_TOO_LONG = "context"  # in the refusals of requests that are too long: "maximum context length"
_NAMED = 300  # characters of a refusal in which a parameter is looked for
# Parameters that some models or endpoints refuse, and what is sent instead.
_FALLBACK = {"max_tokens": "max_completion_tokens"}
_OPTIONAL = ("response_format", "max_tokens", "temperature", "top_logprobs", "logprobs")


class ChatClient:
    """A chat model; see :class:`ChatRequest` and :class:`ChatAnswer`.

    The key is read from ``OPENAI_API_KEY``, and the endpoint from ``OPENAI_BASE_URL`` if none is
    given. Retries after 429 (as ``Retry-After`` says), 5xx and lost connections. Equal requests are
    paid for once if there is a cache.

    Attributes:
        model: Name of the model.
        usage: Calls so far.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        cache: AnswerCache | None = None,
        price: Price | None = None,
        budget: Budget | None = None,
        concurrency: int = 8,
        timeout: float = 600.0,
    ) -> None:
        """Prepare the client; nothing is sent yet.

        Args:
            model: Name of the model, as the endpoint knows it.
            base_url: Address of the endpoint, such as ``http://127.0.0.1:8080/v1``.
            cache: Answers of earlier calls; left open by :meth:`close`.
            price: Price of the model; ``None`` counts no dollars.
            budget: Limit that may be shared by several clients.
            concurrency: Most calls at once.
            timeout: Seconds for one try of a call.

        Raises:
            ConfigError: ``base_url`` is no address, or holds a password.
        """
        self.model = model
        self.usage = Usage()
        self.price = price or Price()
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        self._cache = cache
        self._budget = budget or Budget()
        self._timeout = timeout
        self._slots = asyncio.Semaphore(concurrency)
        self._first = asyncio.Lock()
        self._has_answered = False
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._refused: set[str] = set()
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._key = os.environ.get("OPENAI_API_KEY") or ""
        self._client: AsyncOpenAI | None = None
        address = urlsplit(self._base_url)
        self._where = address.hostname or "api.openai.com"
        if address.password or address.username:
            raise ConfigError("the base URL holds a user name or a password; use OPENAI_API_KEY")
        if self._base_url and (address.scheme not in ("http", "https") or not address.netloc):
            raise ConfigError(
                f"base URL {base_url!r} is no address, such as http://127.0.0.1:8080/v1"
            )

    def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer, from the cache or from the endpoint.

        Raises:
            BudgetError: The call may cost more than what is left.
            LlmError: There is no answer; ``code`` says why.
            OSError: The disk of the cache is full.
        """
        return _submit(self._ask(request)).result()

    def foresee(self, request: ChatRequest) -> Usage:
        """Return what a request would cost at most, without sending it."""
        if self._cache and self._cache.get(request.key(self.model, self._base_url)):
            return Usage(cached=1)
        tokens = request.estimate_input_tokens(), request.max_tokens
        return Usage(1, 0, *tokens, self.price.cost(*tokens))

    def close(self) -> None:
        """Drop the calls that are open, and close the connections."""
        if self._client is not None:
            _submit(self._close(self._client)).result()

    async def _close(self, client: AsyncOpenAI) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
        key = request.key(self.model, self._base_url)
        async with self._locks.setdefault(key, asyncio.Lock()):
            if self._cache and (answer := self._cache.get(key)):
                self.usage.cached += 1
                return answer
            most = self.price.cost(_SAFETY * request.estimate_input_tokens(), request.max_tokens)
            async with self._slots, self._budget.reserve(most):
                answer = await self._call(request)
                tokens = answer.input_tokens, answer.output_tokens
                cost = self.price.cost(*tokens)
                self._budget.spent += cost
                self.usage.add(Usage(1, 0, *tokens, cost))
                if self._cache:
                    self._cache.put(key, self.model, answer)
            return answer

    async def _call(self, request: ChatRequest) -> ChatAnswer:
        """Ask the endpoint; the first call is made alone."""
        if not self._has_answered:
            async with self._first:
                if not self._has_answered:
                    return await self._send(request, _FIRST_RETRIES)
        return await self._send(request, _RETRIES)

    async def _send(self, request: ChatRequest, retries: int) -> ChatAnswer:
        """Ask the endpoint, without the parameters that it refuses."""
        import openai

        began, now = time.perf_counter(), datetime.datetime.now(datetime.UTC)
        client = self._connect().with_options(max_retries=retries)
        try:
            while True:
                parameters = self._parameters(request)
                try:
                    completion = await client.chat.completions.create(**parameters)
                    break
                except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                    if not self._drop_refused(error, parameters):
                        raise
        except openai.OpenAIError as error:
            raise self._explain(error) from None  # the cause may hold the key
        except ValueError as error:  # an answer that is no JSON
            raise self._no_chat(error) from None
        self._has_answered = True
        return self._read(completion, request, now.isoformat(timespec="seconds"), began)

    def _connect(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        if not self._key and not self._base_url:
            raise LlmError(
                "OPENAI_API_KEY is not set; set it, or name an endpoint with --base-url",
                "unauthorized",
                fatal=True,
            )
        if self._client is None:
            self._client = AsyncOpenAI(
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
        if request.extra is not None:
            parameters["extra_body"] = dict(request.extra)
        if request.top_logprobs:
            parameters |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        for name in self._refused & parameters.keys():
            value = parameters.pop(name)
            if name in _FALLBACK:
                parameters[_FALLBACK[name]] = value
        return parameters

    def _drop_refused(self, error: Any, parameters: dict[str, Any]) -> bool:
        """Remember an optional parameter that a refusal names; tell whether there is one."""
        said = str(error.message)[:_NAMED]  # some repeat the whole request after that
        named = f"{error.param or ''} {said}".replace("json_schema", "response_format")
        if _TOO_LONG in named:  # which names max_tokens as well
            return False
        found = next((name for name in _OPTIONAL if name in parameters and name in named), None)
        if found:
            self._refused.add(found)
        return found is not None

    def _explain(self, error: Exception) -> LlmError:
        import openai

        where, said = self._where, self._clean(error)
        status = getattr(error, "status_code", None)
        match error:
            case openai.AuthenticationError() | openai.PermissionDeniedError():
                code, text = "unauthorized", f"{where} refuses the key in OPENAI_API_KEY: {said}"
            case openai.NotFoundError():
                code = "unknown_model"
                text = f"{where} has no model {self.model!r}, or is no such endpoint: {said}"
            case openai.RateLimitError():
                code, text = "rate_limited", f"{where} allows no more calls now: {said}"
            case openai.APITimeoutError():
                code, text = "timeout", f"{where} did not answer in {self._timeout:g} s"
            case openai.APIConnectionError():
                code, text = "unreachable", f"{where} cannot be reached: {said}"
            case openai.APIStatusError() if status in _GONE:
                code, text = "unreachable", f"{where} is not available: {said}"
            case openai.APIStatusError() if status is not None and status >= 500:
                code, text = "server_error", f"{where} failed: {said}"
            case openai.APIStatusError() if status == 413 or _TOO_LONG in said:
                code, text = "too_long", f"{self.model} cannot read so much text: {said}"
            case openai.APIStatusError():
                code, text = "bad_request", f"{where} refuses the request: {said}"
            case _:
                return self._no_chat(error)
        row_level = ("timeout", "server_error", "too_long", "bad_request")
        return LlmError(text, code, fatal=code not in row_level)

    def _read(
        self, completion: ChatCompletion, request: ChatRequest, now: str, began: float
    ) -> ChatAnswer:
        try:
            choice = completion.choices[0]
            message, usage = choice.message, completion.usage
            text = self._redact(message.content or message.refusal or "")
            logprobs = tuple(
                TokenLogprob(
                    each.token, each.logprob, {top.token: top.logprob for top in each.top_logprobs}
                )
                for each in (choice.logprobs and choice.logprobs.content) or ()
            )
            return ChatAnswer(
                text=text,
                model=str(completion.model or self.model),
                time=now,
                # Some local servers count nothing.
                input_tokens=(usage and usage.prompt_tokens) or request.estimate_input_tokens(),
                output_tokens=(usage and usage.completion_tokens) or len(text.encode()) // 4,
                seconds=time.perf_counter() - began,
                refused=bool(message.refusal) or choice.finish_reason == "content_filter",
                is_cut=choice.finish_reason == "length",
                logprobs=logprobs,
            )
        except (AttributeError, IndexError, TypeError):
            raise self._no_chat(completion) from None

    def _no_chat(self, said: object) -> LlmError:
        text = f"{self._where} does not answer as a chat model: {self._clean(said)}"
        return LlmError(text, "invalid_answer", fatal=True)

    def _clean(self, said: object) -> str:
        """Return what an endpoint said on one short line, without the key."""
        plain = "".join(letter if letter.isprintable() else " " for letter in str(said))
        return self._redact(" ".join(plain.split()))[:300]

    def _redact(self, text: str) -> str:
        """Remove the key, which an endpoint may repeat."""
        return text.replace(self._key, "***") if self._key else text


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all clients, which runs in a thread until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="trivet-llm", daemon=True).start()
    return loop


def _submit(task: Coroutine[Any, Any, _Result]) -> Future[_Result]:
    with _one_loop:  # the cache alone would let two threads make two loops
        loop = _loop()
    return asyncio.run_coroutine_threadsafe(task, loop)
