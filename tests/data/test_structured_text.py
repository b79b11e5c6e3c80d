"""JSON, literals and tables are read as lines, and every character keeps its place."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.examples import JSON_VALUES
from trivet.data.structured_text import StructuredText, read_structure


def sentences(text: str, form: StructuredText) -> list[str]:
    return [text[span.start : span.end] for span in form.sentences]


def test_json_is_read_by_its_keys() -> None:
    facts = {"wifi": "free", "open_on": {"Monday": "9-17"}, "tags": ["a", "b"], "stars": 4.5}
    text = json.dumps({"name": 'Caf\u00e9 "X"', "place": facts, "note": "Good. Not cheap."})
    form = read_structure(text)
    assert form is not None
    assert form.read.splitlines() == [
        'name: Caf\u00e9 "X"',
        "place wifi: free",
        "place open on Monday: 9-17",
        "place tags: a, b",
        "place stars: 4.5",
        "note: Good. Not cheap.",
    ]
    assert sentences(text, form) == [
        '"name": "Caf\\u00e9 \\"X\\""',
        '"wifi": "free"',
        '"Monday": "9-17"',
        '"tags": ["a", "b"]',
        '"stars": 4.5',
        '"note": "Good.',
        'Not cheap."',
    ]
    at = form.read.index("9-17")
    ((start, end),) = form.text_offsets(np.asarray([[at, at + 4]])).tolist()
    assert text[start:end] == "9-17"


def test_the_cells_of_a_table_are_read_after_their_headers() -> None:
    text = "Our prices.\n\n| Item | Price |\n|---|--:|\n| Tea | 3 |\n| Milk | |\n\nThat is all."
    form = read_structure(text)
    assert form is not None
    assert form.read.splitlines() == [
        "Our prices.",
        "Item, Price",
        "Item: Tea, Price: 3",
        "Item: Milk, Price: ",
        "That is all.",
    ]
    assert sentences(text, form)[2] == "Tea | 3"
    tabs = read_structure("Item\tPrice\nTea\t3\n")
    assert tabs is not None
    assert tabs.read == "Item, Price\nItem: Tea, Price: 3\n"


@pytest.mark.parametrize(
    "text",
    [
        *("", "The mill is old.", "[1] The mill.", "{", "[]", "{}", '{"a": 1} {"b": 2}'),
        *("a | b\nc | d", "|---|---|", "one\ttab", "a\tb\nno tab", "[" * 100_000 + "]" * 100_000),
        # Code and excess in a literal.
        *("{'a': open('x')}", "['a'].clear()", "['a'][0]", "['a' 'b']", "{1, 2}", "['\\d']"),
        *("[x for x in 'ab']", "[f'{a}']", "{'a': 'b'}('c')", "['a", "['a'}", "{('a', 'b'): 1}"),
        *("['" + "a" * 1_000_000 + "']", "{'a':" * 1000, "[" + "'" * 1_000_000, "[" + "\\" * 9999),
    ],
)
def test_other_texts_are_read_as_they_are(text: str) -> None:
    assert read_structure(text) is None


@pytest.mark.parametrize("form", range(3))
@pytest.mark.parametrize(("length", "is_read"), [(6, True), (500, False), (50_000, False)])
def test_names_are_not_repeated_without_bound(form: int, length: int, is_read: bool) -> None:
    name = "a" * length
    leaves = {name: {f"leaf {n}": n for n in range(8000)}}
    table = f"| {name} | b |\n|---|---|\n" + "| 1 | 2 |\n" * 8000
    text = (json.dumps(leaves), repr(leaves), table)[form]
    # With all names, of which the longest would fill gigabytes, it would be read.
    read = read_structure(text)
    assert (read is not None) is is_read
    assert read is None or len(read.read) < 9 * len(text) + 10_000


def test_a_line_of_spaces_below_a_bar_takes_linear_time() -> None:
    # With quadratic time this would not end.
    assert read_structure("a | b\n" + " " * 300_000 + "c") is None


def test_a_python_literal_is_read_like_json() -> None:
    text = str(
        {"name": 'Joe\'s "Inn"\n', "open_on": {"Mon": (9, -17.5)}, "wifi": None, "bar": True}
    )
    form = read_structure(text)
    assert form is not None
    assert form.read.splitlines() == [
        *('name: Joe\'s "Inn"', "", "open on Mon: 9, -17.5", "wifi: None", "bar: True")
    ]
    assert sentences(text, form)[1] == "'Mon': (9, -17.5)"


def check(text: str, form: StructuredText) -> None:
    assert len(form.places) == len(form.read)
    assert (np.diff(form.places[:, 0]) >= 0).all()
    assert (form.places[:, 0] <= form.places[:, 1]).all()
    assert form.places.max(initial=0) <= len(text)
    reached = 0
    for span in form.sentences:
        assert reached <= span.start <= span.end <= len(text)
        reached = span.end


@given(JSON_VALUES, st.sampled_from([None, 1]))
def test_every_character_of_json_has_a_place_in_order(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    form = read_structure(text)
    assert (form is None) is (not isinstance(value, list | dict) or not value)
    if form is not None:
        check(text, form)


@given(JSON_VALUES.filter(lambda value: "inf" not in repr(value)))
def test_every_character_of_a_literal_has_a_place_in_order(value: Any) -> None:
    text = repr(value)
    form = read_structure(text)
    if isinstance(value, list | dict) and value:
        assert form is not None
        check(text, form)


@given(st.text(alphabet="ab |-\t\n:.\\"))
def test_every_character_of_a_table_has_a_place_in_order(text: str) -> None:
    form = read_structure(text)
    if form is not None:
        check(text, form)
        copied = [n for n, (start, end) in enumerate(form.places.tolist()) if start < end]
        for n in copied:
            assert text[form.places[n, 0]] == form.read[n]
