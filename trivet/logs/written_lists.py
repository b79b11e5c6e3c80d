"""Lists of passages that a cell holds as text: JSON, or what Python prints.

Python prints lists and arrays of strings, and documents of LangChain and LlamaIndex by their
constructors. They are parsed, and nothing in them is ever run.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from trivet.errors import ExampleError

_MAX_LITERAL = 1_000_000  # characters that are parsed as Python
_DOCUMENTS = ("Document", "NodeWithScore", "TextNode", "Node", "ImageNode", "IndexNode")
_VALUES = ("array", "str_", "float32", "float64", "int64", "datetime", "date", "UUID")
_NAMED = frozenset((*_DOCUMENTS, *_VALUES, "RelatedNodeInfo"))
_CONSTRUCTOR = re.compile(rf"\[?\s*(?:\w+\.)*(?:array|{'|'.join(_DOCUMENTS)})\(")
_NO_QUOTE = re.compile(r"[^'\"]*")
_STRING = re.compile(r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"", re.DOTALL)
_MEMBER = re.compile(r"<\w+(?:\.\w+)+: $")  # of an enumeration: ``<ObjectType.TEXT: '1'>``


def listed(text: str, kinds: Any) -> str | Sequence[Any]:
    """Return the list of ``kinds`` that a text contains, or the text itself.

    Raises:
        ExampleError: It looks like a list of strings or documents, but cannot be read as one.
    """
    inner = text.strip()
    if inner.startswith('"') and (again := _json(inner)) and isinstance(again, str):
        inner = again.strip()  # JSON that was written as a string of JSON
        text = again if inner.startswith("[") else text
    is_list = inner.startswith("[") and inner.endswith("]")
    is_built = _CONSTRUCTOR.match(inner) is not None and inner.endswith((")", "]"))
    if not (is_list or is_built):
        return text
    value = _json(inner)
    if value is None:
        try:
            value = _parse_python(inner)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    if isinstance(value, Mapping):  # one document
        value = [value]
    if isinstance(value, list) and all(isinstance(item, kinds) for item in value):
        return [_document(item) for item in value]
    if is_built or inner[1:].lstrip()[:1] in ("'", '"', "{"):
        raise ExampleError(
            "begins and ends like a list of contexts or ids, but is valid neither as JSON nor as "
            "Python; write it as JSON",
            code="bad_field",
        )
    return text


def _json(text: str) -> Any:
    """Return the value of JSON; ``None`` for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _document(item: Any) -> Any:
    """Return the document that a string holds as JSON, or the item itself."""
    if isinstance(item, str) and item.startswith("{") and '"page_content"' in item:
        value = _json(item)
        return value if isinstance(value, Mapping) else item
    return item


def _parse_python(text: str) -> Any:
    """Return the value of literals and named constructors.

    An array's strings follow each other without commas, which Python itself would join.
    """
    if len(text) > _MAX_LITERAL:
        raise ValueError("too long")
    parts: list[str] = []
    at, in_member = 0, False
    while True:
        gap = _NO_QUOTE.match(text, at)
        begins = gap.end() if gap else at
        between = text[at:begins]
        if in_member:
            between = between.removeprefix(">")
        elif at and begins < len(text) and not between.strip():
            between = ","
        in_member = _MEMBER.search(between) is not None
        parts.append(_MEMBER.sub("", between))
        if begins == len(text):
            break
        literal = _STRING.match(text, begins)
        if literal is None:
            raise ValueError("a string is not closed")
        parts.append(literal[0])
        at = literal.end()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a backslash that escapes nothing
        return _value(ast.parse("".join(parts), mode="eval").body)


def _value(node: ast.expr) -> Any:
    """Return the value of a literal, or the arguments of a named constructor by their names."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            names = [_value(key) for key in keys if key is not None]
            return {str(name): _value(value) for name, value in zip(names, values, strict=True)}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id="nan" | "inf"):
            return None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _NAMED:
            if node.keywords and name not in _VALUES:
                return {pair.arg or "": _value(pair.value) for pair in node.keywords}
            return _value(node.args[0]) if node.args else None
        case _:
            raise ValueError("neither a literal nor a known constructor")
