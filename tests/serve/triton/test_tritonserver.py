"""A real ``tritonserver`` on loopback answers as the evaluator does, and leaves nothing behind.

The server is that of the ``nvidia-pytriton`` wheel: version 2.51 of 2024, with the Python backend
alone, and with known vulnerabilities: for tests only. Its Python backend cannot read strings with
numpy 2, so it needs its own virtual environment with numpy 1.26, hence ``--no-deps`` (on Linux,
from the root of the repository)::

    python -m venv triton
    grep -v '^numpy==' constraints.txt > without-numpy.txt
    triton/bin/pip install -c without-numpy.txt nvidia-pytriton==0.7.0 'numpy<2' array-api-compat \\
        jinja2 onnxruntime pydantic rich sentencex tokenizers typer
    triton/bin/pip install --no-deps -e .
    TRIVET_TRITON_PYTHON=triton/bin/python python -m pytest -m slow tests/serve/triton

Every wait is bounded, and every server is ended by its own process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient import grpc as triton_grpc
from tritonclient.utils import InferenceServerException

from tests.judges import approximately
from tests.serve.triton.conftest import LONG, SCORES
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, RagExample

PYTHON = os.environ.get("TRIVET_TRITON_PYTHON", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON,
        reason="TRIVET_TRITON_PYTHON names no Python with nvidia-pytriton (see this file's top)",
    ),
]

# Models are unloaded one instance after the other.
START_SECONDS, STOP_SECONDS = 120.0, 90.0
SLOW = dataclasses.replace(LONG, contexts=LONG.contexts * 2)
BAD: tuple[tuple[RagExample, dict[str, Any], str], ...] = (
    (RagExample("q", (), "r"), {}, "empty_contexts"),
    (RagExample("q", ("c",), "r"), {"ids": "x"}, "validation"),
)


@dataclasses.dataclass
class Running:
    process: subprocess.Popen[bytes]
    http: str
    grpc: str
    shared_memory: str
    log: Path

    def post(self, body: bytes, model: str = "trivet") -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(f"http://{self.http}/v2/models/{model}/infer", body)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.http}/v2/health/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> int:
        """Send SIGTERM and wait; a server that does not end is killed, with all it started."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise

    def processes(self) -> list[int]:
        """Return what runs in the server's own session."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                after_name = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(after_name[3]) == self.process.pid and after_name[0] != "Z":
                    found.append(int(folder.name))
        return found

    def regions(self) -> list[str]:
        return [path.name for path in Path("/dev/shm").glob(f"*{self.shared_memory}*")]


def ask_python(script: str) -> str:
    """Return what the other environment's Python prints."""
    done = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def free_address() -> str:
    """Return a free address below the ports that outgoing connections get, any of them at once."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as taken, contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"
    raise OSError("no free port found among 100")


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put the Python backend together: its library, and the stub for the other Python."""
    site = Path(ask_python("import sysconfig; print(sysconfig.get_path('purelib'))"))
    version = ask_python("import sys; print('%d.%d' % sys.version_info[:2])")
    folder = tmp_path_factory.mktemp("backends")
    wheel = site / "pytriton" / "tritonserver"
    for source in (wheel / "backends" / "python", wheel / "python_backend_stubs" / version):
        shutil.copytree(source, folder / "python", dirs_exist_ok=True)
    return folder


