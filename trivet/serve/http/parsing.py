"""From bytes to a typed body, or to a refusal that names the field and repeats nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from trivet.serve.http.errors import RequestError

T = TypeVar("T")

_SHOWN_FAULTS, _SHOWN_NAMES, _SHOWN_LETTERS = 5, 5, 40


class Body(BaseModel):
    """A part of a request: exact types, no unknown keys, no NaN, one name for one field."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, data: Any) -> Any:
        """Refuse unknown keys together: one fault for each would fill the memory."""
        if not isinstance(data, dict):
            return data
        known = _fields_of(cls)
        unknown = [name for name in data if name not in known]
        if unknown:
            raise PydanticCustomError(
                "unknown_keys",
                "unknown: {unknown}; known: {known}",
                {"unknown": _listed(unknown), "known": ", ".join(known)},
            )
        seen: dict[str, str] = {}
        for name in data:
            other = seen.setdefault(known[name], name)
            if other != name:
                raise PydanticCustomError(
                    "ambiguous",
                    "{one} and {other} mean the same; keep one",
                    {"one": other, "other": name},
                )
        return data


@functools.cache
def _fields_of(model: type[Body]) -> dict[str, str]:
    """Return every name under which a field may come, and the field."""
    names: dict[str, str] = {}
    for field, about in model.model_fields.items():
        aliases = about.validation_alias
        choices = aliases.choices if isinstance(aliases, AliasChoices) else [field]
        names |= {str(name): field for name in choices}
    return names


def named(names: Iterable[str], said: str) -> Any:
    """Return a field that may come under any of ``names``, the first of which is ours."""
    ours, *others = names
    also = f" Also read as {', '.join(others)}." if others else ""
    return Field(validation_alias=AliasChoices(ours, *others), description=said + also)


def parser(body: TypeAdapter[T] | type[T]) -> Callable[[bytes], T]:
    """Return what reads bodies of one type; arguments and errors as in ``parse``."""
    adapter = body if isinstance(body, TypeAdapter) else TypeAdapter(body)
    return functools.partial(parse, adapter)


def parse(body: TypeAdapter[T], raw: bytes) -> T:
    """Read a request's body.

    Args:
        body: What it must be.
        raw: As it came.

    Raises:
        RequestError: It is something else: ``invalid_json``, ``invalid_unicode`` (lone surrogates,
            bytes that are no UTF-8) or ``validation``.
    """
    try:
        return body.validate_json(raw)
    except ValidationError as error:
        raise _refusal(error) from None


def _refusal(error: ValidationError) -> RequestError:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    if faults[0]["type"] == "json_invalid":
        # Says at which character, and never what stands there.
        said = faults[0]["msg"]
        unicode = "unicode" in said or "hex escape" in said
        return RequestError("invalid_unicode" if unicode else "invalid_json", said)
    shown = [_fault(fault) for fault in faults[:_SHOWN_FAULTS]]
    if len(faults) > len(shown):
        shown.append(f"and {len(faults) - len(shown)} more")
    return RequestError("validation", "; ".join(shown))


def _fault(fault: ErrorDetails) -> str:
    """Return where a fault is and what it is, without the value."""
    place = ""
    for part in fault["loc"]:
        # The tags of a union stand in parentheses: they are no fields.
        if isinstance(part, int) or not part.startswith("("):
            place += f"[{part}]" if isinstance(part, int) else f".{part}"
    return f"{place.removeprefix('.') or 'body'}: {fault['msg']}"


def _listed(names: list[str]) -> str:
    """Name unknown keys; there may be many, and long ones."""
    shown = [name[:_SHOWN_LETTERS] for name in names[:_SHOWN_NAMES]]
    more = [f"and {len(names) - len(shown)} more"] if len(names) > len(shown) else []
    return ", ".join([*shown, *more])
