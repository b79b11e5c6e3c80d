"""Twins for training: a copy of a row with one small change, made without a language model.

A wrong twin has a number, a digit, date, unit, name or negation changed in the response, or the
evidence removed from the contexts, or one more sentence that the contexts no longer hold; exactly
the changed characters become unsupported: contradicted by the contexts if a value changed, else not
mentioned. A right twin has a value in another form ("1,000" and "1000"), so that digits alone say
nothing. After FactCC (arXiv 1910.12840, 3.1) and BUMP (arXiv 2212.09955).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from trivet.data.sentences import split_sentences
from trivet.data.spans import subtract_spans
from trivet.labelled.augmentation.altered_responses import append_sentence
from trivet.labelled.augmentation.changeable_values import (
    ChangeableValue,
    Kind,
    find_quantities,
    find_values,
    form_of,
    normalize,
    normalize_unit,
    other_form,
    units_like,
    words_before,
)
from trivet.labelled.augmentation.removed_sentences import (
    NEAR_DUPLICATE,
    context_sentences,
    distinct_words,
    remove_evidence,
    remove_sentences,
    share_held,
)
from trivet.records import Evidence, LabelledExample, Span

_NEGATED = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|must|may|does|did|do) not\b", re.IGNORECASE
)
_NEGATABLE = re.compile(r"\b(?:is|are|was|were|can|could|will|would|should|must)\b(?! not\b)")
# After these words a sentence may not assert what follows, and its negation may not be an error:
# "the contexts do not say whether the mill is old". The rest of the sentence is left alone, because
# rules find the end of a clause badly and nearly every response has another verb.
_NOT_ASSERTED_AFTER = re.compile(
    r"\b(?:whether|if|unless|in case|assuming|supposing|provided that|as though|not|cannot|no|none"
    r"|never|nor|neither|nothing|nobody|without|lacks?|fails?|unclear|unknown|unsure|uncertain"
    r"|unspecified|unstated|doubt\w*)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"[0-9]")
_JOINED = re.compile(r"[%/\u00b0-]")
_FEWEST_WORDS, _MAX_WORDS = 5, 40  # of a sentence that becomes a hard neutral
_UNRELATED = 0.34  # share of a response sentence's words up to which a sentence is not its source

MakeTwin = Callable[[LabelledExample, np.random.Generator], LabelledExample | None]


def make_twin(
    labelled: LabelledExample, random: np.random.Generator, foreign: Sequence[str] = ()
) -> LabelledExample | None:
    """Make a twin of a random kind, or ``None`` if no kind is possible.

    Half of the changed numbers, dates and names become one of the same contexts, which counting
    words cannot see, and half one of the ``foreign`` texts, if there are any.
    """
    for kind in draw_kinds(random):
        from_foreign = bool(foreign) and kind in _SWAPPED and random.random() < _FOREIGN_SHARE
        twin = (
            swap_value(labelled, random, _SWAPPED[kind], foreign)
            if from_foreign
            else TWINS[kind](labelled, random)
        )
        if twin is not None:
            return twin
    return None


def draw_kinds(random: np.random.Generator) -> list[str]:
    """Return the kinds of twins in a random order, mostly with the rare ones first."""
    kinds, weights = list(TWINS), np.asarray(list(_WEIGHTS.values()))
    order = random.choice(len(kinds), len(kinds), replace=False, p=weights / weights.sum())
    return [kinds[index] for index in order.tolist()]


def swap_value(
    labelled: LabelledExample,
    random: np.random.Generator,
    kind: Kind,
    foreign: Sequence[str] = (),
) -> LabelledExample | None:
    """Replace a value that the contexts hold by another of theirs, or of ``foreign`` texts.

    The new value is not in the same sentence of the response, and the contexts do not have it
    after the same words; one of foreign texts they do not have at all.
    """
    response = labelled.example.response
    candidates = _values_of(labelled.example.contexts, kind)
    known = {value.normal for value, _ in candidates}
    if foreign:
        new_values = _values_of(foreign, kind)
        candidates = [pair for pair in new_values if pair[0].normal not in known]
    values = [value for value in find_values(response) if value.kind == kind]
    supported_values = [v for v in values if v.normal in known and _is_supported(labelled, v.span)]
    for index in random.permutation(len(supported_values)).tolist():
        value = supported_values[index]
        sentence = _sentence_at(labelled, value.span)
        near = {v.normal for v in values if sentence.start <= v.span.start < sentence.end}
        after = words_before(response, value)
        true = {other.normal for other, before in candidates if before == after} | near
        others = sorted(
            {c.text for c, _ in candidates if _differ(value, c) and c.normal not in true}
        )
        if others:
            new = others[int(random.integers(len(others)))]
            return replace_words(labelled, value.span, new, supported=False)
    return None


def _values_of(texts: Sequence[str], kind: Kind) -> list[tuple[ChangeableValue, tuple[str, ...]]]:
    """Return the values of a kind in some texts, each with the two words before it."""
    values = ((text, value) for text in texts for value in find_values(text))
    return [(value, words_before(text, value)) for text, value in values if value.kind == kind]


def change_digit(labelled: LabelledExample, random: np.random.Generator) -> LabelledExample | None:
    """Change one digit of a number or date that the contexts hold.

    The first digit of several stays. No value of the contexts and none of the response is the new
    one. Values of the contexts alone would teach that a number is right if it is nearly in them.
    """
    texts = labelled.example
    held = {v.normal for text in texts.contexts for v in find_values(text)}
    numeric = ("number", "date")
    values = [v for v in find_values(texts.response) if v.kind in numeric and _DIGIT.search(v.text)]
    supported_values = [v for v in values if v.normal in held and _is_supported(labelled, v.span)]
    taken = held | {v.normal for v in values}
    for index in random.permutation(len(supported_values)).tolist():
        old = supported_values[index].text
        digits = [match.start() for match in _DIGIT.finditer(old)]
        at = digits[int(random.integers(min(1, len(digits) - 1), len(digits)))]
        new = f"{old[:at]}{(int(old[at]) + int(random.integers(1, 10))) % 10}{old[at + 1 :]}"
        if normalize(new) not in taken:
            return replace_words(labelled, supported_values[index].span, new, supported=False)
    return None


def _differ(old: ChangeableValue, new: ChangeableValue) -> bool:
    """Tell whether one value can be mistaken for the other: not equal, written alike."""
    if old.kind == "entity":
        return old.normal not in new.normal and new.normal not in old.normal
    return old.normal != new.normal and form_of(old.text) == form_of(new.text)


def swap_unit(labelled: LabelledExample, random: np.random.Generator) -> LabelledExample | None:
    """Replace the unit of a quantity that the contexts hold by another one of its dimension.

    Units that the contexts mention are preferred. The contexts do not hold the new quantity.
    """
    response, contexts = labelled.example.response, labelled.example.contexts
    held = {quantity.normal for text in contexts for quantity in find_quantities(text)}
    mentioned = {v.normal for text in contexts for v in find_values(text) if v.kind == "unit"}
    # Zero is the same in every unit.
    supported_quantities = [
        quantity
        for quantity in find_quantities(response)
        if quantity.normal in held and quantity.normal[0] and _is_supported(labelled, quantity.unit)
    ]
    for index in random.permutation(len(supported_quantities)).tolist():
        (number, _), unit = supported_quantities[index].normal, supported_quantities[index].unit
        fit = [
            other
            for other in units_like(response[unit.start : unit.end])
            if (number, normalize_unit(other)) not in held
        ]
        others = [other for other in fit if other in mentioned] or fit
        if others:
            new = others[int(random.integers(len(others)))]
            return replace_words(labelled, unit, new, supported=False)
    return None


def negate(labelled: LabelledExample, random: np.random.Generator) -> LabelledExample | None:
    """Add or remove a "not" in what a sentence asserts."""
    response = labelled.example.response
    edits = [(Span(*match.span()), match[1]) for match in _NEGATED.finditer(response)]
    edits += [(Span(*m.span()), f"{m[0]} not") for m in _NEGATABLE.finditer(response)]
    edits = [
        edit
        for edit in edits
        if _is_supported(labelled, edit[0]) and _is_asserted(labelled, edit[0])
    ]
    if not edits:
        return None
    span, new = edits[int(random.integers(len(edits)))]
    return replace_words(labelled, span, new, supported=False)


def _is_asserted(labelled: LabelledExample, span: Span) -> bool:
    """Tell whether a sentence of the response surely asserts what these characters say."""
    response, sentence = labelled.example.response, _sentence_at(labelled, span)
    before = response[sentence.start : span.start]
    is_question = "?" in response[span.end : sentence.end]
    return not is_question and not _NOT_ASSERTED_AFTER.search(before)


def without_evidence(
    labelled: LabelledExample, random: np.random.Generator
) -> LabelledExample | None:
    """Remove the evidence of a sentence from the contexts."""
    named = [evidence.response for evidence in labelled.labels.evidence or () if evidence.contexts]
    return remove_evidence(labelled, named[int(random.integers(len(named)))]) if named else None


def with_hard_neutral(
    labelled: LabelledExample, random: np.random.Generator
) -> LabelledExample | None:
    """Move a sentence that the response does not use from the contexts to the response's end."""
    labels, example = labelled.labels, labelled.example
    if labels.unsupported is None or not example.response.strip():
        return None
    claims = [distinct_words(example.response[s.start : s.end]) for s in _sentences(labelled)]
    sentences = context_sentences(labelled)
    held = [distinct_words(example.contexts[s.context][s.start : s.end]) for s in sentences]
    for index in random.permutation(len(held)).tolist():
        words = held[index]
        if not _FEWEST_WORDS <= len(words) <= _MAX_WORDS:
            continue
        if any(share_held(claim, words) > _UNRELATED for claim in claims):
            continue
        others = [*held[:index], *held[index + 1 :]]
        if any(share_held(words, other) >= NEAR_DUPLICATE for other in others):
            continue
        removed = sentences[index]
        shortened = remove_sentences(labelled, [removed], used=False)
        if shortened is None or shortened.labels.unsupported != labels.unsupported:
            continue
        moved = " ".join(example.contexts[removed.context][removed.start : removed.end].split())
        return append_sentence(shortened, moved, supported=False)
    return None


