"""Text of unknown origin as a page may hold it: what cannot be seen is spelled out.

Escaping is the template's affair and comes after: here a text stays a plain text.
"""

from __future__ import annotations

import re

# Marks that turn the direction of what follows, and characters without width: a reader would see
# another text than the judge. The joiners U+200C and U+200D stay, scripts and emoji need them.
_UNSEEN = re.compile(
    "[\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shown_text(text: str) -> str:
    """Return a text that shows all it holds.

    Direction marks, characters without width and lone surrogates become ``[U+202E]``; controls
    become U+FFFD, but for line breaks and tabs.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _UNSEEN.sub(lambda found: f"[U+{ord(found.group()):04X}]", text)
    return _CONTROLS.sub("\ufffd", text)
