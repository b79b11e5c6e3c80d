"""The chat client against a scripted endpoint."""

from __future__ import annotations

import concurrent.futures
import json
import logging
import threading

import pytest

from tests.llm import scripted_endpoint as scripted
from tests.llm.scripted_endpoint import Reply, ScriptedEndpoint, last_text, sequence
from trivet.errors import ConfigError
from trivet.llm.chat import Budget, BudgetError, ChatRequest, LlmError, Price
from trivet.llm.chat_client import ChatClient

KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def request(text: str = "Is it?", **settings: object) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], 50, **settings)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def client_of(endpoint: ScriptedEndpoint, **settings: object) -> ChatClient:
    return ChatClient("scripted", base_url=endpoint.url, **settings)  # type: ignore[arg-type]


def test_an_answer_has_its_text_its_tokens_and_its_logprobs() -> None:
    reply = Reply("yes", logprobs=[{"yes": -0.1, "no": -2.5}])
    with ScriptedEndpoint(lambda body: reply) as endpoint, client_of(endpoint) as client:
        answer = client.ask(request(top_logprobs=2))
    assert (answer.text, answer.model) == ("yes", "scripted")
    assert (answer.input_tokens, answer.output_tokens) == (100, 10)
    assert answer.logprobs[0].top == {"yes": -0.1, "no": -2.5}
    assert endpoint.keys == [f"Bearer {KEY}"]
    assert endpoint.bodies[0]["max_tokens"] == 50


@pytest.mark.parametrize("fault", [scripted.RATE_LIMITED, scripted.FAILED, scripted.CUT])
def test_it_tries_again_after_a_fault_that_passes(fault: Reply) -> None:
    script = sequence(fault, "in the end")
    with ScriptedEndpoint(script) as endpoint, client_of(endpoint) as client:
        assert client.ask(request()).text == "in the end"
    assert len(endpoint.bodies) == 2