def rewrite(labelled: LabelledExample, random: np.random.Generator) -> LabelledExample | None:
    """Write a number or date of the response in another form; all labels stay true."""
    response = labelled.example.response
    forms = [(value.span, other_form(value.text)) for value in find_values(response)]
    edits = [
        (span, new)
        for span, new in forms
        if new is not None and not _JOINED.match(response, span.end)  # "11%", "24/7"
    ]
    if not edits:
        return None
    span, new = edits[int(random.integers(len(edits)))]
    return replace_words(labelled, span, new, supported=True)


_SWAPPED: dict[str, Kind] = {"number": "number", "date": "date", "entity": "entity"}
_FOREIGN_SHARE = 0.5  # of the changed numbers, dates and names

TWINS: dict[str, MakeTwin] = {
    **{name: partial(swap_value, kind=kind) for name, kind in _SWAPPED.items()},
    "digit": change_digit,
    "unit": swap_unit,
    "negation": negate,
    "evidence": without_evidence,
    "neutral": with_hard_neutral,
    "rewrite": rewrite,
}
"""The kinds of twins; each function returns ``None`` if the row has no such twin."""


# Values are rare, while nearly every row can be negated: those that are rare are tried first.
_WEIGHTS = dict.fromkeys(TWINS, 1) | {
    **{"number": 6, "date": 6, "digit": 6, "unit": 3},
    **{"entity": 6, "rewrite": 3},
}


