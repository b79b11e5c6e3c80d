"""Exported spans of every tool as examples, and what cannot be read."""

from __future__ import annotations

import datetime
import io
import json
import logging
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trivet.errors import DataError
from trivet.logs.column_mapping import Columns, LogRow
from trivet.logs.log import Log
from trivet.logs.recognition import read_rows
from trivet.logs.trace_examples import TraceFormat
from trivet.logs.trace_log import TraceLog, open_log
from trivet.records import FailedEvaluation, RagExample

HERE = Path(__file__).parent / "traces"
# Question, answer and documents of the applications that were recorded.
QUESTION = "When was the lighthouse at Cape Orna built?"
ANSWER = "It was built in 1871. A keeper called Jonas lives there."
DOCUMENTS = {
    "lighthouse": "The lighthouse at Cape Orna was built in 1871. It has had no keeper since 1931.",
    "ferry": "The ferry to Cape Orna leaves at nine on weekdays.",
}
EXPORTS: list[tuple[TraceFormat, str]] = [
    ("otel", "langchain.otlp.jsonl"),
    ("openinference", "llama_index.otlp.jsonl"),
    ("langfuse", "langfuse.jsonl"),
    ("langsmith", "langsmith.jsonl"),
]


def read(log: Log) -> list[LogRow]:
    return list(read_rows(log.rows(), Columns()))


