"""The files that other tools write, each as the paths of its question, contexts and response.

The one table of them: what is not in it is read by the plain names of a field
(`trivet.logs.column_mapping.FIELD_NAMES`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Paths = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The rows of one kind of file."""

    name: str  # for ``--format``
    title: str  # in messages
    # paths of each field, of which the first that leads to a value counts; fields that are not
    # named here have their plain names
    fields: Mapping[str, Paths] = field(default_factory=dict)
    # path to the rows inside a record, such as ``results.results[]``; "" if the record is the row,
    # ``{}`` if its members are columns; members of the objects around a row count as its own
    rows: str = ""
    # column of a conversation, whose answers `trivet.logs.conversation` reads in place of the
    # fields whose paths begin with it
    messages: str = ""


COLUMNS = "{}"
"""Rows of a record whose members are columns: lists, or objects with the same names."""

_CONTAINERS = ("data", "rows", "results", "examples", "testCases", "test_cases", "samples")
CONTAINERS: Paths = (COLUMNS, *(f"{name}[]" for name in _CONTAINERS))
"""Where one record may hold the rows of any shape."""

_MESSAGE = "messages[-1][role|type=assistant|ai|model].content"


def conversation(name: str, title: str, column: str) -> Shape:
    """Return the shape of rows that hold chat messages in a column."""
    return Shape(
        name,
        title,
        messages=column,
        fields={
            "question": (f"{column}[role|type=user|human][-1].content",),
            "contexts": (
                *("contexts", "context", "documents", "retrieved_contexts"),
                f"{column}[role|type=tool][].content",
                f"{column}[role|type=system|developer][].content",
            ),
            "response": (f"{column}[role|type=assistant|ai|model][-1].content",),
        },
    )


SHAPES: Mapping[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("columns", "columns, or a list of rows inside an object", rows=COLUMNS),
        Shape(
            "langchain",
            "LangChain's answer with its documents",
            {
                "question": ("query", "question", "input"),
                "contexts": ("source_documents",),
                "response": ("result", "answer", "output_text"),
                "context_ids": (
                    "source_documents[].metadata.source",
                    "source_documents[].kwargs.metadata.source",
                ),
            },
        ),
        Shape(
            "llama-index",
            "LlamaIndex's response with its nodes",
            {
                "question": ("query", "question", "query_str"),
                "contexts": ("source_nodes", "response.source_nodes"),
                "response": ("response.response", "response", "answer"),
            },
        ),
        Shape(
            "haystack",
            "Haystack's output of a pipeline",
            {
                "question": (
                    *("query", "question", "answers[0].query", "answer_builder.answers[0].query"),
                    "answers[0].init_parameters.query",
                ),
                "contexts": (
                    *("documents", "answers[0].documents", "answer_builder.answers[0].documents"),
                    *("answers[0].init_parameters.documents", "retriever.documents"),
                ),
                "response": (
                    *("replies[0].content[0].text", "replies[0].content", "replies[0]"),
                    *("llm.replies[0].content[0].text", "llm.replies[0]", "answers[0].data"),
                    *("answer_builder.answers[0].data", "answers[0].init_parameters.data"),
                ),
            },
        ),
        Shape(
            "mlflow",
            "MLflow's evaluation rows",
            {
                "id": ("id", "request_id", "trace_id"),
                "question": (
                    *("inputs.question", "inputs.query", "inputs.request", "inputs.input"),
                    *("inputs.messages[role=user][-1].content", "inputs"),
                    *("request.question", "request.query", "request.input"),
                    *("request.messages[role=user][-1].content", "request", "question"),
                ),
                "contexts": (
                    *("retrieved_context", "outputs.retrieved_context"),
                    *("response.retrieved_context", "inputs.context", "request.context"),
                ),
                "response": (
                    *("outputs.response", "outputs.answer", "outputs.output"),
                    *("outputs.choices[0].message.content", "outputs"),
                    *("response.response", "response.answer", "response.output"),
                    *("response.choices[0].message.content", "response"),
                ),
                "context_ids": (
                    *("retrieved_context[].doc_uri", "outputs.retrieved_context[].doc_uri"),
                    "response.retrieved_context[].doc_uri",
                ),
            },
        ),
        Shape(
            "langsmith-csv",
            "LangSmith's table of an experiment",
            {
                "id": ("id", "example_id"),
                "question": (
                    *("inputs.question", "inputs.query", "inputs.input", "inputs.user_input"),
                    "inputs.messages[role|type=user|human][-1].content",
                ),
                "contexts": (
                    *("outputs.contexts", "outputs.documents", "outputs.context"),
                    *("outputs.retrieved_contexts", "outputs.source_documents"),
                    *("inputs.contexts", "inputs.context", "inputs.documents"),
                ),
                "response": (
                    *("outputs.answer", "outputs.response", "outputs.output", "outputs.result"),
                    f"outputs.{_MESSAGE}",
                ),
            },
        ),
        Shape(
            "langfuse-traces",
            "Langfuse's list of traces",
            {
                "question": ("input.question", "input.query", "input.input", "input"),
                "contexts": (
                    *("metadata.contexts", "metadata.context", "metadata.documents"),
                    *("output.contexts", "output.documents", "input.contexts", "input.context"),
                ),
                "response": ("output.answer", "output.response", "output.output", "output"),
            },
        ),
        Shape(
            "promptfoo",
            "promptfoo's results",
            {
                "question": ("vars.question", "vars.query", "vars.input", "vars.prompt"),
                "contexts": (
                    *("vars.context", "vars.contexts", "vars.documents"),
                    *("response.output.context", "response.output.documents"),
                    *("response.metadata.context", "response.metadata.documents"),
                ),
                "response": ("response.output.answer", "response.output.output", "response.output"),
            },
            rows="results.results[]",
        ),
        Shape(
            "bedrock",
            "Amazon Bedrock's RAG evaluation",
            {
                "question": ("prompt.content[0].text",),
                "contexts": ("output.retrievedPassages.retrievalResults[].content",),
                "response": ("output.text",),
                "context_ids": ("output.retrievedPassages.retrievalResults[].name",),
            },
            rows="conversationTurns[]",
        ),
        conversation("messages", "chat messages", "messages"),
        conversation("ragas", "RAGAS' samples of several turns", "user_input"),
        Shape(
            "sharegpt",
            "conversations in ShareGPT's form",
            messages="conversations",
            fields={
                "question": ("conversations[from=human|user][-1].value",),
                "contexts": (
                    *("contexts", "context", "documents"),
                    "conversations[from=tool|observation|function_response][].value",
                    "conversations[from=system][].value",
                ),
                "response": ("conversations[from=gpt|assistant][-1].value",),
            },
        ),
    )
}
"""Shapes by name, in the order of preference where several give the same examples."""


def described() -> Iterator[str]:
    """Yield a line for each tool of spans, for each shape, and for the paths of its fields."""
    for name in ("otel", "openinference", "phoenix", "langfuse", "langsmith"):
        yield f"{name}: spans, one row for each trace"
    for shape in SHAPES.values():
        yield f"{shape.name}: {shape.title}"
        if shape.rows:
            inside = "members are columns" if shape.rows == COLUMNS else shape.rows
            yield f"  rows        {inside}"
        for name, paths in shape.fields.items():
            yield f"  {name:<11} {', '.join(paths)}"
