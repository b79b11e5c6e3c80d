"""Reading of verdicts from plain dictionaries, as they come from files and networks.

Every field is checked by its type in the record: a ``float`` is a probability, an ``int`` a count.
Another value, or a span that does not fit its text, is an error that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, partial
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from trivet.errors import DataError, served_error
from trivet.interface import Result, SentenceEvent
from trivet.records import CitationMark, Evaluation, FailedEvaluation, SentenceVerdict

SCORES = ("faithfulness", "relevance", "utilization", "completeness")
Record = TypeVar("Record", bound=Hashable)
_Reader = Callable[[Any, str], Any]  # of a value that is not null; a refusal names its field
_SHOWN_SPANS = 5
_LONGEST = 10_000_000  # characters; longer texts of a verdict are refused


def read_scores(verdict: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the four scores; a missing field is ``None``.

    Raises:
        DataError: One is neither a probability nor null.
    """
    values = ((name, verdict.get(name)) for name in SCORES)
    return {name: None if value is None else _probability(value, name) for name, value in values}


def read_evaluation(verdict: Mapping[str, Any]) -> Evaluation:
    """Read a verdict from its dictionary; missing fields are empty.

    Raises:
        DataError: A field is not what `Evaluation` says; the message names it.
    """
    return _record(Evaluation, verdict)


def quote_unsupported(verdict: Evaluation) -> str:
    """Quote the first unsupported spans, as an explanation of the scores."""
    if not verdict.unsupported:
        return "nothing unsupported was found"
    return "unsupported: " + ", ".join(repr(s.text) for s in verdict.unsupported[:_SHOWN_SPANS])


def read_event(record: Mapping[str, Any]) -> SentenceEvent:
    """Read an event on a sentence from its dictionary.

    Raises:
        DataError: A field is not what `SentenceEvent` says; the message names it.
    """
    return _record(SentenceEvent, record)


def read_answer(text: str) -> Evaluation:
    """Read a server's answer to one example.

    Raises:
        DataError: It is not a verdict.
        ValueError: It is not JSON.
    """
    return _served(json.loads(text))


def read_answers(text: str, ids: Sequence[str | None]) -> list[Result]:
    """Read a server's answer to several examples; errors as of `read_answer`."""
    record = json.loads(text)
    results = record.get("results") if isinstance(record, dict) else None
    if not isinstance(results, list) or len(results) != len(ids):
        raise DataError(f"not a list of {len(ids)} results")
    return [_result(result, name) for result, name in zip(results, ids, strict=True)]


def _result(record: Any, name: str | None) -> Result:
    if isinstance(record, dict) and isinstance(error := record.get("error"), dict):
        return FailedEvaluation(name, str(error.get("code")), str(error.get("message")))
    return _served(record)


def _served(record: Any) -> Evaluation:
    if not isinstance(record, dict):
        raise DataError(f"not a JSON object: {repr(record)[:60]}")
    if missing := [name for name in (*SCORES, "windows") if name not in record]:
        raise DataError(f"the answer has no {', '.join(missing)}")
    return read_evaluation(record)


def read_events(text: str) -> list[SentenceEvent]:
    """Read a server's events on the sentences of an answer.

    Raises:
        BackendError: The server's backend failed after the first event.
        ServerError: The server failed after it.
        DataError: The events are incomplete or wrong.
    """
    sentences = []
    for event in text.split("\n\n"):
        kind, _, data = event.partition("\ndata: ")
        if kind == "event: sentence":
            sentences.append(read_event(json.loads(data)))
        elif kind == "event: error":
            raise served_error(data)
        elif kind == "event: end":
            return sentences
    raise DataError("the events break off")


def _record(kind: type[Record], record: Mapping[str, Any]) -> Record:
    values: dict[str, Any] = {}
    for name, read, empty in _fields(kind):
        value = record.get(name)
        if value is not None:
            values[name] = read(value, name)
        elif empty is MISSING:
            raise DataError(f"{name} is missing")
        else:
            values[name] = empty
    if kind is SentenceVerdict:  # null: a sentence without a claim
        for name in ("support", "supported"):
            if name not in record:
                raise DataError(f"{name} is missing")
    if "text" in values:
        start, end, length = values["start"], values["end"], len(values["text"])
        if end - start != length:
            raise DataError(
                f"a span from {start} to {end} must hold a text of {end - start} characters"
            )
        if end > _LONGEST:
            raise DataError(f"a span ends at character {end}; no text is that long")
    return kind(**values)


@cache
def _fields(kind: Any) -> list[tuple[str, _Reader, Any]]:
    """Return name, reader and empty value of each field; without the latter it must be there."""
    hints, readers = get_type_hints(kind), []
    for field in fields(kind):
        hint, optional = hints[field.name], NoneType in get_args(hints[field.name])
        hint = get_args(hint)[0] if optional else hint
        base, parts = get_origin(hint) or hint, get_args(hint)
        empty = None if optional else {int: 0, bool: False, tuple: ()}.get(base, field.default)
        read: _Reader = _SCALARS.get(base) or partial(_object, base)
        if base is tuple:
            read = partial(_list, parts[0])
        elif base is Literal:
            read = partial(_literal, parts)
        elif base is str and optional:
            read = _name
        elif (kind, field.name) == (CitationMark, "context"):
            read, empty = _whole, MISSING  # negative: of no context
        readers.append((field.name, read, empty))
    return readers


def _list(kind: type[Record], value: Any, name: str) -> tuple[Record, ...]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise DataError(f"{name} must be a list")
    return tuple(_object(kind, part, f"{name}[{number}]") for number, part in enumerate(value))


def _object(kind: type[Record], value: Any, name: str) -> Record:
    if not isinstance(value, Mapping):
        raise DataError(f"{name} must be an object")
    try:
        return _record(kind, value)
    except ValueError as error:
        raise DataError(f"{name}: {error}") from error


def _literal(known: Sequence[str], value: Any, name: str) -> Any:
    return value if value in known else _refuse(value, name, f"none of {', '.join(known)}")


def _probability(value: Any, name: str) -> float:
    fits = isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if fits else _refuse(value, name, "not a number from 0 to 1")


def _whole(value: Any, name: str) -> Any:
    fits = isinstance(value, int) and not isinstance(value, bool)
    return value if fits else _refuse(value, name, "not a whole number")


def _count(value: Any, name: str) -> Any:
    return value if _whole(value, name) >= 0 else _refuse(value, name, "not a whole number from 0")


def _truth(value: Any, name: str) -> bool:
    return value if isinstance(value, bool) else _refuse(value, name, "neither true nor false")


def _name(value: Any, _: str) -> str:
    return str(value)


def _text(value: Any, name: str) -> str:
    return value if isinstance(value, str) else _refuse(value, name, "not a text")


def _refuse(value: Any, name: str, reason: str) -> NoReturn:
    raise DataError(f"{name} is {repr(value)[:60]}, which is {reason}")


_SCALARS: dict[Any, _Reader] = {float: _probability, int: _count, bool: _truth, str: _text}
