"""TLM, Cleanlab's trustworthiness of a given response, by the prompts and weights of its package.

Re-implemented from trustworthy-llm 0.0.3 (Apache-2.0), workflow RAG without reasoning. The
perplexity of the response, a further part there, exists only where TLM itself generates it. An
answerability of exactly 0 is left out there, by a test for truth, and counts here.
"""

from __future__ import annotations

import functools
import re

from trivet.peers.llm_peer import Conversation, find, llm_peer, render, texts_of
from trivet.peers.peer import Peer, PeerScore, PeerSetup

SAMPLES = {"tlm": 0, "tlm-high": 4}
"""Answers that are sampled at the qualities MEDIUM and HIGH."""

_REFLECTIONS = {"tlm_certainty": 100, "tlm_argument": 10, "tlm_issues": 100}
_PARTS = "consistency", "indicator", "reflection", "answerability"
# tlm/config/score_weights.py: gpt-4.1-mini, and models that give no log probabilities.
_WEIGHTS = 0.1, 0.001, 0.639, 0.06
_WEIGHTS_WITHOUT_LOGPROBS = 0.353, 0.009, 0.578, 0.06
_JACCARD = 0.05  # weight of shared words in the similarity of two answers
_TOP = 5


def trust(talk: Conversation, samples: int) -> PeerScore:
    """Return the weighted mean of self-reflection, answerability and consistency."""
    request = render("answer", texts_of(talk.example))[0]["content"]
    reflections = []
    for prompt, most in _REFLECTIONS.items():
        text = talk.ask(prompt, max_tokens=64, request=request).text
        grade = float(find(r"<score>\W*(\d+(?:\.\d+)?)\W*</score>", text)[1])
        reflections.append(min(1.0, grade / most))
    answer = talk.ask("tlm_answerability", max_tokens=64, top_logprobs=_TOP, request=request)
    choice = find(r"<choice>\W*(yes|no)\W*</choice>", answer.text)
    parts = {
        "reflection": sum(reflections) / len(reflections),
        "answerability": talk.probability(answer, choice.start(1), "yes", "no"),
    }
    if samples:
        response = talk.example.response
        texts = [talk.ask("answer", temperature=1.0, sample=n).text for n in range(samples)]
        parts["indicator"] = sum(text == response for text in texts) / samples
        parts["consistency"] = sum(_similarity(talk, text) for text in texts) / samples
    table = zip(_PARTS, _WEIGHTS if answer.logprobs else _WEIGHTS_WITHOUT_LOGPROBS, strict=True)
    weights = {part: weight for part, weight in table if part in parts}
    total = sum(weight * parts[part] for part, weight in weights.items())
    return PeerScore(total / sum(weights.values()))


def _similarity(talk: Conversation, sampled: str) -> float:
    """Return how much a sampled answer says the same as the response, in [0, 1]."""
    text = talk.ask("tlm_consistency", max_tokens=64, sampled=sampled).text
    same = find(r"<answer>\W*(yes|no)\W*</answer>", text)[1].lower() == "yes"
    words, others = (set(re.findall(r"\b\w+\b", each)) for each in (talk.example.response, sampled))
    jaccard = len(words & others) / max(1, len(words | others))
    return _JACCARD * jaccard + (1 - _JACCARD) * same


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``tlm`` or ``tlm-high``; the argument names another model than that of the run."""
    return llm_peer(kind, functools.partial(trust, samples=SAMPLES[kind]), argument, setup)
