"""Attributes of OpenTelemetry spans, by the conventions for RAG applications.

OpenInference (Phoenix, Arize; the instrumentations of LangChain and LlamaIndex) records
``input.value``, ``output.value`` and ``retrieval.documents.0.document.content``. The semantic
conventions for generative AI record ``gen_ai.input.messages``, ``gen_ai.output.messages`` and
``gen_ai.retrieval.documents``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trivet.data.logs.paths import parse_nested
from trivet.data.traces.spans import KINDS, Document, Kind, TraceSpan, name_or_none
from trivet.data.traces.texts import answer_in, documents_among, documents_in, question_in

_DOCUMENT = re.compile(
    r"(?:retrieval\.|reranker\.output_)documents\.([0-9]+)\.document\.(content|id)"
)


def span_of(
    trace: str,
    span: str,
    parent: str | None,
    start: float,
    ended: bool,
    attributes: Mapping[str, Any],
) -> TraceSpan:
    """Return a span with the texts of its attributes, which may be flat or nested."""
    flat = _flat(attributes)
    if "openinference.span.kind" in flat:
        kind = KINDS.get(str(flat["openinference.span.kind"]).lower(), "other")
        texts = _openinference(flat, kind)
    else:
        operation = flat.get("gen_ai.operation.name")
        kind = "chain" if operation is None else KINDS.get(str(operation).lower(), "other")
        texts = _gen_ai(flat, kind)
    question, answer, documents = texts if kind != "other" else (None, None, ())
    return TraceSpan(trace, span, parent, kind, start, ended, question, answer, documents)


_Texts = tuple[str | None, str | None, tuple[Document, ...]]


def _openinference(flat: Mapping[str, Any], kind: Kind) -> _Texts:
    documents: dict[int, dict[str, Any]] = {}
    for name, value in flat.items():
        if found := _DOCUMENT.fullmatch(name):
            documents.setdefault(int(found[1]), {})[found[2]] = value
    listed = tuple(
        Document(name_or_none(fields.get("content")), name_or_none(fields.get("id")))
        for _, fields in sorted(documents.items())
    )
    if kind in ("retriever", "reranker"):
        query = flat.get("reranker.query", flat.get("input.value"))
        return question_in(query), None, listed
    given, returned = flat.get("input.value"), flat.get("output.value")
    documents_found = documents_among(given, returned) if kind == "chain" else ()
    return question_in(given), answer_in(returned), documents_found


def _gen_ai(flat: Mapping[str, Any], kind: Kind) -> _Texts:
    if kind == "retriever":
        documents = documents_in(flat.get("gen_ai.retrieval.documents"))
        return question_in(flat.get("gen_ai.retrieval.query.text")), None, documents
    question = question_in(flat.get("gen_ai.input.messages"))
    return question, answer_in(flat.get("gen_ai.output.messages")), ()


def _flat(attributes: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return attributes under dotted names; the values of ``gen_ai`` keep their structure."""
    flat: dict[str, Any] = {}
    for name, value in attributes.items():
        path = f"{prefix}{name}"
        if path.endswith("documents") and not path.startswith("gen_ai."):
            value = parse_nested(value)
            if isinstance(value, list):
                value = {str(number): item for number, item in enumerate(value)}
        if isinstance(value, Mapping) and not path.startswith(("gen_ai.", "input.", "output.")):
            flat |= _flat(value, f"{path}.")
        else:
            flat[path] = value
    return flat
