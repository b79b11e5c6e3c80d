"""Ways of writing that say the same, and are read alike.

A small encoder does not know that 12,000 is 12000 or that the marks of Markdown and HTML say
nothing, and a word list cuts "€640" into other pieces than "640 euros". The forms are part of a
tokenizer, so a bundle's ``tokenizer.json`` holds them; the offsets of its tokens stay those of the
text. Commas in lists such as "100,200,300" are taken for those of digit groups, in contexts as in
responses.
"""

from __future__ import annotations

import re

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

# Repetitions are bounded, because the regex engine panics after ten million steps.
_SPACE, _LINE_END = r"[ \t]{0,99}", r"(?=\r?$)"
_CELL = r"[ \t:]{0,99}-{1,99}[ \t:]{0,99}"  # of a table's rule, such as ":---:"
_RULE = rf"(?:-{{3,99}}|\|{_CELL}(?:\|{_CELL}){{0,99}}\|?|{_CELL}(?:\|{_CELL}){{1,99}}\|?)"
_TAGS = (
    "a|b|i|u|s|p|br|em|strong|code|pre|sup|sub|span|div|mark|small|font|ul|ol|li|dl|dt|dd|h[1-6]"
    "|table|thead|tbody|tr|td|th|caption|img|hr|blockquote|section|article"
)
# Marks of Markdown and HTML, what is read in place of each, and what each of them has.
_MARKUP = (
    (rf"</?(?:{_TAGS})(?:\s[^<>]{{0,300}})?/?>", " ", "<"),
    (rf"^{_SPACE}#{{1,6}}[ \t]{{1,99}}", "", "#"),  # of a heading
    (rf"^{_SPACE}[-*+•][ \t]{{1,99}}(?=\S)", "", ""),  # of a list item
    (r"`{1,3}", "", "`"),
    (r"!?\[(?=[^\[\]\n]{1,300}\]\()", "", "["),  # before the text of a link
    (r"\]\([^()\s]{1,300}\)", "", "]("),  # after it, with its target
    (r"(?<![\w*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])", "", "*"),
    (r"(?<!\w)_{1,3}(?=[^\W_])|(?<=[^\W_])_{1,3}(?!\w)", "", "_"),
    (r"(?<!\w)~~(?=\S)|(?<=\S)~~(?!\w)", "", "~~"),
    (r"&nbsp;", " ", "&"),
    (r"&amp;", "&", "&"),
    (r"&lt;", "<", "&"),
    (r"&gt;", ">", "&"),
    (r"&quot;", '"', "&"),
    (r"&(?:#39|apos);", "'", "&"),
    # rule of a table or between paragraphs
    (rf"^{_SPACE}{_RULE}{_SPACE}{_LINE_END}", "", "-"),
    (rf"^{_SPACE}\||\|{_SPACE}{_LINE_END}", "", "|"),  # outer borders of a table's row
    (r"(?<=\s)\|(?=\s)", ",", "|"),  # border between its cells
)
_REPLACED = (
    *((pattern, new) for pattern, new, _ in _MARKUP),
    (r"(?<=\d)(?<!\d{4}),(?=\d{3}(?!\d))", ""),  # comma of digit groups
)
_MARKS = tuple((re.compile(pattern, re.MULTILINE), new, part) for pattern, new, part in _MARKUP)
_NUMBERS = r"\d{1,3}(?:\s*[-\u2013]\s*\d{1,3})?"
CITATION_MARK = re.compile(rf"\[\s*({_NUMBERS}(?:\s*[,;]\s*{_NUMBERS})*)\s*\]")
"""A citation mark: ``[1]``, ``[1, 3]``, ``[1-3]``."""
ANY_MARK = re.compile(r"[*_`<\[&#|~]|^\s*[-+•]|---", re.MULTILINE)
# WordPiece takes "$" for a word of its own, and "€" or "≥" for the beginning of one.
_SYMBOLS = r"[\p{Sc}\p{Sm}](?=\d)"


def blank_markup(text: str) -> str:
    """Return a text of the same length, with spaces for the marks of Markdown and HTML.

    One without ``ANY_MARK`` has none.
    """
    for pattern, new, part in _MARKS:
        if part in text:
            text = pattern.sub(lambda match, new=new: new.ljust(len(match[0])), text)  # type: ignore[misc]
    return text


def unifies_forms(tokenizer: Tokenizer) -> bool:
    """Tell whether ``unify_forms`` has changed a tokenizer."""
    return _REPLACED[-1][0] in repr(tokenizer.normalizer)


def unify_forms(tokenizer: Tokenizer) -> None:
    """Make a tokenizer read 12,000 as 12000, and Markdown and HTML without their marks.

    One with a word list also reads "€640" as "€ 640". A tokenizer that does so already stays as it
    is.
    """
    if unifies_forms(tokenizer):
        return
    forms = [normalizers.Replace(Regex(pattern), new) for pattern, new in _REPLACED]
    own = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([*forms, *own])
    if isinstance(tokenizer.model, models.WordPiece):
        symbols = pre_tokenizers.Split(Regex(_SYMBOLS), "isolated")
        words = [] if tokenizer.pre_tokenizer is None else [tokenizer.pre_tokenizer]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*words, symbols])
