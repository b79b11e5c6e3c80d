"""Bytes become an example, or an error that names the tensor."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from trivet.errors import ExampleError
from trivet.records import RagExample

TEXTS = {"question": [b"q?"], "contexts": [b"a", "b\u00e9\0".encode()], "response": [b""]}


@pytest.fixture
def judge_model(backend_utils: ModuleType) -> Any:
    """The module of the model, which needs Triton's own."""
    from trivet.serve.triton import judge_model

    return judge_model


def test_bytes_become_an_example(judge_model: Any) -> None:
    example = RagExample("q?", ("a", "b\u00e9\0"), "")
    assert judge_model.read_request(**TEXTS) == (example, judge_model.Options())
    options = [b'{"id": "x", "allow_empty_contexts": true}']
    example, read = judge_model.read_request(**TEXTS, options_json=options)
    assert (example.id, read.allow_empty_contexts) == ("x", True)


@pytest.mark.parametrize(
    ("changed", "code", "message"),
    [
        ({"contexts": [b"a", b"ab\xff"]}, "invalid_unicode", r"contexts\[1\] is not UTF-8: .*0xff"),
        ({"question": ["\ud800".encode("utf-8", "surrogatepass")]}, "invalid_unicode", "question"),
        ({"response": [b"a", b"b"]}, "invalid_row", "response has 2 elements"),
        ({"question": []}, "invalid_row", "question has 0 elements"),
        ({"response": ["text"]}, "invalid_row", "response must be of bytes, not str"),
        ({"options_json": [b"{"]}, "validation", "options_json: not valid JSON"),
        ({"options_json": [b"[" * 5000]}, "validation", "options_json: not valid JSON"),
        ({"options_json": [b'{"idd": "x"}']}, "validation", r"options_json\.idd: unknown"),
        ({"options_json": [b'{"id": 1}']}, "validation", r"options_json\.id: .*string"),
        ({"options_json": [b'{"allow_empty_contexts": "yes"}']}, "validation", "allow_empty"),
        ({"options_json": [b'{"id": "' + b"x" * 2000 + b'"}']}, "validation", r"\.id: .*1000"),
    ],
)
def test_a_bad_tensor_is_named(
    judge_model: Any, changed: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(ExampleError, match=message) as raised:
        judge_model.read_request(**(TEXTS | changed))
    assert raised.value.code == code
