"""Questions and short answers in other words, made of one sentence of the contexts by rules.

"The old mill on the river was built in 1790." becomes "When was the old mill on the river built?"
with "In 1790.", "It was in 1790." or "It was built in 1790." as response. Such answers of few words
are what users ask for, and no training set here has wrong ones; with ``twins`` the rules make them
too. English only; a sentence that the rules do not fit is only not used. In the spirit of
QA2D (arXiv 1809.02922), in the other direction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trivet.data.labelled.augmentation.removed_sentences import context_sentences, text_of
from trivet.data.labelled.augmentation.values import find_values
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, Span

# Subject, verb and the rest of a plain statement. The first verb of the sentence ends the subject.
_STATEMENT = re.compile(
    r"(?P<subject>[A-Z][\w'\u2019-]*(?: [\w'\u2019-]+){0,8}?)"
    r" (?P<verb>is|was|are|were|has|had|have|can|will) (?P<rest>[^\n?]+)"
)
# What no pronoun may stand for, or what makes the sentence another one's part.
_NO_SUBJECT = re.compile(
    r"(?:it|its|this|that|these|those|there|here|they|their|he|his|she|her|we|our|you|your|i|my|as"
    r"|if|when|while|where|what|which|who|how|why|because|since|although|though|but|and|or|so|after"
    r"|before|in|on|at|by|for|from|with|to|of|not|no|none|nothing|nobody|neither|then|also|both"
    r"|each|some|many|one|another|other|among|below|above|under)\b",
    re.IGNORECASE,
)
# After such a word a part of the sentence may not be true by itself.
_CONDITION = re.compile(
    r"\b(?:if|unless|whether|not|never|no|nor|cannot|without|only|except|until|may|might|could"
    r"|would|should|than|between|either|or)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[;:(]|,? (?:which|who|whose|where|while|but|although|because)\b|, ")
_BEFORE_DATE = re.compile(r"(?:^| )((?:in|on|since|by|until|around|about) )$")
_MOST_WORDS = 12  # of the part of the sentence that the longest answer repeats
_DIGIT = re.compile(r"[0-9]")
_NUMBERS_FIRST = 0.7  # share of rows in which sentences with a number, rarer than names, come first
_PRONOUNS = 1 / 3  # share of answers that repeat the statement, with a pronoun as its subject
_QUESTIONS_ABOUT = ("What is known about {}?", "Tell me about {}.", "What about {}?", "{}?")
_ANSWERS = (
    *("{}.", "{}", "It is {}.", "The answer is {}.", "That would be {}."),
    "According to the text, {}.",
)
_DATE_ANSWERS = ("{}.", "{}", "It was {}.", "That was {}.", "This happened {}.")


class ShortAnswer(NamedTuple):
    """A question and its answer."""

    question: str
    response: str


def answer_shortly(
    labelled: LabelledExample, random: np.random.Generator
) -> LabelledExample | None:
    """Replace question and response by ones about a value of a random sentence of the contexts.

    The response is supported by that sentence; relevance and utilization become unknown. ``None``
    if the rules fit no sentence.
    """
    sentences = context_sentences(labelled)
    texts = [text_of(labelled, sentence) for sentence in sentences]
    order = random.permutation(len(sentences)).tolist()
    if random.random() < _NUMBERS_FIRST:
        order.sort(key=lambda place: not _DIGIT.search(texts[place]))
    for place in order:
        found = short_answer(texts[place], random)
        if found is not None:
            return _with_answer(labelled, found, sentences[place])
    return None


def short_answer(sentence: str, random: np.random.Generator) -> ShortAnswer | None:
    """Make a question and a short answer of a sentence, or ``None`` if the rules do not fit it."""
    match = _STATEMENT.match(" ".join(sentence.split()))
    if match is None or _NO_SUBJECT.match(match["subject"]):
        return None
    subject, verb, rest = match.groups()
    clause_end = _CLAUSE_END.search(rest)
    rest = rest[: clause_end and clause_end.start()].rstrip(" .!")
    if len(rest.split()) > _MOST_WORDS or _CONDITION.search(f"{subject} {rest}"):
        return None
    said = f"{verb} {rest}"  # a number at the start of a text would be that of a list item
    values = [v for v in find_values(said) if v.kind != "unit" and said[v.span.start - 1] == " "]
    if not values:
        return None
    if subject.split()[0] in ("The", "A", "An"):
        subject = subject[0].lower() + subject[1:]
    if random.random() < _PRONOUNS:
        pronoun = "They" if verb in ("are", "were", "have") else "It"
        question = _choose(_QUESTIONS_ABOUT, random).format(subject)
        return ShortAnswer(question[0].upper() + question[1:], f"{pronoun} {said}.")
    value = values[int(random.integers(len(values)))]
    before, after = said[len(verb) + 1 : value.span.start], said[value.span.start :]
    when = _BEFORE_DATE.search(before) if value.kind == "date" else None
    if when is not None:
        asked, before = "When", before[: when.start()]
        text = _choose(_DATE_ANSWERS, random).format(when[1] + value.text)
    else:
        asked = "Who" if value.kind == "entity" and before.endswith("by ") else "What"
        text = _choose(_ANSWERS, random).format(after)
    question = f"{asked} {verb} {subject} {before}".rstrip() + "?"
    return ShortAnswer(question, text[0].upper() + text[1:])


def _choose(forms: Sequence[str], random: np.random.Generator) -> str:
    return forms[int(random.integers(len(forms)))]


def _with_answer(
    labelled: LabelledExample, found: ShortAnswer, source: ContextSpan
) -> LabelledExample:
    whole = Span(0, len(found.response))
    return replace(
        labelled,
        example=replace(
            labelled.example,
            question=found.question,
            response=found.response,
            response_sentences=(whole,),
        ),
        labels=Labels(unsupported=(), adherent=True, evidence=(Evidence(whole, (source,)),)),
        generator=None,
    )
