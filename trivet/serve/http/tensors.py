"""Tensors of the Open Inference Protocol: texts as BYTES in, scores as FP32 out.

Tensors are in the JSON, or follow it as the protocol's binary extension says: the header
``Inference-Header-Content-Length`` holds the length of the JSON, and each text follows its own
length of four bytes, little-endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from trivet.serve.http.errors import RequestError
from trivet.serve.http.open_inference_models import InferBody, Tensor
from trivet.serve.http.request_models import parser

LENGTH_HEADER = "Inference-Header-Content-Length"
_BINARY_SIZE = "binary_data_size"
_MOST_DIGITS = 19

_parse = parser(InferBody)


def read_tensors(raw: bytes, header_length: str | None) -> tuple[InferBody, dict[str, list[str]]]:
    """Return the JSON of a request, and the texts of each input by its name.

    Args:
        raw: Body of the request.
        header_length: Value of ``Inference-Header-Content-Length``, if present.

    Raises:
        RequestError: The request is malformed; the message names the input.
    """
    end = _json_end(header_length, len(raw))
    body = _parse(raw[:end])
    binary = memoryview(raw)[end:]
    found: dict[str, list[str]] = {}
    for tensor in body.inputs:
        name = tensor.name
        if name in found:
            raise RequestError("validation", f"input {name} is given twice")
        size = tensor.parameters.get(_BINARY_SIZE)
        if size is None:
            texts = _flat(tensor.data, name)
        else:
            texts, binary = _from_binary(binary, size, tensor)
        if math.prod(tensor.shape) != len(texts):
            raise RequestError(
                "validation",
                f"input {name} has {len(texts)} texts, but its shape {tensor.shape} holds "
                f"{math.prod(tensor.shape)}",
            )
        found[name] = texts
    if binary:
        raise RequestError(
            "validation", f"{len(binary)} bytes after the last input belong to no input"
        )
    return body, found


def write_tensors(
    head: Mapping[str, Any], outputs: Iterable[tuple[str, float | str, bool]]
) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of an answer, and the bytes that follow it.

    Args:
        head: Fields before the outputs.
        outputs: Name, value (a number is FP32, a text BYTES), and whether it is binary.
    """
    written, behind = [], b""
    for name, value, is_binary in outputs:
        datatype = "BYTES" if isinstance(value, str) else "FP32"
        output: dict[str, Any] = {"name": name, "datatype": datatype, "shape": [1]}
        if is_binary:
            packed = _packed(value)
            output["parameters"] = {_BINARY_SIZE: len(packed)}
            behind += packed
        else:
            output["data"] = [value]
        written.append(output)
    return {**head, "outputs": written}, behind


def _json_end(header_length: str | None, size: int) -> int:
    if header_length is None:
        return size
    is_number = header_length.isascii() and header_length.isdigit()
    # Python refuses to convert thousands of digits.
    end = int(header_length) if is_number and len(header_length) < _MOST_DIGITS else -1
    if not 0 <= end <= size:
        raise RequestError(
            "validation", f"{LENGTH_HEADER} must be a number of bytes from 0 to {size}"
        )
    return end


def _flat(data: Any, name: str) -> list[str]:
    """Return the texts of a nested tensor."""
    if data is None:
        raise RequestError("validation", f"input {name} has no data")
    texts: list[str] = []
    for item in data:
        if isinstance(item, list):
            texts += _flat(item, name)
        elif isinstance(item, str):
            texts.append(item)
        else:
            raise RequestError("validation", f"input {name} must hold only strings")
    return texts


def _from_binary(binary: memoryview, size: Any, tensor: Tensor) -> tuple[list[str], memoryview]:
    """Return the texts of a binary tensor, and the bytes after it."""
    name = tensor.name
    if tensor.data is not None:
        raise RequestError("validation", f"input {name} has both data and {_BINARY_SIZE}")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(binary):
        raise RequestError(
            "validation",
            f"input {name}: {_BINARY_SIZE} must be a number of bytes up to {len(binary)}, "
            "the rest of the body",
        )
    own, texts, at = binary[:size], list[str](), 0
    while at < size:
        length = int.from_bytes(own[at : at + 4], "little")
        text = bytes(own[at + 4 : at + 4 + length])
        if at + 4 + length > size:
            raise RequestError("validation", f"input {name}: a text is longer than its tensor")
        try:
            texts.append(text.decode())
        except UnicodeDecodeError:
            raise RequestError("invalid_unicode", f"input {name} is not UTF-8") from None
        at += 4 + length
    return texts, binary[size:]


def _packed(value: float | str) -> bytes:
    if isinstance(value, str):
        encoded = value.encode()
        return len(encoded).to_bytes(4, "little") + encoded
    return struct.pack("<f", value)
