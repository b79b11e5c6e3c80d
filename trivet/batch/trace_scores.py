"""Scores of traces in the form that the tracing tools import.

Each line is the body of one request:

========================== ===========================================================
otel                       OTLP/HTTP ``/v1/logs``: events ``gen_ai.evaluation.result``
openinference, phoenix     ``/v1/span_annotations``; scores of documents in a file of their
                           own, for ``/v1/document_annotations``
langfuse                   ``/api/public/scores``
langsmith                  ``/api/v1/feedback``
========================== ===========================================================
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from trivet.errors import DataError
from trivet.logs.log import STDIN
from trivet.logs.trace_examples import TraceExample, TraceFormat
from trivet.logs.trace_log import TraceLog
from trivet.records import Evaluation, to_json_text
from trivet.report.run_tally import SCORES
from trivet.report.verdict_files import VerdictFile
from trivet.verdict_json import quote_unsupported, read_evaluation

_Body: TypeAlias = dict[str, Any]
_SOURCE = "trivet"


class _Judged(NamedTuple):
    """A trace and its verdict."""

    trace: TraceExample
    verdict: Evaluation

    def scores(self) -> Iterator[tuple[str, float, str | None, str | None]]:
        """Yield the name of each score, its value, label and explanation."""
        for name in SCORES:
            value = getattr(self.verdict, name)
            if value is None:
                continue
            label = explanation = None
            if name == "faithfulness":
                label = "adherent" if self.verdict.adherent else "not_adherent"
                explanation = quote_unsupported(self.verdict)
            yield name, value, label, explanation

    def id_of(self, score: str) -> str:
        """Return the same id for a score of a trace in every run, so that it is replaced."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{_SOURCE}/{self.trace.trace}/{score}"))


def documents_path(out: Path) -> Path:
    """Return the file of the scores of documents, beside that of the traces."""
    return out.with_name(f"{out.stem}.documents{out.suffix}")


def write_scores(log: TraceLog, verdicts: Path, out: Path) -> list[Path]:
    """Write the scores in a verdict file for the tool that recorded the traces.

    Args:
        log: Log of the traces; a file is read again if the run did not read all of it.
        verdicts: Verdict file of the log, with all fields.
        out: File to write; scores of documents go to `documents_path`.

    Returns:
        The files that were written.

    Raises:
        DataError: The traces are on stdin and were not read, or a verdict lacks its fields.
        OSError: A file cannot be written.
    """
    traces = log.references
    if not traces and log.source != STDIN:
        again = TraceLog(log.source, log.tool)
        for _ in again.rows():
            pass
        traces = again.references
    judged = list(_judged(traces, verdicts))
    lines = [body for each in judged for body in _BODIES[log.tool](each)]
    written = {out: lines}
    if log.tool in ("openinference", "phoenix"):
        written[documents_path(out)] = [body for each in judged for body in _documents(each)]
    for path, bodies in written.items():
        path.write_text("".join(f"{to_json_text(body)}\n" for body in bodies), encoding="utf-8")
    return list(written)


def _judged(traces: Mapping[int, TraceExample], verdicts: Path) -> Iterator[_Judged]:
    for row in VerdictFile(verdicts):
        if row.verdict is None:
            continue
        if row.row not in traces:
            raise DataError(
                f"{verdicts}: row {row.row} is of no trace that was read; traces on stdin are read "
                "once: repeat the run with --restart"
            )
        yield _Judged(traces[row.row], read_evaluation(row.verdict))


def _events(judged: _Judged) -> Iterator[_Body]:
    records = []
    for name, value, label, explanation in judged.scores():
        texts = {
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.label": label,
            "gen_ai.evaluation.explanation": explanation,
        }
        attributes: list[_Body] = [
            {"key": key, "value": {"stringValue": text}}
            for key, text in texts.items()
            if text is not None
        ]
        attributes.append({"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": value}})
        records.append(
            {
                "timeUnixNano": str(int(judged.trace.start * 1e9)),
                "eventName": "gen_ai.evaluation.result",
                "severityNumber": 9,
                "traceId": judged.trace.trace,
                "spanId": judged.trace.span,
                "attributes": attributes,
            }
        )
    service = {"key": "service.name", "value": {"stringValue": _SOURCE}}
    logs = [{"scope": {"name": _SOURCE}, "logRecords": records}]
    yield {"resourceLogs": [{"resource": {"attributes": [service]}, "scopeLogs": logs}]}


def _annotations(judged: _Judged) -> Iterator[_Body]:
    data = [
        _annotation(judged.trace.span, name, value, label, explanation)
        for name, value, label, explanation in judged.scores()
    ]
    yield {"data": data}


def _documents(judged: _Judged) -> Iterator[_Body]:
    data = [
        _annotation(span, name, value) | {"document_position": position}
        for (span, position), context in zip(
            judged.trace.places, judged.verdict.contexts, strict=True
        )
        for name in ("relevance", "utilization")
        if (value := getattr(context, name)) is not None
    ]
    if data:
        yield {"data": data}


def _annotation(
    span: str, name: str, score: float, label: str | None = None, explanation: str | None = None
) -> _Body:
    result = {"score": score, "label": label, "explanation": explanation}
    return {
        "span_id": span,
        "name": name,
        "annotator_kind": "CODE",
        "identifier": _SOURCE,  # a second import replaces the first
        "result": {name: value for name, value in result.items() if value is not None},
    }


def _langfuse(judged: _Judged) -> Iterator[_Body]:
    for name, value, _, explanation in judged.scores():
        body = {
            "id": judged.id_of(name),
            "traceId": judged.trace.trace,
            "name": name,
            "value": value,
            "dataType": "NUMERIC",
        }
        if explanation is not None:
            body["comment"] = explanation
        if judged.trace.start:  # a second import with the same id and time replaces the first
            moment = datetime.datetime.fromtimestamp(judged.trace.start, datetime.UTC)
            body["timestamp"] = moment.isoformat()
        yield body


def _langsmith(judged: _Judged) -> Iterator[_Body]:
    for name, value, label, explanation in judged.scores():
        body: _Body = {
            "id": judged.id_of(name),
            "run_id": judged.trace.span,
            "trace_id": judged.trace.trace,
            "key": name,
            "score": value,
            "feedback_source": {"type": "model", "metadata": {"name": _SOURCE}},
        }
        texts = {"value": label, "comment": explanation}
        yield body | {key: text for key, text in texts.items() if text is not None}


_BODIES: Mapping[TraceFormat, Callable[[_Judged], Iterator[_Body]]] = {
    "otel": _events,
    "openinference": _annotations,
    "phoenix": _annotations,
    "langfuse": _langfuse,
    "langsmith": _langsmith,
}
