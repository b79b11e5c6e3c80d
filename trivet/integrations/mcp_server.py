"""Tools for an assistant over the Model Context Protocol: ``trivet mcp``.

Built on the official SDK (extra ``mcp``). The evaluator runs in threads, so that the protocol is
answered meanwhile; an example that cannot be evaluated is an error of the tool's answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

import trivet
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import with_support
from trivet.heads import CONTEXT_HEADS
from trivet.interface import Result
from trivet.logs.conversation import Turns
from trivet.records import Evaluation, FailedEvaluation
from trivet.report.answer import rebuilt_texts
from trivet.report.shown_sources import find_sources
from trivet.report.wording import of_span, sentence_word
from trivet.settings import ThresholdName
from trivet.verdict_json import SCORES

T = TypeVar("T")

_INSTRUCTIONS = (
    "Judges answers against the passages that they were made from. Before answering, relevance "
    "says which passages help. After answering, evaluate finds the sentences that no passage "
    "supports, and explain says why, with the nearest passages, so that the answer can be "
    "corrected. Scores are in [0, 1]; the model reads English."
)
_Question = Annotated[str, Field(description="Question of the user; may be empty.")]
_Contexts = Annotated[
    list[str | dict[str, Any]],
    Field(description="Retrieved passages: texts, or objects with text, id and title."),
]
_Messages = Annotated[
    list[dict[str, Any]],
    Field(description="Chat messages with role and content; results of tools are the contexts."),
]
_Turns = Annotated[Turns, Field(description="Answers to judge: the last one, or all.")]
_Response = Annotated[str, Field(description="Answer to judge.")]
_Threshold = Annotated[
    Annotated[float, Field(ge=0, le=1)] | ThresholdName | None,
    Field(description="Threshold of support, or the name of one of the bundle's."),
]
_Strict = Annotated[bool, Field(description="Count spans to check as unsupported.")]


def build_server(evaluator: Evaluator) -> MCPServer:
    """Return a server with its tools: two that evaluate, ``relevance`` and ``explain``."""
    server = MCPServer(
        "trivet", instructions=_INSTRUCTIONS, version=trivet.__version__, log_level="WARNING"
    )

    @server.tool()
    async def evaluate(
        question: _Question,
        contexts: _Contexts,
        response: _Response,
        threshold: _Threshold = None,
        strict: _Strict = False,
    ) -> dict[str, Any]:
        """Judge an answer: scores, unsupported spans (characters), and each sentence."""
        options = {"threshold": threshold, "strict": strict}
        return _fields(await _call(evaluator.evaluate, question, contexts, response, **options))

    @server.tool()
    async def evaluate_messages(
        messages: _Messages,
        contexts: _Contexts | None = None,
        turns: _Turns = "last",
        threshold: _Threshold = None,
        strict: _Strict = False,
    ) -> dict[str, Any]:
        """Judge the last answer of a conversation, or each: one result for each, as of evaluate."""
        options = {"contexts": contexts, "turns": turns, "threshold": threshold, "strict": strict}
        results = await _call(evaluator.evaluate_messages, messages, **options)
        failed = [result for result in results if isinstance(result, FailedEvaluation)]
        if turns == "last" and failed:
            raise ToolError(failed[0].message)
        return {"results": [{"id": result.id, **_fields(result)} for result in results]}

    @server.tool()
    async def relevance(question: _Question, contexts: _Contexts) -> dict[str, Any]:
        """Score passages against a question, before an answer is written."""
        verdict = await _call(evaluator.evaluate, question, contexts, "")
        return {
            "relevance": verdict.relevance,
            "contexts": [context.relevance for context in verdict.contexts],
        }

    @server.tool()
    async def explain(
        question: _Question,
        contexts: _Contexts,
        response: _Response,
        threshold: _Threshold = None,
        strict: _Strict = False,
    ) -> str:
        """Say which sentences of an answer are supported, and what is near in the contexts."""
        options = {"threshold": threshold, "strict": strict}
        verdict = await _call(evaluator.evaluate, question, contexts, response, **options)
        return await _call(explanation, verdict)

    return server


async def _call(function: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call in a thread; of errors other than these the client is told no message."""
    try:
        return await asyncio.to_thread(function, *arguments, **options)
    except (ExampleError, BackendError, WindowError) as error:
        raise ToolError(str(error)) from error


def _fields(result: Result) -> dict[str, Any]:
    """Return what an assistant needs of a verdict, or the error in its place."""
    if isinstance(result, FailedEvaluation):
        return {"error": result.message}
    fields = result.to_dict()
    kept = (*SCORES, "supported_share", "adherent", "abstains", "threshold", "language")
    parts = ("unsupported", "to_check", "sentences")
    names = (*CONTEXT_HEADS, "id", "title")
    return {
        **{name: fields[name] for name in (*kept, *parts)},
        "contexts": [{name: context[name] for name in names} for context in fields["contexts"]],
    }


def explanation(verdict: Evaluation) -> str:
    """Return a verdict in words: its scores, then each sentence with its nearest sources.

    ``[1]`` is the first context.

    Raises:
        BackendError: The bundle has no support head.
    """
    threshold = with_support(verdict.threshold, "sentences")
    named = ", ".join(
        f"{name} {value:.2f}" for name in SCORES if (value := getattr(verdict, name)) is not None
    )
    unsupported = sum(sentence.supported is False for sentence in verdict.sentences)
    lines = [
        f"{unsupported} of {len(verdict.sentences)} sentences are unsupported (threshold "
        f"{threshold:.2f}); {named}."
    ]
    if verdict.language is not None:
        lines.append(f"The text is not English ({verdict.language}), so this says little.")
    contexts = rebuilt_texts(verdict)[1]
    for sentence, sources in zip(verdict.sentences, find_sources(verdict), strict=True):
        if sentence.support is None:
            lines.append(f'\n{sentence_word(sentence, verdict)}: "{sentence.text}"')
            continue
        mark = "supported" if sentence.supported else "UNSUPPORTED"
        lines.append(f'\n{mark} ({sentence.support:.2f}): "{sentence.text}"')
        lines += [
            f'  doubtful words: "{span.text}"'
            if span.reason == "not_supported"
            else f"  {'to check: ' if span in verdict.to_check else ''}{of_span(span, contexts)}"
            for span in (*verdict.unsupported, *verdict.to_check)
            if sentence.start <= span.start < sentence.end and span.text != sentence.text
        ]
        lines += [
            f'  near, [{source.context + 1}]: "'
            f'{verdict.contexts[source.context].sentences[source.sentence].text}"'
            for source in sources
        ]
        if not sources:
            lines.append("  no context has its words")
    return "\n".join(lines)