@contextlib.contextmanager
def running(repository: Path, backends: Path, log: Path) -> Iterator[Running]:
    """Start a server; stop it at the end."""
    site = Path(ask_python("import sysconfig; print(sysconfig.get_path('purelib'))"))
    library = ask_python("import sysconfig; print(sysconfig.get_config_var('LIBDIR'))")
    http, grpc = free_address(), free_address()
    mark = f"trivet_test_{uuid.uuid4().hex[:12]}"
    environment = {
        **os.environ,
        # The stub runs the first Python of PATH, with that Python's own libpython.
        "PATH": f"{Path(PYTHON).absolute().parent}:{os.environ.get('PATH', '')}",
        "LD_LIBRARY_PATH": f"{site / 'nvidia_pytriton.libs'}:{library}",
    }
    command = [
        str(site / "pytriton" / "tritonserver" / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={mark}",
        "--disable-auto-complete-config",
        "--http-address=127.0.0.1",
        f"--http-port={http.rpartition(':')[2]}",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={grpc.rpartition(':')[2]}",
        "--allow-metrics=false",
        "--exit-timeout-secs=60",
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    server = Running(process, http, grpc, mark, log)
    try:
        until = time.monotonic() + START_SECONDS
        while not server.is_ready():
            assert process.poll() is None, log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < until, log.read_text(errors="replace")[-4000:]
            time.sleep(0.2)
        yield server
    finally:
        if process.poll() is None:
            server.stop()


@pytest.fixture(scope="module")
def server(
    repository: Path, backends: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    with running(repository, backends, tmp_path_factory.mktemp("log") / "server.log") as started:
        yield started


def texts_of(example: RagExample, options: dict[str, Any] | None = None) -> dict[str, list[str]]:
    return {
        "question": [example.question],
        "contexts": list(example.contexts),
        "response": [example.response],
        "options_json": [json.dumps({"id": example.id} if options is None else options)],
    }


def as_json(texts: dict[str, list[str]]) -> bytes:
    inputs = [
        {"name": name, "shape": [len(each)], "datatype": "BYTES", "data": each}
        for name, each in texts.items()
    ]
    return json.dumps({"inputs": inputs}).encode()


def over_http(server: Running, example: RagExample) -> dict[str, Any]:
    status, answer = server.post(as_json(texts_of(example)))
    assert status == 200, answer
    return {output["name"]: output["data"][0] for output in answer["outputs"]}


def grpc_inputs(texts: dict[str, list[Any]]) -> list[Any]:
    inputs = []
    for name, each in texts.items():
        array = np.empty(len(each), dtype=np.object_)
        array[:] = [text if isinstance(text, bytes) else text.encode() for text in each]
        tensor = triton_grpc.InferInput(name, [len(each)], "BYTES")
        tensor.set_data_from_numpy(array)
        inputs.append(tensor)
    return inputs


def over_grpc(client: Any, example: RagExample) -> dict[str, Any]:
    result = client.infer("trivet", grpc_inputs(texts_of(example)), client_timeout=60)
    return {name: result.as_numpy(name)[0] for name in (*SCORES, "verdict")}


def check(found: dict[str, Any], verdict: Evaluation) -> None:
    wanted = json.loads(verdict.to_json())
    assert json.loads(found["verdict"]) == approximately(wanted, 1e-3)
    for name in SCORES:
        score = wanted[name]
        assert found[name] == pytest.approx(-1.0 if score is None else score, abs=1e-3)


def test_verdicts_are_the_same_in_process_over_http_and_over_grpc(
    server: Running, embedded: Evaluator, rag_examples: tuple[RagExample, ...]
) -> None:
    examples = (*rag_examples, SLOW)
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        for example, verdict in zip(examples, embedded.evaluate_many(examples), strict=True):
            assert isinstance(verdict, Evaluation)
            check(over_grpc(client, example), verdict)
            with ThreadPoolExecutor(5) as pool:  # many clients at a time
                for found in pool.map(over_http, [server] * 5, [example] * 5):
                    check(found, verdict)


def test_bad_input_is_the_clients_error_and_the_server_lives(
    server: Running, embedded: Evaluator, rag_examples: tuple[RagExample, ...]
) -> None:
    good = rag_examples[0]
    (verdict,) = embedded.evaluate_many([good])
    assert isinstance(verdict, Evaluation)
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        for example, options, code in BAD:
            texts = texts_of(example, options)
            status, answer = server.post(as_json(texts))
            assert status == 400
            assert answer["error"].startswith(f"{code}: "), answer
            with pytest.raises(InferenceServerException, match=code) as raised:
                client.infer("trivet", grpc_inputs(texts), client_timeout=60)
            assert raised.value.status() == "StatusCode.INVALID_ARGUMENT"
        texts = texts_of(good)
        torn = grpc_inputs(texts | {"response": [b"caf\xe9"]})
        with pytest.raises(InferenceServerException, match=r"invalid_unicode: response") as raised:
            client.infer("trivet", torn, client_timeout=60)
        assert raised.value.status() == "StatusCode.INVALID_ARGUMENT"
        status, answer = server.post(as_json({"question": ["q"]}))
        assert (status, "missing required input" in answer["error"]) == (400, True)
        # The server itself parses JSON, and reports a fault as its own error.
        assert server.post(b'{"inputs": [')[0] == 500
        check(over_http(server, good), verdict)
        check(over_grpc(client, good), verdict)
    assert server.process.poll() is None


def test_a_request_that_waits_too_long_is_refused(server: Running) -> None:
    """The queue is bounded although Triton batches nothing."""
    request = json.loads(as_json(texts_of(SLOW))) | {"parameters": {"timeout": 1_000}}
    body = json.dumps(request).encode()
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: server.post(body), range(12)))
    refused = [answer for status, answer in answers if status == 503]
    assert refused
    assert all("timeout expired" in answer["error"] for answer in refused)
    assert len(refused) + sum(status == 200 for status, _ in answers) == 12
    assert any(status == 200 for status, _ in answers)


def test_sigterm_ends_the_server_and_leaves_nothing(
    repository: Path, backends: Path, tmp_path: Path, rag_examples: tuple[RagExample, ...]
) -> None:
    with running(repository, backends, tmp_path / "server.log") as server:
        assert over_http(server, rag_examples[0])["verdict"]
        assert len(server.processes()) > 2, "the server has stubs"
        assert server.regions()
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(over_http, server, SLOW)
            while not asked.running():
                time.sleep(0.01)
            time.sleep(0.3)
            assert server.stop() == 0
            assert json.loads(asked.result()["verdict"])["id"] == "long"
        assert server.processes() == []
        assert server.regions() == []
