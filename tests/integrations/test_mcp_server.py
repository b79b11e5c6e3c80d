"""The MCP server, asked by the SDK's own client: in this process, and as a command over stdio."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from trivet.evaluation.evaluator import Evaluator
from trivet.integrations.mcp_server import build_server, explanation
from trivet.records import Evaluation

TEXTS: dict[str, Any] = {
    "question": "When was the mill built?",
    "contexts": ["The mill was built of stone in 1817.", "The ferry is red."],
    "response": "It was built of stone in 1817. "
    "A wizard sells magic potions to tourists from Brazil.",
}


def ask(server: Any, tool: str, arguments: dict[str, Any]) -> Any:
    async def call() -> Any:
        async with Client(server) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(call())


def test_the_command_offers_the_tools_over_stdio(embedded: Evaluator) -> None:
    command = [sys.executable, "-m", "trivet", "mcp", "--threads", "1"]
    server = StdioServerParameters(command=command[0], args=command[1:])

    async def talk() -> tuple[list[str], Any]:
        async with Client(server) as client:
            listed = await client.list_tools()
            answer = await client.call_tool("relevance", {k: TEXTS[k] for k in list(TEXTS)[:2]})
            return [tool.name for tool in listed.tools], answer

    names, answer = asyncio.run(talk())
    assert names == ["evaluate", "evaluate_messages", "relevance", "explain"]
    expected = embedded.evaluate(TEXTS["question"], TEXTS["contexts"], "")
    assert answer.structured_content["relevance"] == expected.relevance
    shares = [context.relevance for context in expected.contexts]
    assert answer.structured_content["contexts"] == shares


def test_evaluate_gives_the_evaluators_verdict(embedded: Evaluator) -> None:
    options = {"threshold": 0.9, "strict": True}
    answer = ask(build_server(embedded), "evaluate", {**TEXTS, **options})
    expected = json.loads(embedded.evaluate(**TEXTS, threshold=0.9, strict=True).to_json())
    told = answer.structured_content
    for field in ("faithfulness", "abstains", "unsupported", "to_check", "sentences"):
        assert told[field] == expected[field]
    assert [set(context) for context in told["contexts"]] == [
        {"relevance", "utilization", "id", "title"}
    ] * 2


def test_the_answers_of_a_conversation_are_judged(embedded: Evaluator) -> None:
    messages = [
        {"role": "user", "content": TEXTS["question"]},
        {"role": "assistant", "content": "Let me look."},
        {"role": "tool", "name": "search", "content": TEXTS["contexts"][0]},
        {"role": "assistant", "content": TEXTS["response"]},
    ]
    server = build_server(embedded)
    (told,) = ask(server, "evaluate_messages", {"messages": messages}).structured_content["results"]
    (expected,) = embedded.evaluate_messages(messages)
    assert isinstance(expected, Evaluation)
    assert told["faithfulness"] == expected.faithfulness
    assert [context["id"] for context in told["contexts"]] == ["search"]
    both = ask(server, "evaluate_messages", {"messages": messages, "turns": "all"})
    first, second = both.structured_content["results"]
    assert "there are no contexts" in first["error"]
    assert second["id"] == "messages[3]"
    refused = ask(server, "evaluate_messages", {"messages": messages[:1]})
    assert refused.is_error
    assert "none of 1 messages is an answer" in refused.content[0].text


def test_explain_names_the_source_of_each_sentence(embedded: Evaluator) -> None:
    answer = ask(build_server(embedded), "explain", TEXTS)
    (part,) = answer.content
    assert part.text == explanation(embedded.evaluate(**TEXTS))
    first, second = part.text.split('": "')[0], part.text.partition("A wizard")[2]
    assert "unsupported" in first
    assert '[1]: "The mill was built of stone in 1817."' in part.text
    assert "no context has its words" in second


@pytest.mark.parametrize("tool", ["evaluate", "evaluate_messages", "explain"])
def test_strict_counts_what_is_to_check(embedded: Evaluator, tool: str) -> None:
    answer = "It was built of stone in 1819."
    texts = {**TEXTS, "response": answer}
    if tool == "evaluate_messages":
        messages = [{"role": "user", "content": "When?"}, {"role": "assistant", "content": answer}]
        texts = {"messages": messages, "contexts": TEXTS["contexts"]}
    told = [
        ask(build_server(embedded), tool, {**texts, "threshold": 0.0, "strict": strict}).content
        for strict in (False, True)
    ]
    assert told[0] != told[1]


def test_explain_calls_a_refusal_by_its_word(embedded: Evaluator) -> None:
    text = explanation(embedded.evaluate("Who?", TEXTS["contexts"], "I don't know. Hello!"))
    assert '\nabstains: "I don\'t know."' in text
    assert '\nno claim: "Hello!"' in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": []}, "there are no contexts"),
        ({"contexts": "text"}, "contexts"),
        ({"threshold": 2}, "less than or equal to 1"),
    ],
)
def test_a_refusal_is_an_error_of_the_tool(
    embedded: Evaluator, change: dict[str, Any], message: str
) -> None:
    answer = ask(build_server(embedded), "evaluate", {**TEXTS, **change})
    assert answer.is_error
    assert message in answer.content[0].text


def test_without_a_support_head_nothing_is_explained(judge_without_support: Evaluator) -> None:
    answer = ask(build_server(judge_without_support), "explain", TEXTS)
    assert answer.is_error
    assert "no support head, so sentences have no verdict" in answer.content[0].text
