"""The shapes of contexts, and the lists that text may hold."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from trivet.errors import ExampleError
from trivet.logs.column_mapping import read_metadata
from trivet.logs.context_values import as_passages, read_contexts

NO_LIST = '["' + "[" * 100_000 + '"'


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("One text.", ("One text.",)),
        ([], ()),
        (None, ()),
        ("", ()),
        ([["a", {"text": "b"}], ["c"]], ("a", "b", "c")),
        ([{"text": "a", "score": 1}, {"Page_Content": "b"}, "c"], ("a", "b", "c")),
        ('["a", "b"]', ("a", "b")),
        ("[]", ()),
        ("['a', \"it's b\"]", ("a", "it's b")),
        ("['a',\n 'b\\d']", ("a", "b\\d")),
        ("[{'text': 'a', 'id': 3}]", ("a",)),
        ("[1] The mill is old. [2]", ("[1] The mill is old. [2]",)),
        (NO_LIST, (NO_LIST,)),
    ],
)
def test_the_shapes_of_contexts(value: Any, texts: tuple[str, ...]) -> None:
    assert read_contexts(value)[0] == texts


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": "b"}, "contexts is an object, not a list of strings"),
        (True, "contexts is true or false"),
        ([None], r"contexts\[0\] is null"),
        ([{"title": "a"}], r"contexts\[0\] is an object; .* text under text, page_content"),
        ("['a', 7]", "begins and ends like a list"),
        ("['" + "(" * 100_000 + "]", "begins and ends like a list"),
    ],
)
def test_what_holds_no_passages_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ExampleError, match=message) as caught:
        read_contexts(value)
    assert caught.value.code == "bad_field"


def test_a_passage_is_named_by_its_members_or_its_metadata() -> None:
    class Document:
        page_content = "c"
        id = "x"
        metadata: ClassVar[dict[str, str]] = {"title": "Ferry"}

    named = {"text": "a", "metadata": {"doc_id": 7, "title": "Mill"}}
    empty = {"text": "b", "id": "", "title": ""}
    assert as_passages([named, empty, Document()]) == (
        ("a", "b", "c"),
        (("7", "Mill"), (None, None), ("x", "Ferry")),
    )
    assert as_passages(["a", empty]) == (("a", "b"), ())


def test_metadata_is_what_is_short_scalar_and_not_ours() -> None:
    fields = [
        ("question", "What?"),
        ("Model", "m"),
        ("turn", 3),
        ("temperature", float("nan")),
        ("cached", False),
        ("tags", ["a"]),
        ("none", None),
        ("prompt", "x" * 201),
        ("metadata", {"user": "u", "Model": "hidden"}),
    ]
    ours = frozenset({"question"})
    short = {"user": "u", "Model": "m", "turn": 3, "cached": False}
    assert read_metadata(fields, None, ours) == short
    chosen = ("prompt", "tags", "none", "nowhere", "question")
    wanted = {"prompt": "x" * 201, "tags": '["a"]', "question": "What?"}
    assert read_metadata(fields, chosen, ours) == wanted
