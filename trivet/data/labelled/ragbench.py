"""RAGBench: the publishers' parquet files, from a folder or from the hub.

The sentence lists are the text: contexts and response are their sentences joined by one space, with
the sentence spans given, because ``documents`` and ``response`` cannot always be rebuilt from them
and every label names a sentence by its key. What becomes of the labels stands in
:mod:`trivet.data.labelled.ragbench_labels`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trivet.data.labelled.grouping import group_by_documents
from trivet.data.labelled.json_lines import RowError
from trivet.data.labelled.published_rows import PublishedRow, read_rows
from trivet.data.labelled.ragbench_labels import bare_key, read_labels
from trivet.data.labelled.source_report import SourceReport
from trivet.records import (
    ContextSpan,
    LabelledExample,
    RagExample,
    Span,
)

HUB_NAME = "rungalileo/ragbench"
COLUMNS = (
    "id",
    "question",
    "documents_sentences",
    "response_sentences",
    "sentence_support_information",
    "unsupported_response_sentence_keys",
    "adherence_score",
    "all_relevant_sentence_keys",
    "all_utilized_sentence_keys",
    "relevance_score",
    "utilization_score",
    "completeness_score",
    "generation_model_name",
)
LARGEST_GROUP_SHARE = 0.05
"""A group joined by shared documents holds at most this share of its set, so that it can be split:
nearly all of emanual hangs together through a few pages that are retrieved for most questions."""
LARGEST_GROUP_ROWS = 24
"""...but may always hold this many rows, so that small sets keep their documents undivided."""


def read_ragbench(name: str) -> tuple[list[LabelledExample], SourceReport]:
    """Read RAGBench.

    Args:
        name: A folder that holds one folder of parquet files for each component set; or the folder
            of one set; or, where there is no such folder, a hub data set (``ragbench`` stands for
            ``rungalileo/ragbench``).

    Returns:
        The examples and the account of what was read. ``source`` is ``ragbench/<set>``; ``split``
        is the publishers' (``train``, ``validation``, ``test``); the groups are made per set, over
        all rows read.

    Raises:
        DataError: There is neither such a folder nor such a data set, or a file cannot be read.
    """
    report = SourceReport(source=f"ragbench:{name}")
    parts: defaultdict[str, list[PublishedRow]] = defaultdict(list)
    for row in read_rows(name, COLUMNS, {"ragbench": HUB_NAME}):
        parts[row.part].append(row)
    examples = []
    for part, rows in parts.items():
        report.rows += len(rows)
        examples += _read_part(part, rows, report)
    report.kept = len(examples)
    return examples, report


def _read_part(
    part: str, rows: Sequence[PublishedRow], report: SourceReport
) -> list[LabelledExample]:
    grouping = group_by_documents(
        [str(row.values.get("question") or "") for row in rows],
        [_document_texts(row.values) for row in rows],
        largest=max(LARGEST_GROUP_ROWS, int(LARGEST_GROUP_SHARE * len(rows))),
    )
    report.note("documents that stand in several groups", part, grouping.divided_documents)
    examples = []
    for row, group in zip(rows, grouping.names, strict=True):
        try:
            examples.append(_labelled(row, f"ragbench/{part}/{group}", report))
        except RowError as error:
            report.drop(str(error), error.at(_place(row)))
    return examples


def _place(row: PublishedRow) -> str:
    return f"{row.part}/{row.split}/{row.values.get('id')}"


def _document_texts(values: Mapping[str, Any]) -> list[str]:
    """Return the documents for grouping; a row that is broken has none, and is dropped later."""
    try:
        return [_Text.of(pairs).text for pairs in values.get("documents_sentences") or ()]
    except RowError:
        return []


@dataclass(frozen=True)
class _Text:
    """Sentences joined by one space, and where each sentence stands, by its key."""

    text: str
    spans: dict[str, Span]

    @classmethod
    def of(cls, pairs: Iterable[Any]) -> _Text:
        text = ""
        spans: dict[str, Span] = {}
        for pair in pairs:
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
        return cls(text, spans)


def _labelled(row: PublishedRow, group: str, report: SourceReport) -> LabelledExample:
    values, place = row.values, _place(row)
    documents = [_Text.of(pairs) for pairs in values.get("documents_sentences") or ()]
    report.note("documents without a sentence", place, sum(not item.text for item in documents))
    documents = [item for item in documents if item.text]
    response = _Text.of(values.get("response_sentences") or ())
    if not documents:
        raise RowError("no document holds any text")
    if not response.text:
        raise RowError("the response holds no text")

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
            id=f"{place}/{generator}" if generator else place,
            context_sentences=tuple(tuple(item.spans.values()) for item in documents),
            response_sentences=tuple(response.spans.values()),
        ),
        labels=read_labels(values, context_spans, response.spans, place, report),
        source=f"ragbench/{row.part}",
        group=group,
        generator=generator,
        split=row.split,
    )
