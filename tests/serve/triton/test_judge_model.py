"""The models of a repository answer as the evaluator does, in the fake Triton of ``conftest``."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.judges import approximately
from tests.serve.triton.conftest import LONG, as_bytes
from trivet.bundle.bundle import read_bundle
from trivet.errors import BackendError, BundleError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import BatchLimits
from trivet.records import Evaluation, RagExample
from trivet.verdict_json import SCORES

SHORT = RagExample("q", ("The mill is old.",), "It is old.")


def serve_slowly(serve: Any, repository: Path, calls_in_flight: int) -> Any:
    """Serve with calls of one window each, so that ``LONG`` takes several, after the self-test."""
    server = serve(repository)
    judge = server.models["trivet"]
    judge.evaluator.limits = BatchLimits(512)
    judge.calls_in_flight = calls_in_flight
    judge.self_tested = True
    return server


def tensors(example: RagExample, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the inputs as Triton hands them over."""
    texts = {
        "question": [example.question],
        "contexts": example.contexts,
        "response": [example.response],
    }
    sent = {"id": example.id} if options is None else options
    if sent != {"id": None}:
        texts["options_json"] = [json.dumps(sent)]
    return {name: as_bytes(text) for name, text in texts.items()}


def answer(response: Any) -> dict[str, Any]:
    assert not response.has_error(), response.error().message()
    return {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}


def error(response: Any) -> tuple[int, str]:
    assert response.has_error()
    return response.error().code(), response.error().message()


def test_verdicts_are_those_of_the_evaluator(
    serve: Any, repository: Path, embedded: Evaluator, rag_examples: tuple[RagExample, ...]
) -> None:
    server = serve(repository)
    examples = (*rag_examples, LONG)
    for example, verdict in zip(examples, embedded.evaluate_many(examples), strict=True):
        assert isinstance(verdict, Evaluation)
        outputs = answer(server.infer("trivet", tensors(example)))
        wanted = approximately(json.loads(verdict.to_json()), 1e-5)
        assert json.loads(outputs["verdict"][0]) == wanted
        for name in SCORES:
            score = getattr(verdict, name)
            assert outputs[name].tolist() == [pytest.approx(-1.0 if score is None else score)]


def test_calls_of_a_request_run_at_once(serve: Any, repository: Path, embedded: Evaluator) -> None:
    server = serve_slowly(serve, repository, calls_in_flight=2)
    encoder, pair, calls = server.models["encoder"], threading.Barrier(2), itertools.count(1)
    real = encoder.backend.run
    (whole,) = embedded.evaluate_many([LONG])
    assert isinstance(whole, Evaluation) and whole.windows >= 4
    running: list[Any] = []
    at_once: list[int] = []

    def run(windows: Any) -> Any:
        running.append(windows)
        at_once.append(len(running))
        if next(calls) <= 4:
            pair.wait(timeout=60)  # breaks where no second call comes
        answer = real(windows)
        running.pop()
        return answer

    encoder.backend.run = run
    verdict = json.loads(answer(server.infer("trivet", tensors(LONG)))["verdict"][0])
    assert verdict["windows"] == whole.windows
    assert sum(shape[0] for shape in server.asked) == whole.windows
    assert (running, max(at_once)) == ([], 2)
    # Full calls give the same verdict.
    full = serve(repository)
    again = json.loads(answer(full.infer("trivet", tensors(LONG)))["verdict"][0])
    assert again["faithfulness"] == pytest.approx(verdict["faithfulness"], abs=0.02)
    positions = embedded.limits.positions
    assert all(shape[0] * shape[1] <= positions for shape in full.asked)


