"""RAGTruth: its publishers' two files in one folder, or the hub's data set made of them.

A row's labels are the unsupported spans of the response, and therefore whether it is adherent, and
which of them conflict with the passages; the others are baseless. Its
evidence and the relevant and utilized context sentences are unknown. Spans marked
``implicit_true`` are true in the world but in no passage: they count as unsupported.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from trivet.errors import DataError
from trivet.labelled.labelled_jsonl import merge_overlapping, spans_of
from trivet.labelled.source_files import read_json_lines, read_published
from trivet.labelled.source_report import RowError, SourceReport
from trivet.records import LabelledExample, Labels, RagExample

RESPONSES = "response.jsonl"
SOURCES = "source_info.jsonl"
HUB_NAME = "wandb/RAGTruth-processed"


class _SourceTexts(NamedTuple):
    task: str
    question: str
    contexts: tuple[str, ...]


def read_ragtruth(name: str) -> tuple[list[LabelledExample], SourceReport]:
    """Read RAGTruth from the folder of its two files, or else from a hub data set.

    Leaves out responses that the annotators marked as truncated or as wrong refusals, as the paper
    does. ``source`` is ``ragtruth/qa``, ``ragtruth/summary`` or ``ragtruth/data2txt``; ``ragtruth``
    is short for ``wandb/RAGTruth-processed``. The hub's rows do not name their source document, so
    there a group is made of equal contexts, and ``fit`` and ``dev`` differ from those of a folder.

    Raises:
        DataError: There is neither such a folder nor such a data set, or a file is missing.
    """
    folder = Path(name)
    if not folder.is_dir():
        return _read_hub(name)
    if missing := [name for name in (RESPONSES, SOURCES) if not (folder / name).is_file()]:
        raise DataError(f"{folder} is not a RAGTruth folder: it lacks {', '.join(missing)}")
    report = SourceReport(source=f"ragtruth:{folder}")
    sources = _read_sources(folder / SOURCES, report)
    lines = ((f"{RESPONSES} line {n}", row) for n, row in read_json_lines(folder / RESPONSES))
    return report.collect(lines, partial(_labelled, sources=sources, report=report)), report


def _read_hub(name: str) -> tuple[list[LabelledExample], SourceReport]:
    report = SourceReport(source=f"ragtruth:{name}")
    sources: dict[str, _SourceTexts] = {}
    rows = []
    for published in read_published(name, (), {"ragtruth": HUB_NAME}):
        values, context = published.values, str(published.values.get("context") or "")
        source = hashlib.sha256(context.encode()).hexdigest()[:16]
        task = str(values.get("task_type") or "").lower()
        contexts = split_passages(context) if task == "qa" else (context.strip(),)
        sources.setdefault(source, _SourceTexts(task, str(values.get("query") or ""), contexts))
        try:
            labels = json.loads(values.get("hallucination_labels") or "null")
        except (TypeError, ValueError):
            labels = None
        row = {**values, "source_id": source, "response": values.get("output"), "labels": labels}
        rows.append((f"row {values.get('id')}", {**row, "split": published.split}))
    return report.collect(rows, partial(_labelled, sources=sources, report=report)), report


def split_passages(text: str) -> tuple[str, ...]:
    """Split ``passage 1:... passage 2:...`` into its passages, without the prefixes.

    Only prefixes at the start of a line and in counting order divide the text, so a passage that
    mentions "passage 7:" stays whole. Text without a first prefix is one passage.
    """
    marks: list[re.Match[str]] = []
    start = 0
    while mark := re.compile(rf"^passage {len(marks) + 1}:", re.MULTILINE).search(text, start):
        marks.append(mark)
        start = mark.end()
    if not marks or text[: marks[0].start()].strip():
        return (text.strip(),)
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return tuple(text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True))


def _read_sources(path: Path, report: SourceReport) -> dict[str, _SourceTexts]:
    sources = {}
    for number, row in read_json_lines(path):
        location = f"{path.name} line {number}"
        if isinstance(row, RowError):
            report.note(f"source unreadable: {row}", location)
            continue
        if (texts := _texts(row)) is None:
            report.note("source of an unknown format", location)
        else:
            sources[str(row.get("source_id"))] = texts
    return sources


def _texts(row: dict[str, Any]) -> _SourceTexts | None:
    """Return question and passages of a source, or ``None`` if its format is unknown."""
    task = str(row.get("task_type", "")).lower()
    info = row.get("source_info")
    prompt = row.get("prompt")
    prompt = prompt if isinstance(prompt, str) else ""
    if isinstance(info, dict) and isinstance(info.get("passages"), str):
        return _SourceTexts(task, str(info.get("question", "")), split_passages(info["passages"]))
    if isinstance(info, str):
        before, _, _ = prompt.partition(info)
        return _SourceTexts(task, before.strip() if before != prompt else "", (info.strip(),))
    if not isinstance(info, dict):
        return None
    # The record as the generator saw it: the text in the prompt, if it is the same data.
    start, end = prompt.find("{"), prompt.rfind("}") + 1
    shown = prompt[start:end]
    try:
        same = bool(shown) and ast.literal_eval(shown) == info
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        same = False
    if not same:
        return _SourceTexts(task, "", (json.dumps(info, ensure_ascii=False),))
    return _SourceTexts(task, prompt[:start].strip(), (shown,))


def _labelled(
    row: dict[str, Any], location: str, sources: dict[str, _SourceTexts], report: SourceReport
) -> LabelledExample:
    if (quality := row.get("quality")) != "good":
        raise RowError(f"quality is {quality}")
    response = row.get("response")
    if not isinstance(response, str) or not response.strip():
        raise RowError("response is empty")
    source_id = str(row.get("source_id"))
    if (texts := sources.get(source_id)) is None:
        raise RowError("its source is not in source_info.jsonl")
    labels = row.get("labels")
    if not isinstance(labels, list) or not all(isinstance(label, dict) for label in labels):
        raise RowError("labels is not a list of objects")
    for label in labels:
        _check_text(label, response)
        report.note("spans marked implicit_true", location, int(label.get("implicit_true") is True))
    offsets = [[label.get("start"), label.get("end")] for label in labels]
    spans = spans_of(offsets, response, "a label") or ()
    unsupported = merge_overlapping(spans)
    kinds = [str(label.get("label_type")) for label in labels]
    conflicts = [span for span, kind in zip(spans, kinds, strict=True) if "Conflict" in kind]
    known = all("Conflict" in kind or "Baseless" in kind for kind in kinds)
    report.note("overlapping spans were merged", location, len(spans) - len(unsupported))
    return LabelledExample(
        example=RagExample(texts.question, texts.contexts, response, str(row.get("id", location))),
        labels=Labels(
            unsupported=unsupported,
            adherent=not unsupported,
            contradicted=merge_overlapping(conflicts) if known else None,
        ),
        source=f"ragtruth/{texts.task}" if texts.task else "ragtruth",
        group=f"ragtruth/{source_id}",
        generator=row.get("model"),
        split=row.get("split"),
    )


def _check_text(label: dict[str, Any], response: str) -> None:
    """Refuse a label that quotes other text than its offsets, ignoring white space."""
    start, end, text = label.get("start"), label.get("end"), label.get("text")
    if isinstance(start, int) and isinstance(end, int) and isinstance(text, str):
        shown = response[start:end] if 0 <= start <= end <= len(response) else None
        if shown is not None and shown.split() != text.split():
            raise RowError("a label quotes other text than its offsets show")
