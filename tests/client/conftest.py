"""A small server that answers as it is told, and then as the embedded bundle judges."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import trivet
from trivet.client import retrying
from trivet.records import Evaluation, ExampleError, FailedEvaluation, RagExample

EXAMPLES = [
    RagExample("When was the mill built?", ("The mill was built in 1817.",), "In 1817.", "a"),
    RagExample("Who keeps the lighthouse?", ("It has had no keeper since 1931.",), "Jonas."),
    RagExample("Where does the ferry cross?", ("North of the town.", "Bread is sold."), "", "c"),
]


@dataclass
class Answer:
    """What the server says once, in place of a verdict."""

    status: int
    body: dict[str, Any] | bytes = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def error(status: int, error_type: str, **headers: str) -> Answer:
    body = {"error": f"told to be {error_type}", "error_type": error_type, "request_id": "r-1"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, body, named)


class Reset:
    """The connection is broken instead of an answer."""


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedServer:
    """Answers on a free port of this machine.

    Attributes:
        script: What the next requests get; when it is empty, they are judged.
        asked: The requests that came, in order.
        on_request: Called in the request's thread, before it is answered.
    """

    def __init__(self, judge: trivet.Evaluator) -> None:
        self.judge = judge
        self.script: deque[Answer | Reset] = deque()
        self.asked: list[Asked] = []
        self.on_request: Callable[[Asked], None] = lambda asked: None
        self.most_contexts = 256

    def answer(self, asked: Asked) -> Answer | Reset:
        self.asked.append(asked)
        self.on_request(asked)
        if self.script:
            return self.script.popleft()
        if asked.method == "GET":
            return Answer(200, {"ready": True, "bundle": "embedded"})
        record = asked.json
        if asked.path.endswith("/relevance"):
            verdict = self.judge.evaluate(record["question"], record["contexts"], "").to_dict()
            return Answer(200, {name: verdict[name] for name in ("relevance", "contexts")})
        allow = record.get("allow_empty_contexts", False)
        if "examples" not in record:
            result = self._judge(record, allow)
            if isinstance(result, FailedEvaluation):
                return error(422, result.code)
            return Answer(200, result.to_dict())
        if any(len(one["contexts"]) > self.most_contexts for one in record["examples"]):
            return error(422, "validation")
        results = [self._judge(one, allow) for one in record["examples"]]
        return Answer(200, {"results": [_record(result) for result in results]})

    def _judge(self, record: dict[str, Any], allow: bool) -> Evaluation | FailedEvaluation:
        texts = (record["question"], record["contexts"], record["response"])
        try:
            return self.judge.evaluate(*texts, id=record.get("id"), allow_empty_contexts=allow)
        except ExampleError as problem:
            return FailedEvaluation.of(problem, record.get("id"))


def _record(result: Evaluation | FailedEvaluation) -> dict[str, Any]:
    if isinstance(result, Evaluation):
        return result.to_dict()
    return {"id": result.id, "error": {"code": result.code, "message": result.message}}


@dataclass
class Running:
    """The scripted server at its address."""

    url: str
    served: ScriptedServer


@pytest.fixture(scope="session")
def embedded() -> trivet.Evaluator:
    return trivet.Evaluator(threads=1)


@pytest.fixture
def server(embedded: trivet.Evaluator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Run a scripted server; pauses between tries are too short to be noticed."""
    monkeypatch.setattr(retrying, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    served = ScriptedServer(embedded)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            self._serve("POST")

        def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 (the base's name)
            """Say nothing: a test prints nothing."""

        def _serve(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = served.answer(Asked(method, self.path, headers, body))
            if isinstance(answer, Reset):
                self.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                self.close_connection = True
                return
            content = answer.body
            if not isinstance(content, bytes):
                content = json.dumps(content).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing: a client that hangs up is part of a test."""

    with Quiet(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Running(f"http://127.0.0.1:{http.server_address[1]}", served)
        http.shutdown()
        thread.join()


@pytest.fixture
def client(server: Running) -> Iterator[trivet.Client]:
    with trivet.Client(server.url, retries=2) as made:
        yield made
