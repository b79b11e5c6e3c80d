"""A scripted annotator: it reads the prompt as a model does, and answers by a rule.

A sentence of the response is supported by the context sentences that hold its last word.
"""

from __future__ import annotations

import json
import re
from typing import Any

_LINE = re.compile(r"^\[([0-9]*[a-z]+)\] (.*)$", re.MULTILINE)
_LAST_WORD = re.compile(r"(\w+)\W*$")


def answer_to(body: dict[str, Any]) -> dict[str, Any]:
    """Return a right answer to the first request for a row."""
    prompt = next(message["content"] for message in body["messages"] if message["role"] == "user")
    sentences = _LINE.findall(prompt)
    contexts = {key: text for key, text in sentences if key[0].isdigit()}
    support = []
    for key, text in sentences:
        if not key[0].isdigit():
            match = _LAST_WORD.search(text)
            assert match is not None
            keys = [name for name, context in contexts.items() if match[1] in context]
            support.append(
                {
                    "response_sentence_key": key,
                    "explanation": f"looked for {match[1]}",
                    "supporting_sentence_keys": keys,
                    "fully_supported": bool(keys),
                }
            )
    used = sorted({key for sentence in support for key in sentence["supporting_sentence_keys"]})
    return {
        "relevance_explanation": "the first sentence of each document",
        "all_relevant_sentence_keys": [key for key in contexts if key.endswith("a")],
        "overall_supported_explanation": "by the rule",
        "overall_supported": all(sentence["fully_supported"] for sentence in support),
        "sentence_support_information": support,
        "all_utilized_sentence_keys": used,
    }


def text_of(body: dict[str, Any]) -> str:
    """Return the answer as text."""
    return json.dumps(answer_to(body))
