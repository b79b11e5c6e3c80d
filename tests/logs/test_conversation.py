"""Chat messages become one example for each judged answer."""

from __future__ import annotations

from typing import Any

import pytest

from trivet.errors import ExampleError
from trivet.logs.conversation import read_turns
from trivet.records import RagExample

TALK = [
    {"role": "system", "content": "The mill is old."},
    {"role": "user", "content": "When was the mill built?"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "Built in 1817."},
    {"role": "assistant", "content": [{"type": "text", "text": "In 1817."}]},
    {"role": "user", "content": "Of what?"},
    {"role": "tool", "name": "lookup", "content": "Made of stone."},
    {"role": "assistant", "content": "Of stone."},
    {"role": "user", "content": "Thanks."},
]  # fmt: skip


def test_the_last_answer_is_judged_on_what_was_known_before_it() -> None:
    ((message, example),) = read_turns(TALK, id="talk")
    assert message == 7
    assert example.response == "Of stone."
    asked, *earlier = example.question.splitlines()
    assert asked == "Of what?"
    assert earlier == ["assistant: In 1817.", "user: When was the mill built?"]
    assert example.contexts == ("Built in 1817.", "Made of stone.")
    assert [name.id for name in example.context_names] == ["search", "lookup"]
    assert example.id == "talk"


def test_each_answer_is_a_turn_and_sees_nothing_later() -> None:
    turns = read_turns(TALK, turns="all", id="talk")
    assert [(turn.message, turn.example.id) for turn in turns] == [
        (4, "talk-messages[4]"),
        (7, "talk-messages[7]"),
    ]
    first = turns[0].example
    assert first.question == "When was the mill built?"
    assert first.contexts == ("Built in 1817.",)
    assert read_turns(TALK, turns="all")[1].example.id == "messages[7]"
    assert turns[1].example.contexts == read_turns(TALK)[0].example.contexts


def test_a_system_message_is_a_context_where_no_tool_has_answered() -> None:
    (turn,) = read_turns([*TALK[:2], {"role": "assistant", "content": "It is old."}])
    assert turn.example.contexts == ("The mill is old.",)
    assert [name.id for name in turn.example.context_names] == ["system"]


def test_given_contexts_replace_those_of_the_messages() -> None:
    passages = [{"text": "Stone.", "id": "d1"}, "Wood."]
    (turn,) = read_turns(TALK, passages)
    assert turn.example.contexts == ("Stone.", "Wood.")
    assert [name.id for name in turn.example.context_names] == ["d1", None]


def test_other_names_of_roles_and_texts_are_read() -> None:
    langchain = [{"type": "human", "content": "What?"}, {"type": "ai", "content": "Stone."}]
    sharegpt = [{"from": "human", "value": "What?"}, {"from": "gpt", "value": "Stone."}]
    wanted = RagExample("What?", (), "Stone.")
    assert read_turns(langchain)[0].example == read_turns(sharegpt)[0].example == wanted
    parts = [{"type": "text", "text": "What"}, {"type": "text", "text": "now?"}]
    (turn,) = read_turns([{"role": "user", "content": parts}, TALK[4]])
    assert turn.example.question == "What\nnow?"


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "none of 0 messages is an answer"),
        ("Hello", "messages is a string, not a list of objects with role and content"),
        ([{"role": "critic", "content": "a"}], r"messages\[0\].role is 'critic'; known: user, "),
        ([{"role": "user", "content": 7}], r"messages\[0\].content is a number, not a text"),
        ([{"role": "user", "content": ["a"]}], r"content\[0\] has no text"),
        ([{"role": "tool", "tool_call_id": "", "content": "a"}], "tool_call_id is empty"),
    ],
)  # fmt: skip
def test_what_is_no_conversation_is_refused_by_name(messages: Any, message: str) -> None:
    with pytest.raises(ExampleError, match=message):
        read_turns(messages)


def test_unknown_turns_are_refused() -> None:
    with pytest.raises(ValueError, match="turns is 'first'; choose last or all"):
        read_turns(TALK, turns="first")  # type: ignore[arg-type]
