"""Verdict files as rows, with the texts of the log and the record of the run.

Texts are in the verdicts (``--texts``) or in the evaluated log, which is read in parallel. A line
that is not a verdict becomes a failed row.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trivet.errors import DataError, ExampleError
from trivet.logs.column_mapping import Columns, LogRow
from trivet.logs.json_rows import Fields, parse_plain_line
from trivet.logs.log import STDIN, Log, SourceRow
from trivet.logs.recognition import read_rows
from trivet.logs.trace_log import open_log
from trivet.measures.figures import ErrorRates
from trivet.records import Evaluation, FailedEvaluation, RagExample
from trivet.report.run_record import RunRecord, read_record, record_path
from trivet.verdict_json import SCORES

logger = logging.getLogger(__name__)

_NO_TEXTS = frozenset(Evaluation.__dataclass_fields__) - {"id"} | {"row", "context_ids"}
_METADATA_COLUMN = "metadata."  # prefix of metadata columns in Parquet


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """A row with its verdict or its error, and with its texts if they are available."""

    row: int  # number in the input, from 1
    id: str | None = None
    question: str | None = None
    contexts: tuple[str, ...] | None = None
    response: str | None = None
    verdict: Mapping[str, Any] | None = None  # `Evaluation.to_dict()`, perhaps with fewer fields
    error: FailedEvaluation | None = None  # reason for a missing verdict
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    context_ids: tuple[str | None, ...] = ()


class VerdictFile:
    """Rows of a verdict file, JSON lines or Parquet; each iteration reads the file again."""

    def __init__(self, path: Path, log: str | None = None) -> None:
        """Find the file and the log with the texts, by default that of the run's record.

        Raises:
            DataError: The verdict file or the given log does not exist.
        """
        if not path.is_file():
            raise DataError(f"no such file: {path}")
        self.path = path
        self.run, self.remarks = _read_run(path)
        self._log_given = log is not None
        recorded = self.run.input["path"] if self.run else STDIN
        if log is None and recorded != STDIN and Path(recorded).exists():
            log = recorded
        self._log = log
        if log is not None:
            Log(log)  # refuses a missing file before any row is read

    @property
    def about(self) -> dict[str, str]:
        """Facts about the run, for a table."""
        about = {"verdicts": self.path.name}
        if (run := self.run) is None:
            return about
        source, bundle = run.input["path"], run.bundle
        return about | {
            "input": "stdin" if source == STDIN else Path(source).name,
            "bundle": f"{bundle['name']}, manifest {bundle['manifest_sha256'][:12]}",
            "thresholds": _list(bundle["thresholds"] or {}),
            "backend": ", ".join(value for value in run.backend.values() if value is not None),
            "settings": _list(run.settings) or "defaults",
            "started": f"{run.started}, by trivet {run.trivet}",
        }

    @property
    def errors(self) -> list[ErrorRates]:
        """Errors of the judge on labelled answers."""
        stored = [] if self.run is None else self.run.bundle["errors"]
        return [ErrorRates(**rates) for rates in stored]

    def __iter__(self) -> Iterator[VerdictRow]:
        """Yield the rows, lazily and in order.

        Raises:
            DataError: The file has no verdicts or is truncated, or the given log is unreadable.
        """
        log_rows = self._log_rows()
        current = next(log_rows, None)
        # Verdicts are our own output: no check for repeated keys.
        verdicts = Log(str(self.path), parse=parse_plain_line)
        for number, source in enumerate(verdicts.rows(), start=1):
            row = _read(source, first=number == 1, path=self.path)
            if row.response is None and row.contexts is None:
                while current is not None and current.number < row.row:
                    current = next(log_rows, None)
                example = None if current is None else current.example
                if current and current.number == row.row and isinstance(example, RagExample):
                    row = replace(
                        row,
                        question=example.question,
                        contexts=example.contexts,
                        response=example.response,
                        context_ids=row.context_ids or current.context_ids or (),
                    )
            yield row

    def _log_rows(self) -> Iterator[LogRow]:
        if self._log is None:
            return
        settings = {} if self.run is None else self.run.settings
        mapping, form, turns = map(settings.get, ("mapping", "format", "turns"))
        columns = Columns(mapping, (), format=form, turns=turns or "last")
        try:
            log = open_log(self._log, form, settings.get("encoding"), is_mapped=bool(mapping))
            yield from read_rows(log.rows(), columns)
        except DataError as error:
            if self._log_given:
                raise
            logger.warning("%s: %s; the report shows fewer texts", self._log, error)


def _read(source: SourceRow, *, first: bool, path: Path) -> VerdictRow:
    if isinstance(source.fields, ExampleError):
        problem = f"{source.location} of the verdicts: {source.fields}"
        return VerdictRow(source.number, error=FailedEvaluation(None, source.fields.code, problem))
    record = _unflattened(source.fields)
    number, name, error = record.get("row"), record.get("id"), record.get("error")
    row = number if isinstance(number, int) and number > 0 else source.number
    id_ = None if name is None else str(name)
    metadata = _metadata(record)
    if isinstance(error, Mapping):
        failed = FailedEvaluation(id_, str(error.get("code")), str(error.get("message")))
        return VerdictRow(row, id_, error=failed, metadata=metadata)
    if not any(name in record for name in (*SCORES, "adherent")):
        problem = (
            f"{source.location} holds no score (found {', '.join(record) or 'nothing'}); "
            "`trivet evaluate` writes verdicts"
        )
        if first:
            raise DataError(f"{path}: {problem}")
        return VerdictRow(row, id_, error=FailedEvaluation(id_, "no_verdict", problem))
    texts, ids = _part(record, "texts"), record.get("context_ids")
    ids = ids if isinstance(ids, list) else []
    question, contexts, response = map(texts.get, ("question", "contexts", "response"))
    return VerdictRow(
        row=row,
        id=id_,
        question=question if isinstance(question, str) else None,
        contexts=tuple(map(str, contexts)) if isinstance(contexts, list) else None,
        response=response if isinstance(response, str) else None,
        verdict=record,
        metadata=metadata,
        context_ids=tuple(None if i is None else str(i) for i in ids),
    )


def _unflattened(fields: Fields) -> dict[str, Any]:
    """Return a record from its fields, whose lists and numbers are text in CSV and spreadsheets."""
    record: dict[str, Any] = {}
    for name, value in fields:
        group, _, member = name.partition(".")
        if isinstance(value, str) and (name in _NO_TEXTS or name == "texts.contexts"):
            value = _json(value)
        if member and group in ("error", "texts") and value not in (None, ""):
            record.setdefault(group, {})[member] = value
        elif value != "" or name not in _NO_TEXTS:
            record[name] = value
    return record


def _json(cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _metadata(record: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    columns = dict(_part(record, "metadata"))
    for name, value in record.items():
        if name.startswith(_METADATA_COLUMN):
            columns[name.removeprefix(_METADATA_COLUMN)] = value
    return {name: value for name, value in columns.items() if isinstance(value, str | int | float)}


def _read_run(verdicts: Path) -> tuple[RunRecord | None, list[str]]:
    """Return the record of a run, if it can be read, and what a reader needs before any figure."""
    name, remarks = record_path(verdicts).name, []
    try:
        run = read_record(verdicts)
    except DataError:
        return None, [f"{name} cannot be read: bundle and settings are unknown."]
    if run is None:
        return None, [f"There is no {name}: bundle and settings are unknown."]
    if not run.finished:
        remarks.append("The run is not finished: all figures cover the rows evaluated so far.")
    if run.changed:
        remarks.append(f"The run was resumed after changes: {'; '.join(run.changed)}.")
    return run, remarks


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    return part if isinstance(part, Mapping) else {}


def _list(values: Mapping[str, Any]) -> str:
    """Return the values that differ from empty defaults, as one line."""
    chosen = {name: value for name, value in values.items() if value not in (None, False, {}, [])}
    for name, value in chosen.items():
        if not isinstance(value, str):
            plain = json.dumps(value, ensure_ascii=False)
            chosen[name] = f"{value:.3f}" if isinstance(value, float) else plain
    return ", ".join(f"{name} {value}" for name, value in chosen.items())
