"""RAGBench: the publishers' Parquet files, from a folder or from the hub.

Contexts and response are the published sentences joined by one space, with the sentence spans
given: every label names a sentence by its key, and ``documents`` and ``response`` cannot always be
rebuilt from the sentences. :mod:`trivet.labelled.ragbench_labels` reads the labels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from trivet.labelled.grouping import group_by_documents
from trivet.labelled.ragbench_labels import COLUMNS as PUBLISHED_COLUMNS
from trivet.labelled.ragbench_labels import bare_key, read_labels, read_published_scores
from trivet.labelled.source_files import PublishedRow, read_published
from trivet.labelled.source_report import RowError, SourceReport
from trivet.records import ContextSpan, LabelledExample, RagExample, Span

HUB_NAME = "rungalileo/ragbench"
COLUMNS = (
    *("id", "question", "documents_sentences", "response_sentences", "generation_model_name"),
    *("sentence_support_information", "unsupported_response_sentence_keys", "adherence_score"),
    *("all_relevant_sentence_keys", "all_utilized_sentence_keys"),
    *("relevance_score", "utilization_score", "completeness_score"),
    *PUBLISHED_COLUMNS,
)
LARGEST_GROUP_SHARE = 0.05
"""Most of a set's rows that a group joined by shared documents holds, so that the set can be split:
nearly all of emanual is connected through a few pages that are retrieved for most questions."""
LARGEST_GROUP_ROWS = 24
"""Rows that such a group may always hold, so that small sets keep their documents together."""


def read_ragbench(name: str) -> tuple[list[LabelledExample], SourceReport]:
    """Read RAGBench from a folder of sets, or of one set, or else from a hub data set.

    ``source`` is ``ragbench/<set>``; ``split`` is the publishers' (``train``, ``validation``,
    ``test``); groups are made per set. ``ragbench`` is short for ``rungalileo/ragbench``.

    Raises:
        DataError: There is neither such a folder nor such a data set, or a file cannot be read.
    """
    report = SourceReport(source=f"ragbench:{name}")
    parts: defaultdict[str, list[PublishedRow]] = defaultdict(list)
    for row in read_published(name, COLUMNS, {"ragbench": HUB_NAME}):
        parts[row.part].append(row)
    examples: list[LabelledExample] = []
    for part, rows in parts.items():
        groups, divided = group_by_documents(
            [str(row.values.get("question") or "") for row in rows],
            [_document_texts(row) for row in rows],
            largest=max(LARGEST_GROUP_ROWS, int(LARGEST_GROUP_SHARE * len(rows))),
        )
        report.note("documents that occur in several groups", part, divided)
        named = (
            (f"{part}/{row.split}/{row.values.get('id')}", (row, f"ragbench/{part}/{group}"))
            for row, group in zip(rows, groups, strict=True)
        )
        examples += report.collect(named, partial(_labelled, report=report))
    return examples, report


class _JoinedText(NamedTuple):
    """Sentences joined by one space, and the span of each sentence by its key."""

    text: str
    spans: dict[str, Span]


def _join(pairs: Iterable[Any] | None) -> _JoinedText:
    text = ""
    spans: dict[str, Span] = {}
    for pair in pairs or ():
        match pair:
            case [str(key), str(sentence)]:
                sentence = sentence.strip()
            case _:
                raise RowError("a sentence is not a [key, text] pair")
        if not sentence:
            continue
        if bare_key(key) in spans:
            raise RowError("two sentences share one key")
        start = len(text) + 1 if text else 0
        text = f"{text} {sentence}" if text else sentence
        spans[bare_key(key)] = Span(start, len(text))
    return _JoinedText(text, spans)


def _document_texts(row: PublishedRow) -> Sequence[str]:
    """Return the documents for grouping; a broken row has none, and is dropped later."""
    try:
        return [_join(pairs).text for pairs in row.values.get("documents_sentences") or ()]
    except RowError:
        return ()


def _labelled(
    grouped: tuple[PublishedRow, str], location: str, report: SourceReport
) -> LabelledExample:
    row, group = grouped
    values = row.values
    documents = [_join(pairs) for pairs in values.get("documents_sentences") or ()]
    report.note("documents without a sentence", location, sum(not item.text for item in documents))
    documents = [item for item in documents if item.text]
    response = _join(values.get("response_sentences"))
    if not documents:
        raise RowError("no document holds any text")
    if not response.text:
        raise RowError("the response is empty")

    context_spans: dict[str, ContextSpan] = {}
    for context, document in enumerate(documents):
        for key, span in document.spans.items():
            if key in context_spans:
                raise RowError("two sentences share one key")
            context_spans[key] = ContextSpan(context, span.start, span.end)

    generator = values.get("generation_model_name")
    return LabelledExample(
        example=RagExample(
            question=str(values.get("question") or ""),
            contexts=tuple(item.text for item in documents),
            response=response.text,
            # The sets with two generators give both rows the same id.
            id=f"{location}/{generator}" if generator else location,
            context_sentences=tuple(tuple(item.spans.values()) for item in documents),
            response_sentences=tuple(response.spans.values()),
        ),
        labels=read_labels(values, context_spans, response.spans, location, report),
        source=f"ragbench/{row.part}",
        group=group,
        generator=generator,
        split=row.split,
        published=read_published_scores(values, location, report),
    )
