"""Edits of a supported response by a language model, checked and applied to the exact character.

The model names words of the response and their replacement; it never rewrites the response itself,
so the place of every error is known. The limits are those of LettuceDetect 0.2.3
(``generation/injection.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from trivet.errors import ExampleError
from trivet.labelled.augmentation.twins import replace_words
from trivet.records import LabelledExample, Span

Kind = Literal["numeric", "temporal", "entity", "relational", "omission", "overgeneralised"]
KINDS: Mapping[Kind, str] = {
    "numeric": "a number, amount, percentage or unit becomes another one",
    "temporal": "a date, time, duration or order of events becomes another one",
    "entity": "a person, place, organisation, product or term becomes another one of its type",
    "relational": "cause, comparison, role or direction between two things is changed",
    "omission": "a condition, exception or qualifier is left out, so that the rest says too much",
    "overgeneralised": "some, often or may becomes all, always or must",
}
"""The kinds of edits, and what each one does."""

SHORTEST, LONGEST = 4, 500
"""Characters that an edit may replace, and that may replace them."""
_SHARES = ((200, 0.80), (500, 0.60), (1500, 0.45))  # largest share changed, by characters up to
_SHARE_OF_LONG = 0.40
_FEWEST_WORDS = 4  # of a sentence that is looked for in the contexts
# Words by which a reader knows an edit without reading the contexts, and remains of a prompt.
_LEAKS = re.compile(
    r"\b(?:hallucinat\w*|incorrect\w*|wrong\w*|inaccura\w*|erroneous\w*|untrue|fabricat\w*"
    r"|made[- ]up|deprecated|bugs?|buggy|unsupported|contradict\w*|perturb\w*|edited|altered"
    r"|as an ai|json|original text|changed text)\b|\[\.\.\.\]|\.\.\.$|```|[{}]",
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+(?:[.,:'\u2019/-]\w+)*|\s+|.", re.DOTALL)


class Edit(BaseModel):
    """Words of a response and their replacement."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    original: str
    changed: str


class Edits(BaseModel):
    """The answer of the model: edits in order of preference."""

    model_config = ConfigDict(extra="forbid")

    edits: list[Edit]


@dataclass(frozen=True, slots=True)
class Perturbation:
    """A response with errors at known places.

    Attributes:
        row: The row with the changed response and its labels.
        edits: Edits that were applied, in the order of the response.
        refused: Reasons for which the other edits were not.
    """

    row: LabelledExample
    edits: tuple[Edit, ...]
    refused: tuple[str, ...]


def apply_edits(labelled: LabelledExample, edits: Sequence[Edit]) -> Perturbation:
    """Apply the edits that pass all checks; exactly the words that differ become unsupported.

    An edit of which only words are deleted marks all of its replacement.

    Args:
        labelled: A row whose whole response is supported.
        edits: Edits in order of preference: one that overlaps an earlier one is refused.

    Raises:
        ExampleError: No edit passes; the message names the reasons and can be sent back to the
            model.
    """
    response = labelled.example.response
    taken: list[tuple[Span, Span, str, Edit]] = []  # words named, words replaced, replacement
    refused: list[str] = []
    for edit in edits:
        try:
            named, span, new = _place(labelled, edit)
            if any(named.start < other.end and other.start < named.end for other, *_ in taken):
                raise ExampleError("overlaps another edit")
            changed = sum(len(other) for _, _, other, _ in taken) + len(new)
            if changed > (most := largest_share(len(response))) * len(response):
                raise ExampleError(f"changes more than {most:.0%} of the answer")
        except ExampleError as error:
            refused.append(f"the edit of {edit.original[:60]!r} {error}")
        else:
            taken.append((named, span, new, edit))
    if not taken:
        raise ExampleError("; ".join(refused) or "there is no edit in it", code="no_edit")
    taken.sort(key=lambda one: one[0].start)
    row = labelled
    for _, span, new, _ in reversed(taken):  # the last first: the others stay where they are
        row = replace_words(row, span, new, supported=False)
    return Perturbation(row, tuple(edit for *_, edit in taken), tuple(refused))


