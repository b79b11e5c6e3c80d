"""Judges of claims: RAGAS, DeepEval and TruLens by their own prompts, and SelfCheckGPT."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from trivet.errors import ExampleError
from trivet.peers.claims import response_spans
from trivet.peers.llm_peer import Conversation, find, llm_peer, unparsable
from trivet.peers.peer import Peer, PeerScore, PeerSetup

SAMPLES = 5
"""Answers that SelfCheckGPT compares with; its paper samples 20."""

_MOST = 3  # score of a grounded statement in TruLens
_INTEGER = TypeAdapter(int)
_LIST_NUMBER = re.compile(r"\s*\d+[.)]?\s*")


def ragas(talk: Conversation) -> PeerScore:
    """Return RAGAS's faithfulness: the share of statements that the contexts imply."""
    statements = _texts(talk.ask_json("ragas_statements", "statements"))
    if not statements:
        raise ExampleError("the answer has no statements", "no_statements")
    verdicts = talk.ask_json("ragas_verdicts", "statements", statements=statements)
    return _mean([1.0 if _integer(each) else 0.0 for each in _list(verdicts)])


def deepeval(talk: Conversation) -> PeerScore:
    """Return DeepEval's faithfulness: the share of claims that no truth contradicts.

    A claim that the contexts do not mention passes. The claims are held against truths that the
    model takes from the contexts, and flagged below .5.
    """
    truths = _texts(talk.ask_json("deepeval_truths", "truths"))
    claims = _texts(talk.ask_json("deepeval_claims", "claims"))
    if not claims:
        return PeerScore.at(0.5, 1.0)
    verdicts = _list(talk.ask_json("deepeval_verdicts", "verdicts", truths=truths, claims=claims))
    if len(verdicts) != len(claims):
        raise unparsable(f"{len(verdicts)} verdicts on {len(claims)} claims")
    passed = [_choice(each, {"yes": 1, "borderline": 1, "no": 0}) for each in verdicts]
    return PeerScore.at(0.5, sum(passed) / len(passed))


def trulens(talk: Conversation) -> PeerScore:
    """Return TruLens's groundedness: the mean score of the statements that are not trivial.

    As there, numbers of a list are no statements, all statements stay if the list of those to keep
    cannot be read, and a response of trivial statements alone has groundedness 0.
    """
    response = talk.example.response
    statements = [response[one.start : one.end] for one in response_spans(talk.example)]
    statements = [each for each in statements if not _LIST_NUMBER.fullmatch(each)]
    kept = talk.ask("trulens_trivial", statements=statements).text
    with contextlib.suppress(SyntaxError, ValueError, ExampleError):
        statements = [str(each) for each in _list(ast.literal_eval(kept.strip()))]
    if not statements:
        return PeerScore(0.0)
    scores = [talk.ask_json("trulens_statement", "score", statement=each) for each in statements]
    if not all(type(score) is int and 0 <= score <= _MOST for score in scores):
        raise unparsable(f"scores {scores}")
    return _mean([score / _MOST for score in scores])


def selfcheck(talk: Conversation) -> PeerScore:
    """Return 1 minus SelfCheckGPT's inconsistency with answers sampled from the same contexts."""
    passages = [
        talk.ask("answer", temperature=1.0, sample=number).text.replace("\n", " ")
        for number in range(SAMPLES)
    ]
    response = talk.example.response
    sentences = [response[one.start : one.end] for one in response_spans(talk.example)]
    scores = []
    for sentence in sentences:
        said = [
            talk.ask("selfcheck", max_tokens=5, passage=passage, sentence=sentence).text
            for passage in passages
        ]
        supported = [find(r"\A\W*(yes|no)", text)[1].lower() == "yes" for text in said]
        scores.append(sum(supported) / SAMPLES)
    return _mean(scores)


def _mean(scores: Sequence[float]) -> PeerScore:
    if not scores:
        raise unparsable("no verdicts")
    return PeerScore(sum(scores) / len(scores))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise unparsable(str(value))
    return value


def _texts(value: Any) -> list[str]:
    if not all(isinstance(each, str) for each in _list(value)):
        raise unparsable(str(value))
    return list(value)


def _field(record: Any, name: str) -> Any:
    if not isinstance(record, dict) or name not in record:
        raise unparsable(str(record))
    return record[name]


def _integer(record: Any) -> int:
    """Return a record's verdict as RAGAS reads it: 1, 1.0 or "1", on a statement."""
    _field(record, "statement")
    try:
        return _INTEGER.validate_python(_field(record, "verdict"))
    except ValidationError as error:
        raise unparsable(str(record)) from error


def _choice(record: Any, values: dict[Any, int]) -> int:
    """Return the value of a record's verdict."""
    verdict = _field(record, "verdict")
    verdict = verdict.strip().lower() if isinstance(verdict, str) else verdict
    if not isinstance(verdict, (str, int)) or verdict not in values:
        raise unparsable(str(record))
    return values[verdict]


JUDGES = {"ragas": ragas, "deepeval": deepeval, "trulens": trulens, "selfcheck": selfcheck}


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return the judge of a kind; the argument names another model than that of the run."""
    return llm_peer(kind, JUDGES[kind], argument, setup)
