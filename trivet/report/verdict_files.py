"""Verdict files as rows for the pages, with their texts where these can be found.

Texts stand in the verdicts (``--texts``), or else in the log that was judged, which is read along,
row by row. A line that is no verdict becomes a row that failed; nothing is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from trivet.data.logs.column_mapping import Columns, LogRow, read_rows
from trivet.data.logs.json_objects import parse_plain_line
from trivet.data.logs.log import Format, Log, SourceRow
from trivet.records import DataError, ExampleError, FailedEvaluation, RagExample
from trivet.report.run_facts import RunFacts, read_run_facts
from trivet.report.verdict_row import VerdictRow
from trivet.verdict_json import SCORES

logger = logging.getLogger(__name__)

_VERDICT = (*SCORES, "adherent")
_COLUMN = "metadata."  # where a Parquet file keeps a column of the metadata


class VerdictFile:
    """The rows of a verdict file; it is read anew each time it is iterated over.

    Attributes:
        path: JSON lines or Parquet, plain or compressed.
        facts: What is known of the run that wrote it.
    """

    def __init__(self, path: Path, log: str | None = None) -> None:
        """Find the file, and the log that it judged.

        Args:
            path: The verdicts.
            log: Where the texts are; without it, the log that the run's record names, if it is
                still there.

        Raises:
            DataError: There is no such file.
        """
        if not path.is_file():
            raise DataError(f"no such file: {path}")
        self.path = path
        self.facts: RunFacts = read_run_facts(path)
        self._given = log is not None
        named = self.facts.input
        self._log = log if log is not None or named is None or not Path(named).exists() else named
        if self._log is not None:
            Log(self._log)  # a wrong --data is told before anything is read

    def __iter__(self) -> Iterator[VerdictRow]:
        """Yield the rows, lazily and in order.

        Raises:
            DataError: The file holds no verdicts, or breaks off; or the log that was given does.
        """
        texts = _Texts(self._texts())
        verdicts = Log(str(self.path), parse=parse_plain_line)  # no name twice: we wrote them
        for number, source in enumerate(verdicts.rows(), start=1):
            row = _read(source, first=number == 1, path=self.path)
            if row.response is None and row.contexts is None:
                row = texts.beside(row)
            yield row

    def _texts(self) -> Iterator[LogRow]:
        if self._log is None:
            return
        form = self.facts.format if self.facts.format in get_args(Format) else None
        columns = Columns(self.facts.mapping or None, (), "replace")
        try:
            yield from read_rows(Log(self._log, cast(Format | None, form)).rows(), columns)
        except DataError as error:
            if self._given:
                raise
            logger.warning("%s: %s; the report shows fewer texts", self._log, error)


class _Texts:
    """The rows of the log, read as far as the verdicts have come."""

    def __init__(self, rows: Iterator[LogRow]) -> None:
        self._rows = rows
        self._current = next(rows, None)

    def beside(self, row: VerdictRow) -> VerdictRow:
        """Return a row with the texts that stand in the log under its number."""
        while self._current is not None and self._current.number < row.row:
            self._current = next(self._rows, None)
        found = self._current
        if found is None or found.number != row.row or not isinstance(found.example, RagExample):
            return row
        example = found.example
        return VerdictRow(
            row=row.row,
            id=row.id,
            question=example.question,
            contexts=example.contexts,
            response=example.response,
            verdict=row.verdict,
            error=row.error,
            metadata=row.metadata,
            context_ids=row.context_ids or found.context_ids or (),
        )


def _read(source: SourceRow, *, first: bool, path: Path) -> VerdictRow:
    if isinstance(source.fields, ExampleError):
        problem = f"{source.place} of the verdicts: {source.fields}"
        return VerdictRow(source.number, error=FailedEvaluation(None, source.fields.code, problem))
    record = dict(source.fields)
    number = record.get("row")
    row = number if isinstance(number, int) and number > 0 else source.number
    name = record.get("id")
    id_ = None if name is None else str(name)
    metadata = _metadata(record)
    error = record.get("error")
    if isinstance(error, Mapping):
        failed = FailedEvaluation(id_, str(error.get("code")), str(error.get("message")))
        return VerdictRow(row, id_, error=failed, metadata=metadata)
    if not any(name in record for name in _VERDICT):
        problem = (
            f"{source.place} holds no score (found {', '.join(record) or 'nothing'}); "
            "`trivet evaluate` writes verdicts"
        )
        if first:
            raise DataError(f"{path}: {problem}")
        return VerdictRow(row, id_, error=FailedEvaluation(id_, "no_verdict", problem))
    question, contexts, response = _own_texts(record.get("texts"))
    ids = record.get("context_ids")
    return VerdictRow(
        row=row,
        id=id_,
        question=question,
        contexts=contexts,
        response=response,
        verdict=record,
        metadata=metadata,
        context_ids=tuple(None if i is None else str(i) for i in ids)
        if isinstance(ids, list)
        else (),
    )


def _metadata(record: Mapping[str, Any]) -> dict[str, str | int | float | bool]:
    own = record.get("metadata")
    columns = dict(own) if isinstance(own, Mapping) else {}
    for name, value in record.items():
        if name.startswith(_COLUMN):
            columns[name.removeprefix(_COLUMN)] = value
    return {name: value for name, value in columns.items() if isinstance(value, str | int | float)}


def _own_texts(texts: Any) -> tuple[str | None, tuple[str, ...] | None, str | None]:
    if not isinstance(texts, Mapping):
        return None, None, None
    question, contexts, response = (texts.get(n) for n in ("question", "contexts", "response"))
    return (
        question if isinstance(question, str) else None,
        tuple(map(str, contexts)) if isinstance(contexts, list) else None,
        response if isinstance(response, str) else None,
    )