def test_one_bad_window_is_the_error_of_its_request(serve: Any, repository: Path) -> None:
    server = serve_slowly(serve, repository, calls_in_flight=1)
    encoder, calls = server.models["encoder"], 0
    real = encoder.backend.run

    def run(windows: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise BackendError("the backend was made to fail")
        return real(windows)

    encoder.backend.run = run
    code, message = error(server.infer("trivet", tensors(LONG)))
    assert (code, message) == (1, "backend_failed: encoder: the backend was made to fail")
    # The waiting calls never ran, and the next request is answered.
    assert calls == 2
    assert answer(server.infer("trivet", tensors(LONG)))


@pytest.mark.parametrize(
    ("example", "options", "message"),
    [
        (RagExample("q", (), "r"), None, "empty_contexts: there are no contexts"),
        (RagExample("q", ("c",), "r"), {"ids": 1}, "validation: options_json.ids: unknown"),
        (RagExample("q", ("c " * 1_000_001,), "r"), None, "too_long: contexts[0] has 2000002"),
    ],
)
def test_a_bad_request_is_the_clients_error(
    serve: Any, repository: Path, example: RagExample, options: Any, message: str
) -> None:
    server = serve(repository)
    code, reply = error(server.infer("trivet", tensors(example, options)))
    assert (code, reply[: len(message)]) == (3, message)
    assert len(server.asked) <= 1  # the self-test


def test_empty_contexts_are_an_option(serve: Any, repository: Path) -> None:
    server = serve(repository)
    inputs = tensors(RagExample("q", (), "It is old."), {"allow_empty_contexts": True})
    outputs = answer(server.infer("trivet", inputs))
    assert 0 <= outputs["faithfulness"][0] <= 1
    assert [outputs[name][0] for name in SCORES[1:]] == [-1.0, -1.0, -1.0]
    assert json.loads(outputs["verdict"][0])["relevance"] is None


@pytest.mark.parametrize("options", [{"threshold": "strict"}, {"threshold": 1}, {"strict": True}])
def test_the_options_decide_as_in_the_evaluator(
    serve: Any, repository: Path, embedded: Evaluator, options: dict[str, Any]
) -> None:
    asked = RagExample("When?", ("The mill was built in 1817. It is old.",), "It is old. In 1871.")
    verdict = answer(serve(repository).infer("trivet", tensors(asked, options)))["verdict"][0]
    wanted = embedded.evaluate(asked.question, asked.contexts, asked.response, **options)
    told = json.loads(verdict)
    assert told["threshold"] == wanted.threshold
    assert (told["adherent"], len(told["to_check"])) == (wanted.adherent, len(wanted.to_check))


def test_a_missing_encoder_is_unavailable(serve: Any, repository: Path) -> None:
    server = serve(repository)
    encoder = server.models.pop("encoder")
    judge = server.models["trivet"]
    assert not judge.is_ready()
    short = tensors(SHORT)
    code, message = error(server.infer("trivet", short))
    assert (code, message) == (4, "backend_unavailable: encoder: Model 'encoder' is not ready.")
    server.models["encoder"] = encoder
    assert judge.is_ready()
    assert answer(server.infer("trivet", short))


def test_an_encoder_that_fails_the_self_test_answers_nobody(serve: Any, repository: Path) -> None:
    server = serve(repository)
    encoder = server.models["encoder"]
    real = encoder.backend.run
    encoder.backend.run = lambda windows: real(windows)._replace(
        support_probs=real(windows).support_probs * 0.5
    )
    example = tensors(SHORT)
    code, message = error(server.infer("trivet", example))
    assert code == 1
    assert "model.int8.onnx: self-test: answers differ by" in message
    encoder.backend.run = real
    assert answer(server.infer("trivet", example))
    # Tested once, and not before every request.
    before = len(server.asked)
    assert answer(server.infer("trivet", example))
    assert len(server.asked) == before + 1


def test_a_cancelled_request_runs_no_further(serve: Any, repository: Path) -> None:
    server = serve_slowly(serve, repository, calls_in_flight=2)
    before = len(server.asked)

    def is_cancelled() -> bool:
        return len(server.asked) > before

    code, _ = error(server.infer("trivet", tensors(LONG), is_cancelled))
    assert code == 7
    # Running calls came to their end, the others never started.
    assert 1 <= len(server.asked) - before <= 2


@pytest.mark.parametrize("model", ["trivet", "encoder"])
@pytest.mark.parametrize("damage", ["another manifest", "another tokenizer"])
def test_a_changed_bundle_is_refused(
    serve: Any, repository: Path, tmp_path: Path, model: str, damage: str
) -> None:
    copy = tmp_path / "repository"
    shutil.copytree(repository, copy)
    folder = copy / model / "1" / "bundle"
    if damage == "another manifest":
        manifest = folder / "MANIFEST.json"
        manifest.write_bytes(manifest.read_bytes() + b"\n")
        message = r"MANIFEST\.json: SHA-256 .* which config\.pbtxt names; write the repository"
    else:
        (folder / "tokenizer.json").write_bytes(b"{}")
        message = r"tokenizer\.json: 2 bytes instead of"
    with pytest.raises(BundleError, match=message):
        serve(copy)
    assert read_bundle(repository / model / "1" / "bundle")


# Bytes become an example, or an error that names the tensor -------------------------------------


TEXTS = {"question": [b"q?"], "contexts": [b"a", "b\u00e9\0".encode()], "response": [b""]}


@pytest.fixture
def judge_model(backend_utils: ModuleType) -> Any:
    """The module of the model, which needs Triton's own."""
    from trivet.serve.triton import judge_model

    return judge_model


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"contexts": [b"a", b"ab\xff"]}, "invalid_unicode", r"contexts\[1\] is not UTF-8: .*0xff"),
        ({"question": ["\ud800".encode("utf-8", "surrogatepass")]}, "invalid_unicode", "question"),
        ({"response": [b"a", b"b"]}, "invalid_row", "response has 2 elements"),
        ({"response": ["text"]}, "invalid_row", "response must be of bytes, not str"),
        ({"options_json": [b"{"]}, "validation", "options_json: not valid JSON"),
        ({"options_json": [b"[" * 5000]}, "validation", "options_json: not valid JSON"),
        ({"options_json": [b'{"id": 1}']}, "validation", r"options_json\.id: .*string"),
        ({"options_json": [b'{"threshold": 70}']}, "validation", r"\.threshold: .*write 0\.70"),
        ({"options_json": [b'{"threshold": "low"}']}, "validation", r"\.threshold: .*balanced"),
        ({"options_json": [b'{"id": "' + b"x" * 2000 + b'"}']}, "validation", r"\.id: .*1000"),
    ],
)
def test_a_bad_tensor_is_named(
    judge_model: Any, changed: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(ExampleError, match=message) as raised:
        judge_model.read_request(**(TEXTS | changed))
    assert raised.value.code == code
