"""Last sentences of a response: offers and courtesies, and claims, alone or in their form.

"Do you want me to make a table of this?" says nothing that contexts could support, so it needs no
support; "Did you know that the bridge is closed?" does.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from trivet.data.labelled.augmentation.altered_responses import append_sentence
from trivet.data.labelled.augmentation.values import find_values
from trivet.records import LabelledExample

_SLOT = "{topic}"
_ANY_TOPIC = "this topic"
_PLAIN = "{}."  # the claim alone
_CLAIMING = (
    *(_PLAIN,) * 6,
    *("Did you know that {}?", "By the way, {}.", "Remember that {}.", "Please note that {}."),
    *("I hope this helps, and keep in mind that {}.", "Would you like to know why {}?"),
    *("Let me know if you need more; {}.", "Is it clear to you that {}?", "Also, {}."),
)


@cache
def remarks() -> tuple[str, ...]:
    """Return sentences that need no support; in some, ``{topic}`` is the place of a name.

    A language model wrote them.
    """
    text = files(__package__).joinpath("closings.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())


def append_remark(labelled: LabelledExample, random: np.random.Generator) -> LabelledExample:
    """Append an offer or a courtesy to the response, which needs no support."""
    if not labelled.example.response.strip():
        return labelled
    remark = remarks()[int(random.integers(len(remarks())))]
    names = sorted(
        {
            value.text
            for text in labelled.example.contexts
            for value in find_values(text)
            if value.kind == "entity"
        }
    )
    name = names[int(random.integers(len(names)))] if names else _ANY_TOPIC
    return append_sentence(labelled, remark.replace(_SLOT, name), supported=True)


def append_claim(
    labelled: LabelledExample, claim: str, random: np.random.Generator
) -> LabelledExample:
    """Append an unsupported sentence of unrelated contexts, alone or in the form of a closing."""
    if not labelled.example.response.strip():
        return labelled
    form = _CLAIMING[int(random.integers(len(_CLAIMING)))]
    words = " ".join(claim.split()).rstrip(".!?:;")
    if form is not _PLAIN and any(
        f" {words.split()[0].lower()} " in text for text in (claim, *labelled.example.contexts)
    ):
        words = words[0].lower() + words[1:]  # not a name
    return append_sentence(labelled, form.format(words), supported=False)