def records(name: str) -> list[Any]:
    text = (HERE / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def phoenix_spans() -> list[dict[str, Any]]:
    """Return the spans of the LangChain recording as Phoenix's API returns them."""
    (batch,) = records("langchain.otlp.jsonl")
    spans = []
    for span in batch["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        attributes = {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
        kind = attributes.pop("openinference.span.kind")
        context = {"trace_id": span["traceId"], "span_id": span["spanId"]}
        moment = f"2026-11-20T10:00:00.{int(span['startTimeUnixNano']) // 1000 % 10**6:06}+00:00"
        spans.append(
            {
                "name": span["name"],
                "context": context,
                "span_kind": kind,
                "parent_id": span.get("parentSpanId"),
                "start_time": moment,
                "end_time": moment,
                "attributes": attributes,
            }
        )
    return spans


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def lines(rows: list[Any], name: str = "spans.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return path

    return lines


def example_of(rows: list[LogRow]) -> RagExample:
    (row,) = rows
    assert isinstance(row.example, RagExample), row.example
    return row.example


@pytest.mark.parametrize(("tool", "name"), EXPORTS, ids=[name for _, name in EXPORTS])
def test_an_export_is_the_question_the_documents_and_the_answer(
    tool: TraceFormat, name: str
) -> None:
    rows = read(TraceLog(str(HERE / name), tool))
    example = example_of(rows)
    assert example.question == QUESTION
    assert example.contexts == tuple(DOCUMENTS.values())
    assert example.response == ANSWER
    assert rows[0].location == f"trace {example.id}"
    assert rows[0].metadata.keys() == {"span_id"}
    if tool != "otel":  # LangChain's instrumentation records no names of documents
        assert rows[0].context_ids == tuple(DOCUMENTS)


@pytest.mark.parametrize(("tool", "name"), EXPORTS, ids=[name for _, name in EXPORTS])
def test_an_export_is_recognised_and_said(
    tool: TraceFormat, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    content = (HERE / name).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    for source in (str(HERE / name), "-"):
        assert read(open_log(source)) == read(TraceLog(str(HERE / name), tool))
    tool = "otel" if tool == "openinference" else tool
    assert caplog.messages == [f"read as spans (--format {tool}): one row for each trace"] * 2


def test_rows_with_the_plain_fields_or_a_mapping_are_no_spans(write: Write) -> None:
    row = {"trace_id": "t", "type": "chat", "question": "q", "contexts": ["c"], "response": "r"}
    assert example_of(read(open_log(str(write([row]))))).contexts == ("c",)
    runs = str(HERE / "langsmith.jsonl")
    assert len(list(open_log(runs, is_mapped=True).rows())) == len(records("langsmith.jsonl"))


def test_a_span_of_a_model_may_have_its_messages_alone(write: Write) -> None:
    """OpenInference: attributes ``llm.output_messages``, flat or nested, without a value."""
    for nested in (True, False):
        spans = phoenix_spans()
        for span in spans:
            attributes = span["attributes"]
            question = attributes.pop("input.value", "")
            attributes.pop("output.value", "")
            if span["span_kind"] == "RETRIEVER":
                attributes["input.value"] = question
            elif span["span_kind"] == "LLM":
                for name in [name for name in attributes if name.startswith("llm.")]:
                    del attributes[name]
                message = {"role": "assistant", "content": ANSWER}
                listed = {f"message.{name}": text for name, text in message.items()}
                if nested:
                    attributes["llm"] = {"output_messages": [{"message": message}]}
                else:
                    prefix = "llm.output_messages.0"
                    attributes |= {f"{prefix}.{name}": text for name, text in listed.items()}
        example = example_of(read(open_log(str(write(spans)))))
        assert example.response == ANSWER and example.contexts == tuple(DOCUMENTS.values())


def phoenix_table() -> list[dict[str, Any]]:
    """Return the same spans as rows of Phoenix's table."""
    documents = [{"document.content": text, "document.id": n} for n, text in DOCUMENTS.items()]
    rows = []
    for span in phoenix_spans():
        row: dict[str, Any] = {f"context.{name}": value for name, value in span["context"].items()}
        row |= {name: span[name] for name in ("parent_id", "span_kind", "start_time", "end_time")}
        for name, value in span["attributes"].items():
            if not name.startswith("retrieval."):
                row[f"attributes.{name}"] = value
        if span["span_kind"] == "RETRIEVER":
            row["attributes.retrieval.documents"] = documents
        rows.append(row)
    return rows


def test_phoenix_returns_spans_answers_and_tables(write: Write) -> None:
    spans = phoenix_spans()
    for exported in (spans, [{"data": spans, "next_cursor": None}], phoenix_table()):
        example = example_of(read(open_log(str(write(exported)))))
        assert (example.question, example.response) == (QUESTION, ANSWER)
        assert example.contexts == tuple(DOCUMENTS.values())


@pytest.mark.parametrize("tool", ["langsmith", "phoenix"])
def test_tables_in_parquet_are_read(tmp_path: Path, tool: TraceFormat) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    if tool == "langsmith":  # the bulk export holds inputs and outputs as JSON
        rows = records("langsmith.jsonl")
        nested = ("inputs", "outputs")
        rows = [{n: json.dumps(v) if n in nested else v for n, v in r.items()} for r in rows]
        for row in rows:
            row["end_time"] = datetime.datetime.fromisoformat(row["end_time"])
    else:
        rows = phoenix_table()
    path = tmp_path / "spans.parquet"
    columns = {name: [row.get(name) for row in rows] for row in rows for name in row}
    parquet.write_table(pyarrow.table(columns), path)
    example = example_of(read(open_log(str(path))))
    assert (example.question, example.response) == (QUESTION, ANSWER)
    assert example.contexts == tuple(DOCUMENTS.values())


def test_langfuse_names_fields_by_either_rule_and_downloads_whole_traces(write: Write) -> None:
    rows = records("langfuse.jsonl")
    renamed = {"trace_id": "traceId", "parent_observation_id": "parentObservationId"}
    renamed |= {"start_time": "startTime", "end_time": "endTime"}
    of_api = [{renamed.get(name, name): value for name, value in row.items()} for row in rows]
    whole = {"trace": {"id": rows[0]["trace_id"], "observations": of_api}}
    beside = {"trace": {"id": rows[0]["trace_id"], "input": "?"}, "observations": of_api}
    for exported in (of_api, [{"data": of_api, "meta": {}}], [whole], [beside]):
        assert example_of(read(open_log(str(write(exported))))).response == ANSWER


def test_the_order_of_spans_and_traces_among_each_other_changes_nothing(write: Write) -> None:
    spans = records("langsmith.jsonl")
    others = [{name: _renamed(value) for name, value in span.items()} for span in spans]
    ordered = read(TraceLog(str(write([*spans, *others])), "langsmith"))
    mixed = [*spans[1:], *others]
    random.Random(7).shuffle(mixed)
    shuffled = read(TraceLog(str(write([spans[0], *mixed])), "langsmith"))
    assert [row.example for row in shuffled] == [row.example for row in ordered]
    assert len(ordered) == 2


def _renamed(value: Any) -> Any:
    """Return an id of another trace."""
    return f"x{value}" if isinstance(value, str) and value.startswith("01a2") else value


def test_a_record_of_another_format_is_named_with_what_it_holds(write: Write) -> None:
    path = write(records("langsmith.jsonl")[:2])
    with pytest.raises(DataError) as refused:
        read(TraceLog(str(path), "otel"))
    message = str(refused.value)
    assert "holds no span of the format otel (found id, trace_id, parent_run_id" in message
    assert "langsmith" in message


def test_a_damaged_line_fails_alone(write: Write) -> None:
    path = write(records("langfuse.jsonl"))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"id": "half')
    damaged, row = read(TraceLog(str(path), "langfuse"))
    assert isinstance(damaged.example, FailedEvaluation)
    assert (damaged.example.code, damaged.number, row.number) == ("malformed_line", 1, 2)
    assert isinstance(row.example, RagExample)


@pytest.mark.parametrize(
    "record",
    [
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a"}]}]}]},
        {"resourceSpans": 3},
        {"data": [1]},
        {"context": None},
        {},
    ],
    ids=str,
)
def test_a_damaged_record_is_no_crash(write: Write, record: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="holds no span of the format otel"):
        read(TraceLog(str(write([record])), "otel"))