def largest_share(characters: int) -> float:
    """Return the largest share of a response that edits may change, by the response's length."""
    return next((share for most, share in _SHARES if characters <= most), _SHARE_OF_LONG)


def _place(labelled: LabelledExample, edit: Edit) -> tuple[Span, Span, str]:
    """Return the words that an edit names, those of them that differ, and their replacement.

    Raises:
        ExampleError: The edit cannot be used; the message follows "the edit of ...".
    """
    response = labelled.example.response
    original, changed = edit.original.strip(), edit.changed.strip()
    for name, text in (("original", original), ("changed", changed)):
        if not SHORTEST <= len(text) <= LONGEST:
            raise ExampleError(
                f"has {len(text)} characters in {name!r}, which must have {SHORTEST} to {LONGEST}"
            )
    found = [Span(*match.span()) for match in _whole_words(original).finditer(response)]
    if len(found) != 1:
        raise ExampleError(
            f"names words that occur {len(found)} times in the answer; copy them exactly, with "
            "enough of their neighbours that they occur once"
        )
    if _comparable(original) == _comparable(changed):
        raise ExampleError("changes nothing")
    if leak := next((m for m in _LEAKS.finditer(changed) if m[0] not in original), None):
        raise ExampleError(f"gives itself away by {leak[0]!r}")
    span = found[0]
    start, end, new = _differing(response[span.start : span.end], changed)
    edited = response[: span.start] + changed + response[span.end :]
    if _is_quoted(edited, Span(span.start, span.start + len(changed)), labelled.example.contexts):
        raise ExampleError("makes a sentence that the contexts contain")
    return span, Span(span.start + start, span.start + end), new


def _whole_words(words: str) -> re.Pattern[str]:
    """Return a pattern that finds words with any white space between them, not within others."""
    before = r"(?<!\w)" if words[0].isalnum() else ""
    after = r"(?!\w)" if words[-1].isalnum() else ""
    return re.compile(before + r"\s+".join(map(re.escape, words.split())) + after)


def _comparable(text: str) -> str:
    """Return the form in which texts are equal that differ in white space, case or 1,000 alone."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", " ".join(text.casefold().split()))


def _differing(old: str, new: str) -> tuple[int, int, str]:
    """Return the characters of ``old`` to replace, start and end, and their replacement."""
    ours, theirs = _WORDS.findall(old), _WORDS.findall(new)
    shorter = min(len(ours), len(theirs))
    pairs = list(zip(ours, theirs, strict=False))
    head = next((n for n, (a, b) in enumerate(pairs) if a != b), shorter)
    pairs = list(zip(reversed(ours[head:]), reversed(theirs[head:]), strict=False))
    tail = next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))
    if not "".join(theirs[head : len(theirs) - tail]).strip():  # words were only deleted
        return 0, len(old), new
    # White space at the ends would mark wrong tokens.
    head -= theirs[head].isspace()
    tail -= theirs[len(theirs) - tail - 1].isspace()
    left = "".join(theirs[head : len(theirs) - tail])
    start, end = len("".join(ours[:head])), len(old) - len("".join(ours[len(ours) - tail :]))
    return start, end, left


def _is_quoted(response: str, edit: Span, contexts: Sequence[str]) -> bool:
    """Tell whether the words around an edit, up to the ends of its sentence, are in a context."""
    before = re.split(r"[.!?\n]\s", response[: edit.start])[-1]
    after = re.split(r"[.!?\n](?:\s|$)", response[edit.end :])[0]
    sentence = _comparable(before + response[edit.start : edit.end] + after)
    # A few words may be found anywhere and say something else there.
    is_claim = sentence.count(" ") >= _FEWEST_WORDS - 1
    return is_claim and any(sentence in _comparable(context) for context in contexts)
