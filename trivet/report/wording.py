"""Words for verdicts, the same everywhere that people read: *supported* and *unsupported*."""

from __future__ import annotations

from trivet.records import Evaluation, SentenceVerdict

SUPPORTED, UNSUPPORTED, POSSIBLY = "supported", "unsupported", "possibly unsupported"
NO_CLAIM, ABSTAINS, NO_RESPONSE = "no claim", "abstains", "no response"
NEAR = 0.05
"""Margin of support below the threshold in which a verdict reads *possibly unsupported*.

On RAGBench's dev rows 5 of the 13 answers flagged within it are labelled unsupported, and 18 of the
30 below it.
"""


def is_near(score: float | None, threshold: float | None) -> bool:
    """Return whether a score below the threshold is within ``NEAR`` of it."""
    return score is not None and threshold is not None and threshold - NEAR <= score < threshold


def answer_word(adherent: bool, faithfulness: float | None, threshold: float | None) -> str:
    """Return the verdict on an answer in words."""
    if adherent:
        return SUPPORTED
    return POSSIBLY if is_near(faithfulness, threshold) else UNSUPPORTED


def verdict_word(verdict: Evaluation) -> str:
    """Return a verdict in words; empty if the response was not judged."""
    if verdict.adherent is None:
        return ""
    if verdict.adherent and verdict.abstains:
        return ABSTAINS
    return answer_word(verdict.adherent, verdict.faithfulness, verdict.threshold)


def sentence_word(
    sentence: SentenceVerdict, faithfulness: float | None, threshold: float | None
) -> str:
    """Return the verdict on a sentence in words, given the answer's score and threshold.

    A sentence is unsupported if its support and the answer's faithfulness are both below the
    threshold, so the higher of the two says how near it is.
    """
    if sentence.supported is None:
        return NO_CLAIM
    if sentence.supported:
        return ABSTAINS if sentence.abstains else SUPPORTED
    score = max(sentence.support or 0.0, faithfulness or 0.0)
    return POSSIBLY if is_near(score, threshold) else UNSUPPORTED


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
