"""Rows of verdicts, hostile texts and a page parser for the tests of reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from trivet.records import (
    ContextSentence,
    ContextVerdict,
    Evaluation,
    FailedEvaluation,
    MarkedSpan,
    SentenceVerdict,
)
from trivet.report.verdict_files import VerdictRow

PAYLOADS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<iframe src=javascript:alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    '"><script>alert(1)</script>',
    '" onmouseover="alert(1)',
    "' onfocus='alert(1)' autofocus='",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</summary></details><img src=x onerror=alert(1)>",
    "<!-- --><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<style>@import url(//evil.example/x.css);</style>",
    "<div style='background:url(//evil.example/x.png)'>x</div>",
    "url(//evil.example/x.png)",
    "{{ 7 * 7 }}{% raw %}",
    "${alert(1)}`${alert(1)}`",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "<scr\x00ipt>alert(1)</scr\x00ipt>",
    "<\x0cimg\x0csrc=x\x0bonerror=alert(1)>",
    "\ufeff<script>alert(1)</script>",
    "\u202e<script>alert(1)</script>\u202c",
    "\u2066txt.exe\u2069<img src=x onerror=alert(1)>",
    "\ud83c<img src=x onerror=alert(1)>\udf09",
    "\ufffe\uffff<video><source onerror=alert(1)>",
    "javascript:alert(1)//",
)


def make_row(
    row: int = 1,
    faithfulness: float | None = 0.4,
    *,
    id_: str | None = "mill",
    question: str | None = "When was the mill built?",
    contexts: tuple[str, ...] | None = ("It was built of stone in 1817.",),
    response: str | None = "The mill was built in 1871.",
    metadata: Mapping[str, Any] | None = None,
    context_ids: tuple[str | None, ...] = (),
    error: FailedEvaluation | None = None,
    texts: bool = True,
    **scores: Any,
) -> VerdictRow:
    """Return a row; each text is one sentence, the middle of the response is unsupported."""
    verdict = None
    if error is None:
        verdict = verdict_on(contexts or (), response or "", faithfulness, id_).to_dict() | scores
    return VerdictRow(
        row=row,
        id=id_,
        question=question if texts else None,
        contexts=contexts if texts else None,
        response=response if texts else None,
        verdict=verdict,
        error=error,
        metadata=metadata or {},
        context_ids=context_ids,
    )


def verdict_on(
    contexts: tuple[str, ...], response: str, faithfulness: float | None, id_: str | None
) -> Evaluation:
    """Return a verdict with one sentence per text and an unsupported span in the response."""
    end = len(response)
    begin, stop = end // 3, 2 * end // 3 + 1
    sentence = SentenceVerdict(0, end, response, 0.25, False)
    span = MarkedSpan(begin, stop, response[begin:stop], 0.83)
    return Evaluation(
        id=id_,
        faithfulness=faithfulness,
        supported_share=0.0,
        relevance=0.3,
        utilization=0.2,
        completeness=0.6,
        adherent=None if faithfulness is None else faithfulness >= 0.5,
        unsupported=(span,) if response else (),
        sentences=(sentence,) if response else (),
        contexts=tuple(
            ContextVerdict(0.3, 0.2, (ContextSentence(0, len(text), text, 0.35, 0.21),))
            for text in contexts
        ),
        windows=3,
        window_size=512,
        cut_question_tokens=7,
        response_chunks=2,
        replaced_characters=1,
    )


def unmarked_verdict(
    sentences: Iterable[str | SentenceVerdict],
    contexts: Iterable[Iterable[str]],
    supported: bool = True,
) -> Evaluation:
    """Return a verdict on sentences of the response and of each context, without marked text."""
    return replace(
        verdict_on((), "", 0.5, None),
        sentences=tuple(
            SentenceVerdict(0, len(sentence), sentence, 0.5, supported)
            if isinstance(sentence, str)
            else sentence
            for sentence in sentences
        ),
        contexts=tuple(
            ContextVerdict(
                0.5, 0.5, tuple(ContextSentence(0, len(text), text, 0.5, 0.5) for text in context)
            )
            for context in contexts
        ),
    )


def hostile_rows() -> Iterator[VerdictRow]:
    """Yield a row with each hostile text in every field, and a failed one."""
    for number, text in enumerate(PAYLOADS, start=1):
        names: dict[str, Any] = {
            "id_": text + str(number),
            "metadata": {"model": text if number < 15 else "m", f"column {text}": number % 2},
        }
        yield make_row(
            2 * number,
            number / 100,
            question=text,
            contexts=(text, f"{text} and {text}"),
            response=text * 2,
            context_ids=(text, None),
            texts=number % 2 == 0,
            **names,
        )
        yield make_row(2 * number + 1, error=FailedEvaluation(text, text, text), **names)


HOSTILE = list(hostile_rows())


class Page(HTMLParser):
    """A parsed page whose tags are all closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []  # with their attributes, in order
        self.texts: dict[str, list[str]] = {}  # by tag, without the texts of inner elements
        self._open: list[tuple[str, int]] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "input"):
            texts = self.texts.setdefault(tag, [])
            self._open.append((tag, len(texts)))
            texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self._open:
            tag, holder = self._open[-1]
            self.texts[tag][holder] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")
