"""The development sets of the rule of choosing, read from one folder.

::

    ragtruth/  ragbench/                   as their publishers wrote them; dev split
    other_domains/  generative_search, dialogue, long_answers
    eval/           changed_facts, conflicts_names, relevance_topics
    extra/          relevance (WikiQA and SelQA; dev split)

The last three folders hold labelled JSONL, compressed with xz.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trivet.labelled.grouping import digest, document
from trivet.labelled.labelled_jsonl import read_pairs
from trivet.labelled.sources import load_source
from trivet.records import ContextSpan, LabelledExample

RAGTRUTH = {"qa": "QA", "summary": "Summary", "data2txt": "Data2txt"}
RAGBENCH = "RAGBench"
PAIRED = {"changed_facts": "changed facts", "conflicts_names": "other names"}
ANSWERS = (*RAGTRUTH.values(), RAGBENCH, "search", "dialogue", "long answers", *PAIRED.values())
"""Sets whose AUROC of answers decides."""
RANKED = {"wikiqa": "WikiQA", "selqa": "SelQA"}
TOPICS = "topics"

_FILES = {
    "search": "other_domains/generative_search",
    "dialogue": "other_domains/dialogue",
    "long answers": "other_domains/long_answers",
    **{name: f"eval/{file}" for file, name in PAIRED.items()},
}


def read_rule_sets(folder: Path, every: int = 1) -> dict[str, list[LabelledExample]]:
    """Read the sets by name, those of answers first.

    Args:
        folder: Folder of the data.
        every: Take one of so many source documents, by their digest; 1 takes all.

    Raises:
        DataError: A file is missing or cannot be read.
    """
    return {
        name: [row for row in rows if int(digest(document(row)), 16) % every == 0]
        for name, rows in _sets(folder)
    }


def _sets(folder: Path) -> Iterator[tuple[str, list[LabelledExample]]]:
    ragtruth, _ = load_source(f"ragtruth:{folder / 'ragtruth'}", "dev")
    for task, name in RAGTRUTH.items():
        yield name, [row for row in ragtruth if row.source == f"ragtruth/{task}"]
    yield RAGBENCH, load_source(f"ragbench:{folder / 'ragbench'}", "dev")[0]
    for name, file in _FILES.items():
        yield name, load_source(f"jsonl:{folder / file}.jsonl.xz", "all")[0]
    relevance, _ = load_source(f"jsonl:{folder / 'extra/relevance'}.jsonl.xz", "dev")
    for source, name in RANKED.items():
        # A question without a relevant sentence ranks nothing.
        yield name, [row for row in relevance if row.source == source and row.labels.relevant]
    yield TOPICS, _topics(folder / "eval/relevance_topics.jsonl.xz")


def _topics(file: Path) -> list[LabelledExample]:
    """Read questions with the index of the one context that answers them."""
    pairs, _ = read_pairs(file)
    rows = []
    for written, row in pairs:
        at = int(written["relevant_context"])
        span = ContextSpan(at, 0, len(row.example.contexts[at]))
        rows.append(replace(row, labels=replace(row.labels, relevant=(span,))))
    return rows
