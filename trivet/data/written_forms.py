"""Ways of writing that say the same, and are read alike.

A small encoder does not know that 12,000 is 12000 or that a heading's marks say nothing, and a
word list cuts "€640" into other pieces than "640 euros". The forms are part of a tokenizer, so a
bundle's ``tokenizer.json`` holds them; the offsets of its tokens stay those of the text.
"""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

# What is read in place of what. Each pattern takes time that is linear in the text.
_RULE = r"[ \t]*:?-{3,}:?[ \t]*"
_REPLACED = (
    (r"^[ \t]*#{1,6}[ \t]+", ""),  # marks of a markdown heading
    (rf"^(?:[ \t]*\|)?{_RULE}(?:\|{_RULE})*(?:\|[ \t]*)?$", ""),  # a table's line, or a rule
    (r"^[ \t]*\||\|[ \t]*$", ""),  # borders of a table's row
    (r"(?<=\s)\|(?=\s)", ","),  # border between its cells
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),  # digit groups
)
# WordPiece takes "$" for a word of its own, and "€" or "≥" for the beginning of one.
_SYMBOLS = r"[\p{Sc}\p{Sm}](?=\d)"


def unify_forms(tokenizer: Tokenizer) -> None:
    """Make a tokenizer read "12,000" as "12000", "€640" as "€ 640", and text without markup.

    A tokenizer that does so already stays as it is.
    """
    if _REPLACED[-1][0] in repr(tokenizer.normalizer):
        return
    forms = [normalizers.Replace(Regex(pattern), new) for pattern, new in _REPLACED]
    own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([*forms, *own])
    if isinstance(tokenizer.model, models.WordPiece):
        symbols = pre_tokenizers.Split(Regex(_SYMBOLS), "isolated")
        words = [] if tokenizer.pre_tokenizer is None else [tokenizer.pre_tokenizer]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*words, symbols])
