"""Tools for an assistant over the Model Context Protocol: ``trivet mcp``.

Built on the official SDK (extra ``mcp``). The evaluator runs in threads, so that the protocol is
answered meanwhile; an example that cannot be evaluated is an error of the tool's answer.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

import trivet
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import with_support
from trivet.heads import CONTEXT_HEADS
from trivet.logs.conversation import Turns
from trivet.records import Evaluation, FailedEvaluation
from trivet.report.answer import rebuilt_texts
from trivet.report.shown_sources import find_sources
from trivet.report.wording import of_span
from trivet.settings import ThresholdName
from trivet.verdict_json import SCORES

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


def build_server(evaluator: Evaluator) -> MCPServer:
    """Return a server with its tools: two that evaluate, ``relevance`` and ``explain``."""
    server = MCPServer(
        "trivet", instructions=_INSTRUCTIONS, version=trivet.__version__, log_level="WARNING"
    )

    async def judge(*texts: Any, threshold: float | ThresholdName | None = None) -> Evaluation:
        try:
            return await evaluator.aevaluate(*texts, threshold=threshold)
        except (ExampleError, BackendError, WindowError) as error:
            raise ToolError(str(error)) from error  # of others the client is told no message

    @server.tool()
    async def evaluate(
        question: _Question,
        contexts: _Contexts,
        response: _Response,
        threshold: _Threshold = None,
    ) -> dict[str, Any]:
        """Judge an answer: scores, unsupported spans (characters), and each sentence."""
        return _fields(await judge(question, contexts, response, threshold=threshold))

    @server.tool()
    async def evaluate_messages(
        messages: _Messages,
        contexts: _Contexts | None = None,
        turns: _Turns = "last",
        threshold: _Threshold = None,
    ) -> dict[str, Any]:
        """Judge the last answer of a conversation, or each: one result for each, as of evaluate."""
        try:
            results = await asyncio.to_thread(
                lambda: evaluator.evaluate_messages(
                    messages, contexts=contexts, turns=turns, threshold=threshold
                )
            )
        except (ExampleError, BackendError, WindowError) as error:
            raise ToolError(str(error)) from error
        failed = [result for result in results if isinstance(result, FailedEvaluation)]
        if turns == "last" and failed:
            raise ToolError(failed[0].message)
        return {
            "results": [
                {"id": result.id, "error": result.message}
                if isinstance(result, FailedEvaluation)
                else {"id": result.id, **_fields(result)}
                for result in results
            ]
        }

    @server.tool()
    async def relevance(question: _Question, contexts: _Contexts) -> dict[str, Any]:
        """Score passages against a question, before an answer is written."""
        verdict = await judge(question, contexts, "")
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
    ) -> str:
        """Say which sentences of an answer are supported, and what is near in the contexts."""
        verdict = await judge(question, contexts, response, threshold=threshold)
        try:
            return await asyncio.to_thread(explanation, verdict)
        except BackendError as error:
            raise ToolError(str(error)) from error

    return server


def _fields(verdict: Evaluation) -> dict[str, Any]:
    """Return what an assistant needs of a verdict."""
    fields = verdict.to_dict()
    kept = (
        *SCORES,
        "supported_share",
        "adherent",
        "threshold",
        "language",
        "unsupported",
        "to_check",
    )
    shown = {name: fields[name] for name in (*kept, "sentences")}
    names = (*CONTEXT_HEADS, "id", "title")
    return {
        **shown,
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
            lines.append(f'\nno claim: "{sentence.text}"')
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
