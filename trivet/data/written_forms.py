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
# Characters, and the entities of HTML that are read as each; any other number is read as a space.
_ENTITIES = {
    "'": "apos|[lr]squo|#0?39|#821[67]|#[xX]0{0,2}(?:27|201[89])",
    '"': "quot|[lr]dquo|#34|#822[01]|#[xX]0{0,2}(?:22|201[cCdD])",
    "-": "[nm]dash|minus|#821[12]|#[xX]201[34]",
    "<": "lt|#60|#[xX]3[cC]",
    ">": "gt|#62|#[xX]3[eE]",
    "€": "euro|#8364|#[xX]20[aA][cC]",
    "£": "pound|#163|#[xX][aA]3",
    "°": "deg|#176|#[xX][bB]0",
    "½": "frac12|#189|#[xX][bB][dD]",
    "¼": "frac14|#188|#[xX][bB][cC]",
    "¾": "frac34|#190|#[xX][bB][eE]",
    **{letter: rf"{letter}(?:acute|grave|circ|uml|tilde|cedil|ring)" for letter in "aeiounc"},
    "&": "amp|#38|#[xX]26",
    " ": r"nbsp|hellip|bull|middot|#\d{1,7}|#[xX][\da-fA-F]{1,6}",
}
# Marks of Markdown and HTML, what is read in place of each, and what each of them has.
_MARKUP = (
    (r"<!--[\s\S]{0,300}?-->", " ", "<!--"),
    (rf"</?(?i:{_TAGS})(?:\s[^<>]{{0,300}})?/?>", " ", "<"),
    (rf"^{_SPACE}#{{1,6}}[ \t]{{1,99}}", "", "#"),  # of a heading
    (rf"^{_SPACE}[-*+•][ \t]{{1,99}}(?=\S)", "", ""),  # of a list item
    (r"`{1,3}", "", "`"),
    (r"!?\[(?=[^\[\]\n]{1,300}\]\()", "", "["),  # before the text of a link
    # after it, with its target and title
    (r"\]\([^()\s]{1,300}(?:\s[\"'][^\"'\n]{0,200}[\"'])?\)", "", "]("),
    (r"(?<![\w*])\*{1,3}(?=[^\s*])|(?<=[^\s*])\*{1,3}(?![\w*])", "", "*"),
    (r"(?<!\w)_{1,3}(?=[^\W_])|(?<=[^\W_])_{1,3}(?!\w)", "", "_"),
    (r"(?<!\w)~~(?=\S)|(?<=\S)~~(?!\w)", "", "~~"),
    *((rf"&(?:{names});", new, "&") for new, names in _ENTITIES.items()),
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
TABLE_RULE = re.compile(rf"[ \t]{{0,99}}\r?\n{_SPACE}{_RULE}{_SPACE}(?=\r?\n|$)")
"""Line below a table's head: its rule."""
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
    existing = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
    tokenizer.normalizer = normalizers.Sequence([*forms, *existing])
    if isinstance(tokenizer.model, models.WordPiece):
        symbols = pre_tokenizers.Split(Regex(_SYMBOLS), "isolated")
        words = [] if tokenizer.pre_tokenizer is None else [tokenizer.pre_tokenizer]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*words, symbols])
