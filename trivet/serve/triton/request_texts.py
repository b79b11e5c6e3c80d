"""Strict reading of a request to the Triton model ``trivet``: bytes to texts and options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trivet.errors import ExampleError, fault_words
from trivet.records import RagExample

_MOST_ID = 1_000  # characters


class Options(BaseModel):
    """Content of ``options_json``; see ``Evaluator.evaluate``."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    id: Annotated[str, Field(max_length=_MOST_ID)] | None = None
    allow_empty_contexts: bool = False


def read_request(
    question: Iterable[Any],
    contexts: Iterable[Any],
    response: Iterable[Any],
    options_json: Iterable[Any] | None = None,
) -> tuple[RagExample, Options]:
    """Return the example and the options in the input tensors of one request.

    Every tensor has one element of bytes, except ``contexts``, which has any number.

    Raises:
        ExampleError: A text is not UTF-8 or missing, or the options are not ``Options``.
    """
    options = Options()
    if options_json is not None:
        try:
            options = Options.model_validate_json(_only("options_json", options_json))
        except ValidationError as error:
            said = fault_words(error, 1, ("options_json",))
            raise ExampleError(said, code="validation") from error
    example = RagExample(
        question=_only("question", question),
        contexts=tuple(_decode(f"contexts[{n}]", text) for n, text in enumerate(contexts)),
        response=_only("response", response),
        id=options.id,
    )
    return example, options


def _only(name: str, tensor: Iterable[Any]) -> str:
    texts = list(tensor)
    if len(texts) != 1:
        raise ExampleError(f"{name} has {len(texts)} elements, and must have one")
    return _decode(name, texts[0])


def _decode(name: str, content: Any) -> str:
    if not isinstance(content, bytes):
        raise ExampleError(f"{name} must be of bytes, not {type(content).__name__}")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ExampleError(
            f"{name} is not UTF-8: byte {content[error.start]:#04x} at {error.start} of "
            f"{len(content)} ({error.reason})",
            code="invalid_unicode",
        ) from error
