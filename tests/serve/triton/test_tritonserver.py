"""A real ``tritonserver`` on loopback answers as the evaluator does.

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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tritonclient import grpc as triton_grpc

from tests.judges import approximately
from tests.serve.triton.conftest import LONG, as_bytes
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, RagExample
from trivet.verdict_json import SCORES

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


@dataclasses.dataclass
class Running:
    process: subprocess.Popen[bytes]
    http: str
    grpc: str

    def post(self, body: bytes) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(f"http://{self.http}/v2/models/trivet/infer", body)
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
    server = Running(process, http, grpc)
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


def texts_of(example: RagExample) -> dict[str, list[str]]:
    return {
        "question": [example.question],
        "contexts": list(example.contexts),
        "response": [example.response],
        "options_json": [json.dumps({"id": example.id})],
    }


def as_json(texts: dict[str, list[str]]) -> bytes:
    inputs = [
        {"name": name, "shape": [len(values)], "datatype": "BYTES", "data": values}
        for name, values in texts.items()
    ]
    return json.dumps({"inputs": inputs}).encode()


def over_http(server: Running, example: RagExample) -> dict[str, Any]:
    status, answer = server.post(as_json(texts_of(example)))
    assert status == 200, answer
    return {output["name"]: output["data"][0] for output in answer["outputs"]}


def grpc_inputs(texts: dict[str, list[str]]) -> list[Any]:
    inputs = []
    for name, values in texts.items():
        tensor = triton_grpc.InferInput(name, [len(values)], "BYTES")
        tensor.set_data_from_numpy(as_bytes(values))
        inputs.append(tensor)
    return inputs


def over_grpc(client: Any, example: RagExample) -> dict[str, Any]:
    result = client.infer("trivet", grpc_inputs(texts_of(example)), client_timeout=60)
    return {name: result.as_numpy(name)[0] for name in (*SCORES, "verdict")}


def check(outputs: dict[str, Any], verdict: Evaluation) -> None:
    wanted = json.loads(verdict.to_json())
    assert json.loads(outputs["verdict"]) == approximately(wanted, 1e-3)
    for name in SCORES:
        score = wanted[name]
        assert outputs[name] == pytest.approx(-1.0 if score is None else score, abs=1e-3)


def test_verdicts_are_the_same_in_process_over_http_and_over_grpc(
    server: Running, embedded: Evaluator, rag_examples: tuple[RagExample, ...]
) -> None:
    examples = (*rag_examples, SLOW)
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        for example, verdict in zip(examples, embedded.evaluate_many(examples), strict=True):
            assert isinstance(verdict, Evaluation)
            check(over_grpc(client, example), verdict)
            with ThreadPoolExecutor(5) as pool:  # many clients at a time
                for outputs in pool.map(over_http, [server] * 5, [example] * 5):
                    check(outputs, verdict)


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
