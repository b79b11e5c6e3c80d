"""An OpenAI-compatible endpoint on loopback that answers as a script says.

::

    with ScriptedEndpoint(lambda body: Reply("yes")) as endpoint:
        client = ChatClient("scripted", base_url=endpoint.url)

A script takes the body of a request and returns a :class:`Reply` or the text of the answer.
:func:`sequence` gives one reply after the other; faults have their own functions.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

INPUT_TOKENS, OUTPUT_TOKENS = 100, 10


@dataclass(frozen=True)
class Reply:
    """A reply to one request.

    Attributes:
        text: Content of the answer.
        status: HTTP status.
        headers: Further headers.
        raw: Body to send instead of a chat completion.
        cut: Whether the connection closes before anything is sent.
        wait: Event to wait for before the reply.
        refusal: Refusal in place of a content.
        finish_reason: As in the protocol.
        logprobs: Log probabilities of each token of the answer and, after it, of its alternatives;
            sent if the request asks for them.
    """

    text: str | None = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    cut: bool = False
    wait: threading.Event | None = None
    refusal: str | None = None
    finish_reason: str = "stop"
    logprobs: Sequence[Mapping[str, float]] | None = None

    def body(self, model: str, logprobs: bool = False) -> bytes:
        """Return the body of the reply, with log probabilities if they are asked for."""
        if self.raw is not None:
            return self.raw
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": self.finish_reason,
            "message": {"role": "assistant", "content": self.text, "refusal": self.refusal},
        }
        if logprobs and self.logprobs is not None:
            tokens = [
                [
                    {"token": text, "logprob": value, "bytes": None}
                    for text, value in logprob.items()
                ]
                for logprob in self.logprobs
            ]
            content = [top[0] | {"top_logprobs": top} for top in tokens]
            choice["logprobs"] = {"content": content, "refusal": None}
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS}
        usage["total_tokens"] = INPUT_TOKENS + OUTPUT_TOKENS
        completion = {"id": "1", "object": "chat.completion", "created": 0, "model": model}
        return json.dumps(completion | {"choices": [choice], "usage": usage}).encode()


Script = Callable[[dict[str, Any]], "Reply | str"]


def error(status: int, message: str, **headers: str) -> Reply:
    """Return an error as OpenAI sends it; the client waits one millisecond before a retry."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = json.dumps({"error": {"message": message, "type": "error", "param": None, "code": None}})
    return Reply(status=status, raw=raw.encode(), headers={"retry-after-ms": "1"} | named)


RATE_LIMITED = error(429, "slow down")
FAILED = error(500, "the model crashed")
CUT = Reply(cut=True)
REFUSED = Reply(None, refusal="I cannot help with that.")
NONSENSE = Reply(raw=b"<html>It works!</html>", headers={"content-type": "text/html"})


def sequence(*replies: Reply | str) -> Script:
    """Return a script that gives one reply after the other, and then the last one for ever."""
    left: Iterator[Reply | str] = iter(replies)
    lock = threading.Lock()

    def reply(body: dict[str, Any]) -> Reply | str:
        with lock:
            return next(left, replies[-1])

    return reply


def last_text(body: Mapping[str, Any]) -> str:
    """Return the content of the last message of a request."""
    return str(body["messages"][-1]["content"])


class ScriptedEndpoint:
    """The endpoint; a context manager.

    Attributes:
        bodies: Bodies of the requests so far.
        keys: Authorization headers of the requests.
    """

    def __init__(self, script: Script, *, structured: bool = True, refuses: str = "") -> None:
        """Choose what is answered.

        Args:
            script: Replies by the body of the request.
            structured: Whether ``response_format`` is known, else it is refused with 400.
            refuses: Another parameter that is refused.
        """
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self._script = script
        self._refused = {refuses} | (set() if structured else {"response_format"})
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _reply(self, body: dict[str, Any], key: str | None) -> Reply:
        with self._lock:
            self.bodies.append(body)
            self.keys.append(key)
        if refused := self._refused & body.keys():
            return error(400, f"Unsupported parameter: '{refused.pop()}'")
        reply = self._script(body)
        reply = Reply(reply) if isinstance(reply, str) else reply
        if reply.wait is not None:
            reply.wait.wait(60)
        return reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                reply = endpoint._reply(body, self.headers.get("authorization"))
                if reply.cut:
                    self.close_connection = True
                    self.connection.close()
                    return
                content = reply.body(body["model"], body.get("logprobs", False))
                self.send_response(reply.status)
                headers = {"content-type": "application/json"} | dict(reply.headers)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *arguments: object) -> None:
                pass

            def handle(self) -> None:
                try:
                    super().handle()
                except (OSError, ValueError):
                    self.close_connection = True  # the client is gone

            def finish(self) -> None:
                try:
                    super().finish()
                except (OSError, ValueError):
                    self.close_connection = True

        return Handler
