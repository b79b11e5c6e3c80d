"""Systems that ask an LLM: how the answers to their prompts become a score."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Sequence
from typing import Any

from research.compare.prompts import (
    Conversation,
    Judge,
    find,
    probability,
    prompt_system,
    render,
    texts_of,
    unparsable,
)
from research.compare.systems import Score, Setup, System
from trivet.data.sentences import split_sentences
from trivet.errors import ExampleError

SAMPLES = 5
"""Answers that SelfCheckGPT compares with (its paper: 20), and polls of ChainPoll."""

_TOP = 20  # alternatives of a token, the most that endpoints give
# A rating behind "Score:" anywhere, also in marks of Markdown, or behind "Score" on its own line.
_SCORE = r"(?m)(?:score[*_]*:|^\s*score(?=\s+\d))[\s*_<(\[\"'`]*([^\W_]+(?:\.\d+)?)"
# prometheus_eval.parser: a mark, the digits, and nothing more than "/5" after them.
_RESULT = (
    r"(?:\[RESULT\]:?|\[SCORE\]|score:?|result:?|score\s+of)[\s(\[]*(\d+)"
    r"(?:[)\]\s]|/\s*5|\s*out\s*of\s*5)?\s*$"
)
_LIST_NUMBER = re.compile(r"\s*\d+[.)]?\s*")


def likert(talk: Conversation) -> Score:
    """Return the rating from 1 to 5 of "Real-Time Evaluation Models for RAG"."""
    text = talk.ask("likert").text
    return _rating(find(_SCORE, text)[1], text)


def chainpoll(talk: Conversation) -> Score:
    """Return the share of sampled verdicts that find no hallucination, flagged below .5."""
    polls = [talk.ask("chainpoll", sample=n).text for n in range(SAMPLES)]
    yes = [find(r"verdict:?\W*(yes|no)\b", text)[1].lower() == "yes" for text in polls]
    return Score.at(0.5, 1 - sum(yes) / SAMPLES)


def lynx(talk: Conversation) -> Score:
    """Return Lynx's probability of PASS, flagged by its verdict."""
    answer = talk.ask("lynx", max_tokens=600, top_logprobs=_TOP)
    verdict = find(r'"score":\s*"?(pass|fail)\b', answer.text)
    faithfulness = probability(answer, verdict.start(1), "PASS", "FAIL")
    return Score(faithfulness, hallucinated=verdict[1].lower() == "fail")


def prometheus(talk: Conversation) -> Score:
    """Return the grade of Prometheus 2, from 1 to 5, by a rubric of faithfulness."""
    text = talk.ask("prometheus").text
    return _rating(find(_RESULT, text)[1], text)


def ragas(talk: Conversation) -> Score:
    """Return RAGAS's faithfulness: the share of statements that the contexts imply."""
    statements = talk.ask_json("ragas", "statements", "statements")
    if not isinstance(statements, list) or not all(
        isinstance(statement, str) for statement in statements
    ):
        raise unparsable(str(statements))
    if not statements:
        raise ExampleError("the answer has no statements", "no_statements")
    verdicts = talk.ask_json("ragas", "verdicts", "statements", statements=statements)
    try:
        return _mean([float(bool(int(verdict["verdict"]))) for verdict in verdicts])
    except (KeyError, TypeError, ValueError) as error:
        raise unparsable(str(verdicts)) from error


def trulens(talk: Conversation) -> Score:
    """Return TruLens's groundedness: the mean score of the statements that are not trivial.

    As there, numbers of a list are not statements, all statements stay if the list of those to keep
    cannot be read, and a response of trivial statements alone has groundedness 0.
    """
    statements = [text for text in _sentences(talk) if not _LIST_NUMBER.fullmatch(text)]
    kept = talk.ask("trulens", "trivial", statements=statements).text
    with contextlib.suppress(SyntaxError, ValueError):
        listed = ast.literal_eval(kept.strip())
        statements = (
            [str(statement) for statement in listed] if isinstance(listed, list) else statements
        )
    if not statements:
        return Score(0.0)
    scores: list[Any] = [
        talk.ask_json("trulens", "statement", "score", statement=text) for text in statements
    ]
    if not all(type(score) is int and 0 <= score <= 3 for score in scores):
        raise unparsable(f"scores {scores}")
    return _mean([score / 3 for score in scores])


def selfcheck(talk: Conversation) -> Score:
    """Return 1 minus SelfCheckGPT's inconsistency with answers sampled from the same contexts."""
    samples = [talk.ask("answer", sample=n).text.replace("\n", " ") for n in range(SAMPLES)]
    scores = []
    for sentence in _sentences(talk):
        texts = [
            talk.ask("selfcheck", max_tokens=5, passage=passage, sentence=sentence).text
            for passage in samples
        ]
        yes = [find(r"\A\W*(yes|no)", text)[1].lower() == "yes" for text in texts]
        scores.append(sum(yes) / SAMPLES)
    return _mean(scores)


# trustworthy-llm 0.0.3 (Apache-2.0, Cleanlab), workflow RAG at quality MEDIUM, without reasoning.
# Weights of reflection and answerability from tlm/config/score_weights.py: for gpt-4.1-mini, and
# for models that give no log probabilities. The perplexity of the response, a further part there,
# exists only where TLM itself generates it.
_REFLECTIONS = {"certainty": 100, "argument": 10, "issues": 100}
_WEIGHTS = 0.639, 0.06
_WEIGHTS_WITHOUT_LOGPROBS = 0.578, 0.06


def tlm(talk: Conversation) -> Score:
    """Return TLM's trustworthiness of a response: self-reflection and answerability."""
    request = render("answer", "user", texts_of(talk.example))[0]["content"]
    grades = []
    for step, most in _REFLECTIONS.items():
        text = talk.ask("tlm", step, max_tokens=64, request=request).text
        grade = float(find(r"<score>\W*(\d+(?:\.\d+)?)\W*</score>", text)[1])
        grades.append(min(1.0, grade / most))
    answer = talk.ask("tlm", "answerability", max_tokens=64, top_logprobs=5, request=request)
    choice = find(r"<choice>\W*(yes|no)\W*</choice>", answer.text)
    parts = sum(grades) / len(grades), probability(answer, choice.start(1), "yes", "no")
    weights = _WEIGHTS if answer.logprobs else _WEIGHTS_WITHOUT_LOGPROBS
    total = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    return Score(total / sum(weights))


def _rating(grade: str, text: str) -> Score:
    if grade not in ("1", "2", "3", "4", "5"):
        raise unparsable(text)
    return Score((int(grade) - 1) / 4)


def _sentences(talk: Conversation) -> list[str]:
    example = talk.example
    spans = example.response_sentences or split_sentences(example.response)
    return [example.response[span.start : span.end] for span in spans]


def _mean(scores: Sequence[float]) -> Score:
    if not scores:
        raise unparsable("no verdicts")
    return Score(sum(scores) / len(scores))


JUDGES: dict[str, Judge] = {
    function.__name__: function
    for function in (likert, chainpoll, lynx, prometheus, ragas, trulens, selfcheck, tlm)
}


def load(name: str, argument: str, setup: Setup) -> System:
    """Return the judge of a name; the argument names another model than that of the run."""
    return prompt_system(name, JUDGES[name], argument, setup)
