"""Judges of whole responses: prompts for any model, and models that were trained as judges."""

from __future__ import annotations

import functools
import re

from trivet.interface import replace_surrogates
from trivet.peers.llm_peer import Conversation, Judge, find, llm_peer, render, texts_of, unparsable
from trivet.peers.peer import Peer, PeerScore, PeerSetup

POLLS = 5
"""Answers that ChainPoll takes the mean of."""

_TOP = 20  # alternatives of a token, the most that endpoints give
_WORDS = "one", "two", "three", "four", "five"
_GRADES = {said: n for n, word in enumerate(_WORDS, start=1) for said in (word, str(n))}
# A rating behind "Score:" anywhere, also in marks of Markdown, or behind "Score" on its own line.
_SCORE = r"(?m)(?:score[*_]*:|^\s*score(?=\s+\d))[\s*_<(\[\"'`]*([^\W_]+(?:\.\d+)?)"
# prometheus_eval.parser: a mark, the digits, and nothing more than "/5" after them.
_RESULT = re.compile(
    r"(?:\[RESULT\]:?|\[SCORE\]|score:?|result:?|score\s+of)[\s(\[]*(\d+)"
    r"(?:[)\]\s]|/\s*5|\s*out\s*of\s*5)?\s*$",
    re.IGNORECASE,
)


def likert(talk: Conversation) -> PeerScore:
    """Return the rating from 1 to 5 of the benchmark "Real-Time Evaluation Models for RAG"."""
    text = talk.ask("likert").text
    said = find(_SCORE, text)[1].lower()
    if said not in _GRADES:
        raise unparsable(text)
    return _rating(_GRADES[said])


def chainpoll(talk: Conversation) -> PeerScore:
    """Return the share of five sampled verdicts that find no hallucination, flagged below .5."""
    polls = [talk.ask("chainpoll", temperature=1.0, sample=each).text for each in range(POLLS)]
    found = [find(r"verdict:?\W*(yes|no)\b", text)[1].lower() == "yes" for text in polls]
    return PeerScore.at(0.5, 1 - sum(found) / POLLS)


def lynx(talk: Conversation) -> PeerScore:
    """Return Lynx's probability of PASS, flagged by its verdict."""
    answer = talk.ask("lynx", max_tokens=600, top_logprobs=_TOP)
    verdict = find(r'"score":\s*"?(pass|fail)\b', answer.text)
    return PeerScore(
        talk.probability(answer, verdict.start(1), "PASS", "FAIL"),
        hallucinated=verdict[1].lower() == "fail",
    )


def prometheus(talk: Conversation) -> PeerScore:
    """Return the grade of Prometheus 2, from 1 to 5, by a rubric of faithfulness."""
    text = talk.ask("prometheus").text
    found = _RESULT.search(text)
    if found is None or not 1 <= int(found[1]) <= len(_WORDS):
        raise unparsable(text)
    return _rating(int(found[1]))


def guardian(talk: Conversation) -> PeerScore:
    """Return the probability that Granite Guardian finds nothing ungrounded ("yes" is ungrounded).

    The contexts are the ``documents`` of the chat template, as vLLM takes them.
    """
    texts = texts_of(talk.example)
    contexts = [replace_surrogates(text)[0] for text in texts["contexts"]]
    documents = [{"doc_id": str(number), "text": text} for number, text in enumerate(contexts)]
    answer = talk.ask(
        "guardian",
        max_tokens=48,
        top_logprobs=_TOP,
        history=[
            {"role": "user", "content": texts["question"]},
            {"role": "assistant", "content": texts["response"]},
        ],
        extra={"documents": documents},
    )
    verdict = find(r"<score>\s*(yes|no)\s*</score>", answer.text)
    return PeerScore(
        talk.probability(answer, verdict.start(1), "no", "yes"),
        hallucinated=verdict[1].lower() == "yes",
    )


def glider(talk: Conversation) -> PeerScore:
    """Return GLIDER's grade, from 1 to 5, by a rubric of faithfulness."""
    text = talk.ask("glider", max_tokens=2048).text
    return _rating(int(find(r"<score>\s*([1-5])\s*</score>", text)[1]))


def _rating(grade: int) -> PeerScore:
    return PeerScore((grade - 1) / (len(_WORDS) - 1))


# TLM, Cleanlab's trustworthiness of a given response, after trustworthy-llm 0.0.3 (Apache-2.0),
# workflow RAG without reasoning. The perplexity of the response, a further part there, exists only
# where TLM itself generates it. An answerability of exactly 0 is left out there, by a test for
# truth, and counts here.
SAMPLES = {"tlm": 0, "tlm-high": 4}
"""Answers that are sampled at the qualities MEDIUM and HIGH."""

_REFLECTIONS = {"tlm_certainty": 100, "tlm_argument": 10, "tlm_issues": 100}
_PARTS = "consistency", "indicator", "reflection", "answerability"
# tlm/config/score_weights.py: gpt-4.1-mini, and models that give no log probabilities.
_WEIGHTS = 0.1, 0.001, 0.639, 0.06
_WEIGHTS_WITHOUT_LOGPROBS = 0.353, 0.009, 0.578, 0.06
_JACCARD = 0.05  # weight of shared words in the similarity of two answers
_TLM_TOP = 5


def trust(talk: Conversation, samples: int) -> PeerScore:
    """Return the weighted mean of self-reflection, answerability and consistency."""
    request = render("answer", texts_of(talk.example))[0]["content"]
    reflections = []
    for prompt, most in _REFLECTIONS.items():
        text = talk.ask(prompt, max_tokens=64, request=request).text
        grade = float(find(r"<score>\W*(\d+(?:\.\d+)?)\W*</score>", text)[1])
        reflections.append(min(1.0, grade / most))
    answer = talk.ask("tlm_answerability", max_tokens=64, top_logprobs=_TLM_TOP, request=request)
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


JUDGES: dict[str, Judge] = {
    "likert": likert,
    "chainpoll": chainpoll,
    "lynx": lynx,
    "prometheus": prometheus,
    "guardian": guardian,
    "glider": glider,
    **{name: functools.partial(trust, samples=count) for name, count in SAMPLES.items()},
}


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return the judge of a kind; the argument names another model than that of the run."""
    return llm_peer(kind, JUDGES[kind], argument, setup)