def _sentences(labelled: LabelledExample) -> tuple[Span, ...]:
    example = labelled.example
    return example.response_sentences or split_sentences(example.response)


def _sentence_at(labelled: LabelledExample, span: Span) -> Span:
    """Return the sentence of the response in which a span begins."""
    held = (s for s in _sentences(labelled) if s.start <= span.start < s.end)
    return next(held, Span(0, len(labelled.example.response)))


def _is_supported(labelled: LabelledExample, span: Span) -> bool:
    """Tell whether the labels say that these characters of the response are supported."""
    labels = labelled.labels
    if labels.unsupported is None:
        return labels.adherent is True
    return not any(
        other.start < span.end and span.start < other.end
        for other in (*labels.unsupported, *labels.unclear)
    )


def replace_words(
    labelled: LabelledExample, span: Span, new: str, *, supported: bool
) -> LabelledExample:
    """Replace characters of the response; if the new ones are not ``supported``, mark them."""
    example, labels = labelled.example, labelled.labels
    shift = len(new) - (span.end - span.start)

    def moved(offset: int) -> int:
        # A span that began or ended within the old words does so after the new ones.
        return offset if offset <= span.start else max(offset + shift, span.start + len(new))

    def move(old: Span) -> Span:
        return Span(moved(old.start), moved(old.end))

    def move_all(spans: tuple[Span, ...]) -> tuple[Span, ...]:
        return tuple(new for new in map(move, spans) if new.start < new.end)

    response = example.response[: span.start] + new + example.response[span.end :]
    changed = Span(span.start, span.start + len(new))
    evidence = labels.evidence and tuple(
        Evidence(move(item.response), item.contexts) for item in labels.evidence
    )
    unsupported = None if labels.unsupported is None else move_all(labels.unsupported)
    unclear, adherent = move_all(labels.unclear), labels.adherent
    conflicts = labels.known_conflicts()
    conflicts = None if conflicts is None else move_all(conflicts)
    if not supported:
        known = unsupported if unsupported is not None else ()
        unsupported = tuple(sorted([*known, changed], key=lambda marked: marked.start))
        adherent = False
        conflicts = None if conflicts is None else (*conflicts, changed)
        evidence = evidence and tuple(
            Evidence(piece, item.contexts)
            for item in evidence
            for piece in subtract_spans(response, [item.response], [changed])
        )
    return replace(
        labelled,
        example=replace(
            example,
            response=response,
            response_sentences=example.response_sentences and move_all(example.response_sentences),
        ),
        labels=replace(
            labels,
            unsupported=unsupported,
            unclear=unclear,
            contradicted=conflicts,
            evidence=evidence,
            adherent=adherent,
        ),
    )
