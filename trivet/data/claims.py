"""Sentences of a response that claim nothing, and sentences that abstain from an answer.

A greeting, an offer, a courtesy, a heading, the frame of a table or a fence and what a model
thought before it answered have nothing to check. An abstention denies knowledge or mention and does
nothing else: a further clause, and a value or quotation that neither question nor contexts have,
are claims all the same ("The passages do not say who built it, and it was burnt down"). The rules
are for English.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from trivet.data.sentence_features import NO_CONTEXTS, ContextValues, FoundValue, content_words
from trivet.data.values import find_values
from trivet.data.written_forms import CITATION_MARK, TABLE_RULE
from trivet.records import Span

SentenceRole = Literal["claim", "no_claim", "abstention"]

# Classes of words, by the name that patterns have for them.
_CLASSES = {
    "given": "given|provided|available|supplied|retrieved|above|indexed",
    "paper": "documents?|documentation|texts?|articles?|pages?|materials?|references?|results?"
    "|records?|handbook|manual",
    "the": "(?:the|this|these|those|that|any|your|our|my|each|neither) ",
    "source": "SRC|PAPER",
    "say": r"(?:mention|say|state|specif|address|discuss|indicate|answer|tell|explain|describe"
    r"|clarif|disclose|refer to|let me say|let me tell)\w{0,3}",
    "hold": "(?:contain|provide|include|give|offer|have|has|show|report|reveal|confirm|name|list"
    "|cover|make)s?",
    "tell": r"(?:answer|determine|find|tell|help|say|confirm|verify|respond|assist|identify|locate"
    r"|see|know|(?:provide|give|offer|share) (?:[\w-]+ ){0,4}?(?:answer|information|detail"
    r"|explanation|advice|guidance)s?)\b",
    "named": "mentioned|specified|stated|indicated|listed|detailed",
    "stated": "<named>|disclosed|addressed|discussed|described|explained",
    "got": "provided|given|available|answered|determined|found|included|covered|known|clear|named"
    "|said",
    "news": "information|info|mention|details?|answers?|references?|indication|specifics",
    "facts": "data|evidence|records?|results?|context|idea|knowledge|advice",
    "asked": "who|whom|whose|what|when|where|why|how|whether|which|if|about|that|this|it|so",
    "text": r"(?:[\w-]+ ){0,4}?(?:<news>|<facts>|<source>|questions?|topics?|subject|section)",
    "in": r"(?:in|by|from|among|within|part of|with) <source>|here\b|anywhere\b",
    "is": "is|are|was|were",
    "is_not": "<is> not|(?:can|could) not be",
    "no": r"(?:no|not any|not enough|not sufficient|insufficient|too little|nothing)"
    r" (?:[\w-]+ ){0,3}?",
    "subject": r"(?:[\w'-]+ ){0,8}?",
    "end": r"\W*$",
    "contrast": "but|because|since|while|whereas|although|though|so|then",
}


def _pattern(*forms: str) -> re.Pattern[str]:
    """Compile a pattern of any of some forms, in which ``<name>`` is a class of words."""
    form = "|".join(forms)
    while named := re.search(r"<(\w+)>", form):
        form = form.replace(named[0], f"(?:{_CLASSES[named[1]]})")
    return re.compile(form)


# Synonyms in a clause (in lower case) are replaced by one form each. "The passages" and "the
# given records" become SRC; "the records", which may be the subject of a claim, become PAPER.
_NORMAL = (
    (_pattern("’"), "'"),
    (_pattern(r"\bcan(?:not|'?t)\b"), "can not"),
    (_pattern(r"\bwon't\b"), "will not"),
    (_pattern(r"n't\b|\b(?<=do)nt\b"), " not"),
    (_pattern(r"\bi'?m\b"), "i am"),
    (_pattern(r"'re\b"), " are"),
    (_pattern(r"'d\b"), " would"),
    (_pattern(r"\b(it|that|there|this)'s\b"), r"\1 is"),
    (
        _pattern(
            r"\b(?!only)\w+ly\b|\b(?:even|yet|quite|also|itself|alone|really)\b|[\"“”*_`\[\]]"
        ),
        "",
    ),
    (_pattern(r"\s+"), " "),
    (
        _pattern(
            r"\b<the>?(?:(?:<given>|first|second|third|other|source) )*(?:passage|context|excerpt"
            r"|snippet|search result|knowledge base|source(?: material)?)s?\b",
            r"\b<the>?<given> (?:<paper>|information)\b|\bthe information (?:given|provided)\b",
            r"\b<the>?<paper> (?:given|provided|i have)\b",
        ),
        "SRC",
    ),
    (_pattern(r"SRC (?:(?:that <is> )?(?:given|provided)|\d+|here|i have)\b"), "SRC"),
    (_pattern(r"\b<the>?(?!references?\b)<paper>\b"), "PAPER"),
    (_pattern(r"\b(?:(?:am|<is>) )?(?:not able|unable|not possible|impossible) to\b"), "can not"),
)
_DENIES = _pattern(
    r"<source> (?:(?:do|does|did) not|never|fails? to) (?:seem to |appear to )?<say>\b",
    r"none of <source> <say>\b",
    r"<source> <say> nothing\b",
    r"<source> <hold> (?:no|nothing|little) (?:\w+ ){0,3}?(?:<news>|<facts>|about|on)\b",
    r"nor (?:do|does|did) (?:it|they|<source>)\b",
    r"(?:(?:i|we|it|the answer(?: to [\w ]{1,20}question)?) )?(?:can|could|will|am) not"
    r" (?:be able to |going to )?(?:be )?<tell>",
    r"i (?:can|could) not (?:provide|give|offer|share)\b",
    r"(?:this|that|it) is (?:a \w+|something) (?:that )?(?:i|we) can not <tell>",
    r"(?:i|we) do not know\b(?! to\b)",
    r"(?:i|we) have no way of knowing\b",
    r"(?:i|we) (?:do|did|could) not (?:have|find|see) <text>\b",
    r"(?:i|we) (?:am|are) (?:not (?:sure|certain|aware)|unsure)\b",
    r"(?:there <is> |(?:i|we) (?:have|found|find|see|could find) )?(?:"
    r"<no><news>(?:<end>| (?:<is> )?(?:<stated>|<got>|<asked>|on|of|in|to|for|regarding|SRC)\b)"
    r"|<no><facts>(?:<end>| (?:is|are) <got>\b| (?:on|about|for) (?:this|that|it)\b|.{0,60} <in>)"
    r"|nothing (?:(?:about|regarding|on (?:this|that|it))\b|<in>))",
    r"(?:(?:it|this|that) (?:is|remains) )?(?:unclear|unknown|not (?:clear|known|certain))"
    r"(?:<end>| (?:from <source> )?<asked>\b)",
    r"<subject><is_not> (?:<named>(?:<end>| <asked>\b)|(?:<stated>|<got>) <in>|<in><end>)",
    r"<subject>(?:is|are|can) not (?:be )?<stated><end>",
    r"<subject>(?:do|does) not appear <in>",
    r"(?:it|this|that|these|(?:[\w'-]+ ){0,3}?(?:<news>|questions?|<source>))(?: [\w-]+){0,4}? "
    r"(?:<is_not> <got>(?:<end>| <asked>\b| <in>)"
    r"|(?:is|are) (?:missing|unavailable|unknown|lacking|insufficient)\b)",
    r"can not be (?:answered|determined)\b",
    r"no (?:[\w'-]+ ){1,5}?(?:is|are) (?:<stated>|named|given|provided)(?:<end>| <in>)",
    r"(?:not|nowhere) (?:<stated>|<got>)(?:<end>| <in>| <asked>\b)",
    r"not <in>",
    r"please (?:provide|share|supply) (?:me |us )?(?:with )?(?:the|more|additional|some)\b",
)
# A source can lack a text, or the thing that was asked for.
_LACKS = _pattern(
    r"(SRC|PAPER) (?:(?:do|does|did) not <hold>|lacks?)\b ?(.*)", r"none of (SRC) <hold>\b ?(.*)"
)
_OF_TEXT = _pattern(r"<asked>\b", r"<text>\b")
_SHORT = _pattern(
    r"\W*(?:(?:i )?(?:idk|dunno)|(?:i am )?(?:not (?:sure|certain)|unsure)|unknown|unclear|n/?a"
    r"|none|null|nil|no (?:answer|idea|results?|data|response)(?: found)?|not found|unanswerable"
    r"|hard to (?:say|tell)|it depends|(?:i )?(?:must |have to )?abstain|can not (?:say|tell)"
    r"|no lo s[eé]|je ne sais pas|ich wei(?:ß|ss) (?:es )?nicht|non lo so|不知道|わかりません)\W*"
)
_LEAD = _pattern(
    r"\W*(?:(?:(?:please )?note(?: that)?|it is important to note that|(?:it )?(?:seems|appears)"
    r" that|(?:i am|we are) (?:sorry|afraid)(?: that| to say)?|sorry|however|therefore|thus|hence"
    r"|as such|overall|in short|from this|the answer(?: to [\w ]{1,20}question)? is"
    r"|(?:based|going|judging) (?:up)?(?:on|by|from) <source>)\b|\W+)+"
)
_BREAK = _pattern(
    r"\s*(?:[,;:(){}]|\s[-–—]+\s|—)\s*(?:(?:and|or|as|<contrast>)\b\s*)?",
    r"\s+(?:and|or|as|<contrast>)\b\s*",
)
_CONTRAST = _pattern("<contrast>")
_QUESTION = _pattern(r"(?:who|whom|what|when|where|why|how|whether|which|by|if)\b")
_RELATIVE = _pattern(r"(?:who|which|whose|where)\b")
_ASKED = _pattern(r"\b<asked>\b")
_FINITE = _pattern(
    r"\b(?:am|<is>|has|have|had|do|does|did|can|could|will|would|shall|should|may|might|must)\b",
    r"^(?:it|he|she|they|we|you|i|there) \w",
    r"^(?:the|an?|its|his|her|their|some|many|\d+) (?:[\w-]+ ){1,4}?\w+ed"
    r" (?:the|an?|it|them|him|her|his|its|their|up|down|out)\b",
)
_PREPOSITION = _pattern(
    r"(?:in|on|for|of|by|from|with|without|based|according|as|to|about|regarding|given|despite"
    r"|after|before|at|during|under|not|only|other|nor|such)\b"
)
_PRONOUN = _pattern(r"(?:it|he|she|they|we|you|i|there|this)\b")
_MAX_WORDS = 6  # without a verb, before the denial
_QUOTED = _pattern(r"[\"“]([^\"“”]{4,})[\"”]")
_HELP = (
    r"(?:anything|something|more|further|any (?:other |more |further )?(?:questions?|help"
    r"|information|details?))"
)
_COURTESIES = (
    r"(?:sure|of course|certainly|absolutely|definitely|great|okay|ok|alright|no problem|gladly"
    r"|with pleasure|understood|got it|hello|hi|hey|good (?:morning|day|evening|question)"
    r"|great question|thanks|thank you|you['’]re welcome|my pleasure)(?:\s(?:thing|there|again"
    r"|for [\w ]{1,40}))?[\s,.!—–-]*$",
    r"(?:sure|of course|certainly|absolutely|okay|ok|great question)?[\s,.!—–-]*(?:here(?:['’]s"
    r"| is| are)|below (?:is|are)|let me (?:explain|break|walk|summari[sz]e|answer|help)|i"
    r"(?:['’]d be| would be| am|['’]m) happy to (?:help|assist|explain|answer|provide|share|give"
    r"|clarify|elaborate|summari[sz]e|discuss|walk)|i(?:['’]ll| will| can) (?:explain|help|gladly"
    r"|summari[sz]e|answer))[^.?!:]{0,90}[:.!]?\s*$",
    r"(?:please\s)?(?:(?:feel free to|don['’]t hesitate to|do not hesitate to)\s(?:ask|contact"
    r"|reach|let|call|write|e-?mail|get in touch|share|provide|send|tell)|(?:just )?let me know"
    r"|just ask|ask me)\b[^.?!]*[.!?]*$",
    rf"if (?:you|there)(?:['’]d| would|['’]s| is| have| need| want"
    rf"| are)?\b[^.?!]{{0,60}}?{_HELP}?[^.?!]{{0,40}},?\s"
    r"(?:please )?(?:let me know|feel free|don['’]t hesitate|(?:just )?ask me|just ask"
    r"|i(?:['’]m| am) (?:happy|here)"
    r"|i can (?:help|also|give))\b[^.?!]*[.!?]*$",
    r"(?:i|we) (?:hope|trust) (?:this|that|it|these|the above)\b[^.?!]{0,40}\bhelp[^.?!]*[.!]*$",
    r"hope (?:this|that|it)\b[^.?!]{0,40}\bhelps?[^.?!]*[.!]*$",
    r"(?:is there|are there|was there) (?:anything|something|any other)\b[^.?!]*\?$",
    r"(?:would|do|did) you (?:like|want|prefer|need|wish)\b[^.?!]*\?$",
    r"(?:shall|should|may|can|could) i\b[^.?!]*\?$",
    r"(?:want|need) (?:me|more|anything|further)\b[^.?!]*\?$",
    r"have a (?:great|nice|good|wonderful|lovely) [\w ]{1,20}[.!]*$",
    r"(?:good luck|enjoy|take care|best regards|kind regards|best wishes"
    r"|cheers)\b[^.?!]{0,20}[.!]*$",
    r"(?:please\s)?(?:contact|ask|call) (?:the |our |your )?(?:reception|support|customer "
    r"(?:service|support)|front desk|help desk)\b[^.?!]{0,60}[.!]*$",
)
_CLAIMS_NOTHING = re.compile(rf"[\W_]*+(?:$|{'|'.join(_COURTESIES)})", re.IGNORECASE)
# Words with which an offer or a courtesy goes on to claim something.
_CLAIMING = re.compile(
    r"\b(?:because|since|which|who|whose|as it|so that|even though|although|whereas|that (?:is|was"
    r"|are|were|has|had|have|it|they|he|she))\b",
    re.IGNORECASE,
)
# Without any of these words no sentence abstains.
_NEGATION = re.compile(
    r"\b(?:no|not|none|nothing|never|neither|nowhere|cannot|cant|dont|unable|impossible|insufficient"
    r"|un(?:known|clear|sure|answerable)|lacks?|missing|abstain|idk|dunno|n/?a|nul+|nil|fails?|depends"
    r"|hard to|please|non|sais|nicht|little)\b|n['’]t\b|不知道|わかりません"
)
_COUNTED = re.compile(r"\b(?:how (?:many|much)|which|any|are there|is there)\b", re.IGNORECASE)
_MARKED_LINE = re.compile(r"\s*(?:#{1,6}\s.*|\*\*[^*\n]{1,80}\*\*:?|__[^_\n]{1,80}__:?)\s*$")
_HEADING_WORDS = 8
_FRAME = re.compile(r"\s*(?:(?:`{3,}|~{3,})\s*[\w+-]*|(?:\\boxed|[\\$[\](){}])+|</?think>)\s*")
_THOUGHT = re.compile(r"^[ \t]*<think>", re.MULTILINE)
_THOUGHT_END = "</think>"


def sentence_roles(
    response: str,
    sentences: Sequence[Span],
    values: Sequence[Sequence[FoundValue]] = (),
    contexts: ContextValues = NO_CONTEXTS,
) -> tuple[SentenceRole, ...]:
    """Return what each sentence of a response is: a claim, no claim or an abstention.

    A heading is a line with heading or bold marks, or of few words before a colon, that another
    sentence follows. The head of a table and the marks around code or a formula claim nothing
    either, nor do thoughts before ``</think>``, or after a line's ``<think>`` that it does not end.
    ``values`` are those of each sentence, with their places in ``contexts``.
    """
    thought = response.rfind(_THOUGHT_END) + len(_THOUGHT_END) if _THOUGHT_END in response else 0
    unended = next((mark.start() for mark in _THOUGHT.finditer(response, thought)), len(response))
    roles: list[SentenceRole] = []
    for number, span in enumerate(sentences):
        text = response[span.start : span.end]
        followed = number + 1 < len(sentences)
        role = role_of(text, values[number] if values else (), contexts)
        frame = _FRAME.fullmatch(text) or ("|" in text and TABLE_RULE.match(response, span.end))
        thinks = span.end <= thought or span.start >= unended
        if frame or thinks or (role == "claim" and followed and is_heading(text)):
            role = "no_claim"
        roles.append(role)
    return tuple(roles)


def role_of(
    text: str, values: Sequence[FoundValue] = (), contexts: ContextValues = NO_CONTEXTS
) -> SentenceRole:
    """Return the role of one sentence, with its values and their places in the contexts."""
    plain = CITATION_MARK.sub("", text).strip().casefold()
    if _NEGATION.search(plain):
        for pattern, new in _NORMAL:
            plain = pattern.sub(new, plain)
        plain = plain.strip(" .!?'")
        if _SHORT.fullmatch(plain):
            counts = plain == "none" and _COUNTED.search(contexts.question)
            return "claim" if counts else "abstention"
        if _only_denies(plain, contexts.question):
            nowhere = (value.value.parts for value in values if value.status == "nowhere")
            news = any(parts != ("ai",) for parts in nowhere)
            known = contexts.content_words.union(content_words(contexts.question))
            news = news or any(
                not known.issuperset(content_words(quoted)) for quoted in _QUOTED.findall(text)
            )
            return "claim" if news else "abstention"
    if _CLAIMS_NOTHING.match(text) and not _CLAIMING.search(text) and not find_values(text):
        return "no_claim"
    return "claim"


def is_heading(text: str) -> bool:
    """Return whether a sentence is a heading, if another one follows."""
    line = text.strip()
    if "\n" in line or find_values(line.strip("#*_ :")):
        return False
    if _MARKED_LINE.match(line):
        return not line.rstrip("*_ ").endswith((".", "!", "?"))
    return line.endswith(":") and len(line.split()) <= _HEADING_WORDS


def _only_denies(plain: str, question: str) -> bool:
    """Return whether a clause of a sentence denies knowledge or mention, and no other claims."""
    denies = asks = unfinished = False
    end, mark, beside = 0, "", 0
    for match in [*_BREAK.finditer(plain), None]:
        clause = plain[end : match.start() if match else len(plain)]
        before, mark = mark, match[0].strip(", ") if match else ""
        end = match.end() if match else end
        start = lead.end() if (lead := _LEAD.match(clause)) else 0
        if denies and clause.startswith("they "):
            clause = f"SRC {clause[5:]}"
        if (rest := _after_denial(clause[start:], question)) is not None:
            denies, asks = True, _ASKED.search(rest) is not None
            unfinished = asks and not _FINITE.search(rest)
        elif _QUESTION.match(clause):
            if not asks and _RELATIVE.match(clause) and not before and _FINITE.search(clause):
                return False
            unfinished = not _FINITE.search(clause)
        elif _CLAIMS_NOTHING.match(clause):
            continue
        elif _FINITE.search(clause[start:]):
            if not unfinished or before not in ("and", "or") or _PRONOUN.match(clause):
                return False
            unfinished = False
        elif not _PREPOSITION.match(clause):
            words = len(clause[start:].split())
            beside += 0 if denies else words
            contrasts = before if denies else mark
            if beside > _MAX_WORDS or (words > 3 and _CONTRAST.fullmatch(contrasts)):
                return False
    return denies


def _after_denial(clause: str, question: str) -> str | None:
    """Return what follows a denial at the start of a clause; ``None`` without one."""
    if (match := _DENIES.match(clause)) and not _RELATIVE.match(clause):
        return clause[match.end() :]
    if match := _LACKS.match(clause):
        lacked = match[2] or match[4] or ""
        words = content_words(lacked)
        asked = words and set(content_words(question)).issuperset(words)
        if match[1] != "PAPER" or asked or _OF_TEXT.match(lacked):
            return lacked
    return None
