"""Prompts of the judges that ask an LLM, which change only on purpose."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.llm.scripted_endpoint import ScriptedEndpoint
from tests.peers.scripts import EXAMPLE, JUDGES, RIGHT
from trivet.llm.client import ChatClient
from trivet.peers.llm_peer import LlmPeer

# Digests of all messages about EXAMPLE, with the right answers of the scripts.
PROMPTS = {
    "ragas": "3bac97b58f8b",
    "deepeval": "f324b0cce811",
    "trulens": "286b39bffa96",
    "selfcheck": "0a4b1d5e0db1",
    "likert": "d049c03129fe",
    "chainpoll": "b97924831e86",
    "lynx": "81ff36379770",
    "prometheus": "a77097e74340",
    "guardian": "e6f42e9731b5",
    "glider": "aafe0dbb342c",
    "tlm": "0cdb39daa22d",
    "tlm-high": "21dbff2f1112",
}


@pytest.mark.parametrize("kind", JUDGES)
def test_no_prompt_changes_unnoticed(kind: str) -> None:
    with (
        ScriptedEndpoint(RIGHT[kind][0]) as endpoint,
        ChatClient("scripted", base_url=endpoint.url) as client,
    ):
        LlmPeer(kind, JUDGES[kind], client).score(EXAMPLE)
    whole = json.dumps([body["messages"] for body in endpoint.bodies])
    # A wanted change: look at it beside the tool (`benchmarks.peers_against_tools`, or its source).
    assert hashlib.sha256(whole.encode()).hexdigest()[:12] == PROMPTS[kind]
