"""Sentences of a response that claim nothing, and sentences that abstain from an answer.

A greeting, an offer, a courtesy, a heading and the frame of a table have nothing to check. An
abstention ("the passages do not say") claims nothing about the subject. Both are recognised by
lists of English phrases. An offer that brings a value of its own ("Shall I say more about its
award of 2024?") claims something all the same, and is judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from trivet.data.values import find_values
from trivet.data.written_forms import TABLE_RULE
from trivet.records import Span

SentenceRole = Literal["claim", "no_claim", "abstention"]

_THE = r"(?:(?:the|this|these|those|any|your|our|my|each|none of the|neither)\s)?"
_GIVEN = r"(?:given|provided|available|supplied|retrieved|above)"
_NUMBERED = r"(?:first|second|third|other)"
_SOURCE = (
    r"(?:passages?|contexts?|documents?|documentation|sources?|texts?|articles?|excerpts?"
    r"|knowledge base)"
)
# These are sources where they are called given; "the records" may be of anything.
_PAPERS = r"(?:pages?|information|materials?|references?|results?|records?)"
_SOURCES = (
    rf"{_THE}(?:(?:(?:{_GIVEN}|{_NUMBERED})\s){{0,2}}{_SOURCE}(?:\s\d+)?(?:\s(?:{_GIVEN}|i have))?"
    rf"|(?:{_NUMBERED}\s)?{_GIVEN}\s{_PAPERS}|{_PAPERS}\s(?:{_GIVEN}|i have))"
)
_MENTIONS = (
    r"(?:mention|say|state|specify|address|discuss|indicate|answer|tell|explain|describe|cover)"
)
_SAYS = (
    rf"(?:{_MENTIONS}|contain|provide|include|give|offer|have|show|report|reveal|confirm|name|list)"
)
_NOT = (
    r"(?:do(?:es)?|did)(?:\snot|n['’]t)(?:\s(?:explicitly|specifically|directly|clearly|appear to"
    r"|seem to))?"
)
_KNOWN = r"(?:answers?|information|details?|questions?|explanations?|responses?|advice|guidance)"
_ASKED = (
    r"(?:(?:answer|determine|find|tell|help|say|confirm|verify|respond|assist|identify|locate|see)"
    rf"\b|(?:provide|give|offer|share)\s(?:[\w-]+\s){{0,4}}{_KNOWN})"
)
_NONE = (
    r"(?:(?:there\s(?:is|are|was)\s|there['’]s\s)?(?:no|not enough|insufficient|too little)"
    r"|there\s(?:is|are|was)(?:\snot|n['’]t)\s(?:any|enough|sufficient))"
)
_IS_NOT = r"(?:is|are|was|were)(?:\snot|n['’]t)"
_LEAD = (
    r"(?:(?:however|therefore|thus|so|but|unfortunately|also|additionally|sorry|apologies|hence"
    r"|as such|(?:please\s)?note(?:\sthat)?|it is important to note that|i['’]?m (?:sorry|afraid)"
    r"(?: that)?|i am (?:sorry|afraid)(?: that)?|i apologi[sz]e|from this|in short|overall"
    r"|the answer is|(?:therefore, )?the answer to (?:the|this|your) question is|(?:based|going) "
    r"(?:up)?on (?:[\w’' ]{0,60}?)(?:passages?|contexts?|documents?|texts?|information"
    r"|sources?))[\s,:;.!—–-]{0,4}(?:but |and )?){0,4}"
)
_ABSTENTIONS = (
    rf"(?:i|we)(?:['’]m| am|['’]re| are)\s(?:not able|unable)\sto\s{_ASKED}",
    r"(?:it is |it's )?(?:unable|not possible|impossible)\sto\s(?:answer|determine|tell|say|verify"
    r"|confirm|identify|provide an?\s(?:\w+\s)?answer)",
    rf"(?:i|we)\s(?:really\s)?(?:cannot|can['’]?t|can not|could(?:\snot|n['’]t)|am not going to"
    rf"|won['’]t be able to)\s(?:\w+\s)?{_ASKED}",
    r"i\s(?:do not|don['’]?t)\s(?:really\s)?(?:know|have|find|see)\b(?! to\b)(?![^.]*,)",
    r"i(?:['’]m| am)\s(?:not sure|unsure)\b(?![^.]*,)",
    rf"{_SOURCES}\s{_NOT}\s{_SAYS}|{_THE}{_PAPERS}\s{_NOT}\s{_MENTIONS}",
    rf"{_SOURCES}\s(?:say|state|mention|contain|provide|offer)s?\snothing\b",
    rf"{_SOURCES}\s(?:contains?|provides?|gives?|has|have|offers?|makes?)\sno\s"
    r"(?:\w+\s)?(?:answers?|information|mention|details?|data|indication|specifics?|evidence)",
    rf"{_NONE}\s(?:\w+\s){{0,2}}"
    r"(?:(?:information|mention|details?|answers?|context)\b[^.]{0,40}\b(?:is|are|was|were|about|on"
    r"|of|in|to|given|provided|regarding|available|found)\b"
    rf"|(?:data|evidence)\b[^.]{{0,60}}\b(?:in|by|from)\s{_SOURCES}\b)",
    r"(?:this|that)\s(?:is not|isn['’]t|cannot be|can['’]?t be|could not be)\s(?:explicitly "
    r"|directly )?(?:mentioned|specified|stated|answered|determined)",
    rf"(?:the|this|that|such)\s(?:\w+\s)?{_KNOWN}(?:\s\w+){{0,4}}\s(?:is not|isn['’]t|are not"
    r"|cannot be|can['’]?t be|could not be)\s(?:explicitly |directly )?(?:mentioned|specified"
    r"|stated|provided|given|available|answered|determined|found|included|clear|covered|known)",
    rf"(?:it is|it's|is)?\s?(?:not|nowhere)\s(?:explicitly )?(?:mentioned|specified|stated|said"
    rf"|given)\s(?:in|by)\s{_SOURCES}",
    rf"(?:the\s(?:\w+\s)?{_KNOWN}|this|that|it)\s{_IS_NOT}\s(?:in|part of)\s{_SOURCES}\b",
    rf"(?:[\w’'-]+\s){{1,8}}?{_IS_NOT}\s(?:explicitly |directly |specifically )?(?:mentioned"
    r"|specified|stated|described|discussed|covered|named|included|found|provided|answered)\s"
    rf"(?:in|by)\s{_SOURCES}\b",
    r"none of (?:the|these) (?:\w+\s)?(?:passages|contexts|documents|sources|texts|articles)\b",
)
_ABSTAINS = re.compile(rf"[\s\W]*+{_LEAD}[\"“'(]?(?:{'|'.join(_ABSTENTIONS)})", re.IGNORECASE)
# A second clause may claim something: "they do not say who built it, but it was burnt down".
_TURN = re.compile(r"\b(?:but|however|though|although|nevertheless)\b", re.IGNORECASE)
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
_MARKED_LINE = re.compile(r"\s*(?:#{1,6}\s.*|\*\*[^*\n]{1,80}\*\*:?|__[^_\n]{1,80}__:?)\s*$")
_HEADING_WORDS = 8


def sentence_roles(response: str, sentences: Sequence[Span]) -> tuple[SentenceRole, ...]:
    """Return what each sentence of a response is: a claim, no claim or an abstention.

    A heading is a line with heading or bold marks, or of few words before a colon, that another
    sentence follows. The head of a table claims nothing either.
    """
    last = len(sentences) - 1
    return tuple(
        "no_claim"
        if "|" in response[span.start : span.end] and TABLE_RULE.match(response, span.end)
        else role_of(response[span.start : span.end], heading=number < last)
        for number, span in enumerate(sentences)
    )


def role_of(text: str, *, heading: bool = False) -> SentenceRole:
    """Return the role of one sentence; ``heading`` tells whether it may be a heading."""
    if abstains := _ABSTAINS.match(text):
        _, *clauses = _TURN.split(text[abstains.end() :])
        empty = (_ABSTAINS.match(one) or _CLAIMS_NOTHING.match(one) for one in clauses)
        return "abstention" if all(empty) else "claim"
    line = text.strip()
    if heading and "\n" not in line and not find_values(line.strip("#*_ :")):
        marked = _MARKED_LINE.match(line) is not None
        sentence = line.rstrip("*_ ").endswith((".", "!", "?"))
        short = line.endswith(":") and len(line.split()) <= _HEADING_WORDS
        if not sentence if marked else short:
            return "no_claim"
    if _CLAIMS_NOTHING.match(text) and not _CLAIMING.search(text) and not find_values(text):
        return "no_claim"
    return "claim"
