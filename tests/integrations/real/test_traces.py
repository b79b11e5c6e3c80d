"""Spans of the real instrumentations, sent as a collector gets them; run where these are."""

from __future__ import annotations

import base64
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.rag_applications import (
    ANSWER,
    DOCUMENTS,
    QUESTION,
    langchain_chain,
    llama_index_engine,
)
from trivet.data.traces.trace_log import TraceLog
from trivet.errors import ExampleError

IDS = ("traceId", "spanId", "parentSpanId")
pytestmark = pytest.mark.filterwarnings("default")  # other makers' warnings


def run(application: str) -> None:
    if application == "langchain":
        langchain_chain().invoke(QUESTION)
    else:
        llama_index_engine().query(QUESTION)


def with_hex_ids(value: Any) -> Any:
    """Return JSON of protobuf with the ids of OTLP's JSON."""
    if isinstance(value, dict):
        return {
            name: base64.b64decode(each).hex() if name in IDS else with_hex_ids(each)
            for name, each in value.items()
        }
    return [with_hex_ids(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("application", "instrumentor"),
    [("langchain", "LangChainInstrumentor"), ("llama_index", "LlamaIndexInstrumentor")],
)
def test_an_instrumented_application_is_read(
    tmp_path: Path, application: str, instrumentor: str
) -> None:
    pytest.importorskip("langchain_core" if application == "langchain" else "llama_index.core")
    name = f"openinference.instrumentation.{application}"
    pytest.importorskip(name)
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrument = getattr(importlib.import_module(name), instrumentor)()
    instrument.instrument(tracer_provider=provider)
    try:
        run(application)
    finally:
        instrument.uninstrument()
    spans = exporter.get_finished_spans()
    batch, printed = tmp_path / "batch.jsonl", tmp_path / "printed.jsonl"
    batch.write_text(json.dumps(with_hex_ids(MessageToDict(encoder.encode_spans(spans)))))
    printed.write_text("".join(f"{json.dumps(json.loads(s.to_json()))}\n" for s in spans))
    for path in (batch, printed):
        (row,) = TraceLog(str(path), "openinference").rows()
        assert not isinstance(row.fields, ExampleError), row.fields
        read = dict(row.fields)
        assert (read["question"], read["response"]) == (QUESTION, ANSWER)
        assert [each["text"] for each in read["contexts"]] == list(DOCUMENTS.values())
