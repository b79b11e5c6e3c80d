"""What the documentation shows: a request and an answer for every route. Numbers are examples."""

from __future__ import annotations

import json
from typing import Any

_QUESTION = "When was the city founded?"
_CONTEXTS = ["Washington is the capital of the United States.", "The city was founded in 1790."]
_RESPONSE = "It was founded in 1791."

EXAMPLE: dict[str, Any] = {
    "question": _QUESTION,
    "contexts": _CONTEXTS,
    "response": _RESPONSE,
    "id": "q-17",
}
EVALUATE_ONE: dict[str, Any] = {**EXAMPLE, "timeout_ms": 5000}
EVALUATE_MANY: dict[str, Any] = {
    "examples": [
        EXAMPLE,
        {
            "user_input": _QUESTION,
            "retrieved_contexts": [{"text": _CONTEXTS[1], "id": "doc-3"}],
            "response": "In 1790.",
        },
        {"question": _QUESTION, "contexts": [], "response": _RESPONSE, "id": "q-18"},
    ]
}
RELEVANCE: dict[str, Any] = {"question": _QUESTION, "contexts": _CONTEXTS}
LETTUCE_DETECT: dict[str, Any] = {
    "contexts": _CONTEXTS,
    "question": _QUESTION,
    "answer": _RESPONSE,
}

_SPAN = {"start": 0, "end": 23, "text": _RESPONSE}
_READ = {"windows": 1, "window_size": 512, "cut_question_tokens": 0}


def _sentence(number: int, **scores: float) -> dict[str, Any]:
    text = _CONTEXTS[number]
    return {"start": 0, "end": len(text), "text": text, **scores}


def _context(number: int, **scores: float) -> dict[str, Any]:
    return {**scores, "sentences": [_sentence(number, **scores)]}


VERDICT: dict[str, Any] = {
    "id": "q-17",
    "faithfulness": 0.12,
    "supported_share": 0.0,
    "relevance": 0.51,
    "utilization": 0.46,
    "completeness": 0.87,
    "adherent": False,
    "unsupported": [{**_SPAN, "probability": 0.88}],
    "sentences": [{**_SPAN, "support": 0.12, "supported": False}],
    "contexts": [
        _context(0, relevance=0.11, utilization=0.06),
        _context(1, relevance=0.91, utilization=0.86),
    ],
    **_READ,
    "response_chunks": 1,
    "replaced_characters": 0,
}
_SECOND_SPAN = {"start": 0, "end": 8, "text": "In 1790."}
MANY: dict[str, Any] = {
    "results": [
        VERDICT,
        {
            **VERDICT,
            "id": None,
            "faithfulness": 0.97,
            "supported_share": 1.0,
            "relevance": 0.91,
            "utilization": 0.88,
            "completeness": 0.96,
            "adherent": True,
            "unsupported": [],
            "sentences": [{**_SECOND_SPAN, "support": 0.97, "supported": True}],
            "contexts": [_context(1, relevance=0.91, utilization=0.88)],
            "context_ids": ["doc-3"],
        },
        {
            "id": "q-18",
            "error": {"code": "empty_contexts", "message": "there are no contexts; ..."},
        },
    ]
}
RELEVANCE_ANSWER: dict[str, Any] = {
    "id": None,
    "relevance": 0.51,
    "contexts": [_context(0, relevance=0.11), _context(1, relevance=0.91)],
    **_READ,
}
LETTUCE_DETECT_ANSWER: dict[str, Any] = {
    "predictions": [{**_SPAN, "hallucination_score": 0.88}],
}
ERROR: dict[str, Any] = {
    "error": "contexts[2]: must be a string, or an object with its text",
    "error_type": "validation",
    "request_id": "5f0c6a3ad8f94b5f8ae4f6a3c1d7b2e9",
}


def _tensor(name: str, *texts: str) -> dict[str, Any]:
    return {"name": name, "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}


def _score(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "datatype": "FP32", "shape": [1], "data": [value]}


INFER: dict[str, Any] = {
    "id": "q-17",
    "inputs": [
        _tensor("question", _QUESTION),
        _tensor("contexts", *_CONTEXTS),
        _tensor("response", _RESPONSE),
        _tensor("options_json", json.dumps({"id": "q-17"})),
    ],
    "outputs": [{"name": "faithfulness"}, {"name": "relevance"}],
}
INFER_ANSWER: dict[str, Any] = {
    "model_name": "trivet",
    "model_version": "1",
    "id": "q-17",
    "outputs": [_score("faithfulness", 0.12), _score("relevance", 0.51)],
}
