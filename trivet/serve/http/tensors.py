"""The Open Inference Protocol on the wire: texts as BYTES tensors in, scores as FP32 out.

Tensors stand in the JSON, or behind it as the protocol's binary extension has them: then the
header ``Inference-Header-Content-Length`` says where the JSON ends, and every text follows its
length, four bytes, little-endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Any

from trivet.serve.http.errors import RequestError
from trivet.serve.http.open_inference_models import InferBody, Tensor
from trivet.serve.http.parsing import parser

LENGTH_HEADER = "Inference-Header-Content-Length"
_BINARY_SIZE = "binary_data_size"
_MOST_DIGITS = 19

_parse = parser(InferBody)


def read_tensors(raw: bytes, header_length: str | None) -> tuple[InferBody, dict[str, list[str]]]:
    """Read a request.

    Args:
        raw: Its body.
        header_length: The value of ``Inference-Header-Content-Length``, where it has one.

    Returns:
        The JSON, and the texts of each input by its name, flat.

    Raises:
        RequestError: It is none; the message names the input.
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
                f"input {name} has {len(texts)} texts, but its shape {tensor.shape} is of "
                f"{math.prod(tensor.shape)}",
            )
        found[name] = texts
    if binary:
        raise RequestError(
            "validation", f"{len(binary)} bytes behind the last input belong to none"
        )
    return body, found


def write_tensors(
    head: Mapping[str, Any], outputs: Iterable[tuple[str, float | str, bool]]
) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of an answer, and the bytes that stand behind it.

    Args:
        head: What stands before the outputs.
        outputs: The name and value of each, and whether it goes behind the JSON; a number is FP32,
            a text BYTES.
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
    # Thousands of digits would be too many for Python itself.
    end = int(header_length) if is_number and len(header_length) < _MOST_DIGITS else -1
    if not 0 <= end <= size:
        raise RequestError(
            "validation", f"{LENGTH_HEADER} must be a number of bytes from 0 to {size}"
        )
    return end


def _flat(data: Any, name: str) -> list[str]:
    """Return the texts of a tensor, row by row."""
    if data is None:
        raise RequestError("validation", f"input {name} has no data")
    texts: list[str] = []
    for item in data:
        if isinstance(item, list):
            texts += _flat(item, name)
        elif isinstance(item, str):
            texts.append(item)
        else:
            raise RequestError("validation", f"input {name} must hold strings alone")
    return texts


def _from_binary(binary: memoryview, size: Any, tensor: Tensor) -> tuple[list[str], memoryview]:
    """Return the texts of a tensor behind the JSON, and what stands behind it."""
    name = tensor.name
    if tensor.data is not None:
        raise RequestError("validation", f"input {name} has both data and {_BINARY_SIZE}")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(binary):
        raise RequestError(
            "validation",
            f"input {name}: {_BINARY_SIZE} must be a number of bytes up to {len(binary)}, which "
            "is what is left",
        )
    own, texts, at = binary[:size], list[str](), 0
    while at < size:
        length = int.from_bytes(own[at : at + 4], "little")
        text = bytes(own[at + 4 : at + 4 + length])
        if at + 4 + length > size:
            raise RequestError("validation", f"input {name}: a text ends behind its tensor")
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