@pytest.mark.parametrize(
    ("reply", "code", "fatal"),
    [
        (scripted.error(401, f"bad key\x1b[31m {KEY}"), "unauthorized", True),
        (scripted.error(404, "no such model"), "unknown_model", True),
        (scripted.RATE_LIMITED, "rate_limited", True),
        (scripted.error(503, "starting"), "unreachable", True),
        (scripted.FAILED, "server_error", False),
        (scripted.error(400, "maximum context length is 10 tokens"), "too_long", False),
        (scripted.error(400, f"no {KEY}"), "bad_request", False),
        (scripted.NONSENSE, "invalid_answer", True),
        (Reply(raw=b'{"hello": "world"}'), "invalid_answer", True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_failure_has_one_line_without_the_key(reply: Reply, code: str, fatal: bool) -> None:
    with (
        ScriptedEndpoint(lambda body: reply) as endpoint,
        client_of(endpoint) as client,
        pytest.raises(LlmError) as caught,
    ):
        client.ask(request())
    assert (caught.value.code, caught.value.fatal) == (code, fatal)
    assert KEY not in str(caught.value)
    assert str(caught.value).isprintable()
    assert caught.value.__cause__ is None


def test_a_wait_of_an_hour_is_an_error_at_once() -> None:
    later = Reply(status=429, raw=b"{}", headers={"retry-after": "3600"})
    with (
        ScriptedEndpoint(lambda body: later) as endpoint,
        client_of(endpoint) as client,
        pytest.raises(LlmError, match="allows no more calls now"),
    ):
        client.ask(request())
    assert len(endpoint.bodies) == 1


def test_an_endpoint_that_is_too_slow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trivet.llm.chat_client._FIRST_RETRIES", 0)
    gate = threading.Event()
    slow = Reply("late", wait=gate)
    with ScriptedEndpoint(lambda body: slow) as endpoint:
        with (
            client_of(endpoint, timeout=0.1) as client,
            pytest.raises(LlmError, match=r"did not answer in 0\.1 s") as caught,
        ):
            client.ask(request())
        gate.set()
    assert (caught.value.code, caught.value.fatal) == ("timeout", False)


def test_an_endpoint_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trivet.llm.chat_client._FIRST_RETRIES", 0)
    with ScriptedEndpoint(last_text) as endpoint:
        url = endpoint.url
    with pytest.raises(LlmError, match=r"127\.0\.0\.1 cannot be reached") as caught:
        ChatClient("scripted", base_url=url).ask(request())
    assert caught.value.fatal


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(LlmError, match="OPENAI_API_KEY is not set"):
        ChatClient("scripted").ask(request())
    with ScriptedEndpoint(last_text) as endpoint, client_of(endpoint) as client:
        assert client.ask(request("local servers need none")).text


@pytest.mark.parametrize("url", ["127.0.0.1:80", "http://", "http://user:word@127.0.0.1/v1"])
def test_a_base_url_must_be_an_address_without_a_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ChatClient("scripted", base_url=url)
    assert "word@" not in str(caught.value)


@pytest.mark.parametrize("name", ["response_format", "max_tokens", "temperature", "logprobs"])
def test_parameters_that_an_endpoint_refuses_are_left_out(name: str) -> None:
    with ScriptedEndpoint(last_text, refuses=name) as endpoint, client_of(endpoint) as client:
        for text in ("one", "two"):
            sent = request(text, schema=SCHEMA, top_logprobs=1)
            assert client.ask(sent).text == text
    assert len(endpoint.bodies) == 3  # the refusal is remembered
    assert name not in endpoint.bodies[-1]
    assert endpoint.bodies[-1].get("max_completion_tokens") == (
        50 if name == "max_tokens" else None
    )


def test_a_text_that_is_too_long_is_no_refusal_of_a_parameter() -> None:
    reply = scripted.error(400, "maximum context length is 9, you asked for 50 in max_tokens")
    with ScriptedEndpoint(lambda body: reply) as endpoint, client_of(endpoint) as client:
        with pytest.raises(LlmError, match="cannot read so much text"):
            client.ask(request())
        endpoint._script = last_text
        client.ask(request())
    assert [body["max_tokens"] for body in endpoint.bodies] == [50, 50]


def test_tokens_that_an_endpoint_does_not_count_are_estimated() -> None:
    raw = json.loads(Reply("yes indeed").body("m")) | {"usage": None}
    reply = Reply(raw=json.dumps(raw).encode())
    with ScriptedEndpoint(lambda body: reply) as endpoint, client_of(endpoint) as client:
        answer = client.ask(request("x" * 400))
    assert (answer.input_tokens, answer.output_tokens) == (108, 2)


def test_a_refusal_and_a_cut_answer_are_marked() -> None:
    script = sequence(scripted.REFUSED, Reply("not all", finish_reason="length"))
    with ScriptedEndpoint(script) as endpoint, client_of(endpoint) as client:
        refused, cut = (client.ask(request(sample=n)) for n in range(2))
    assert (refused.refused, refused.text) == (True, "I cannot help with that.")
    assert (cut.is_cut, cut.text) == (True, "not all")


def test_the_key_is_in_no_log_and_in_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        ScriptedEndpoint(lambda body: f"your key is {KEY}") as endpoint,
        client_of(endpoint) as client,
    ):
        assert client.ask(request()).text == "your key is ***"
    assert KEY not in caplog.text


def test_lone_surrogates_can_be_sent() -> None:
    with ScriptedEndpoint(last_text) as endpoint, client_of(endpoint) as client:
        assert client.ask(request("a\ud800b")).text == "a\ufffdb"


def test_the_budget_stops_before_it_is_exceeded() -> None:
    price, budget = Price(10.0, 100.0), Budget(0.021)  # $0.002 a call here, at most $0.0054
    with ScriptedEndpoint(last_text) as endpoint:
        client = client_of(endpoint, price=price, budget=budget)
        with pytest.raises(BudgetError, match=r"of at most \$0\.0210 are spent"):
            for n in range(99):
                client.ask(request(f"{n}"))
        client.close()
    assert len(endpoint.bodies) == 8
    assert budget.spent == pytest.approx(0.016)


def test_calls_at_once_do_not_exceed_the_budget_together() -> None:
    price, budget = Price(10.0, 100.0), Budget(0.021)
    with ScriptedEndpoint(last_text) as endpoint:
        client = client_of(endpoint, price=price, budget=budget)
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            asked = [pool.submit(client.ask, request(f"{n}")) for n in range(32)]
        client.close()
    answered = [task for task in asked if task.exception() is None]
    assert len(answered) == len(endpoint.bodies) == 8
    assert budget.spent <= 0.021


@pytest.mark.parametrize("text", ["1", "a,b", "1,-2", "1,inf", "", "nan,1"])
def test_a_price_is_two_numbers(text: str) -> None:
    with pytest.raises(ConfigError, match="must be IN,OUT"):
        Price.parse(text)
