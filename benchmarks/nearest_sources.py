"""How well the sources of supported sentences agree with the labelled evidence.

python -m benchmarks.nearest_sources --data ragbench:data/ragbench [--split dev] [--bundle DIR]

Sources by shared words are those of the report (``trivet.report.sources``), without a model. With a
bundle that has an evidence head, its sources are measured on the same sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.labelled import data_parser, load
from benchmarks.report import Table
from trivet.evaluation.evaluator import Evaluator
from trivet.records import (
    ContextSentence,
    ContextSpan,
    ContextVerdict,
    Evaluation,
    Evidence,
    LabelledExample,
    RagExample,
    SentenceVerdict,
)
from trivet.report.estimates import mean_of
from trivet.report.sources import find_sources

_NO_SCORES = (None, None, None, None, None, None, None)
COLUMNS = (
    *("sources", "sentences", "first is evidence", "any is evidence"),
    *("reciprocal rank", "precision", "recall", "F1"),
)


class Agreement(NamedTuple):
    """How the sources of one supported sentence agree with its labelled evidence."""

    right: tuple[bool, ...]  # of each source, best first
    labelled: int  # context sentences that are labelled as its evidence


def by_words(labelled: LabelledExample) -> list[Agreement]:
    """Compare the sources by shared words of each supported sentence with the labels."""
    example, supported = labelled.example, supported_sentences(labelled)
    found = find_sources(verdict_on(example, supported))
    result = []
    for evidence, sources in zip(supported, found, strict=True):
        sentences = context_sentences(example)
        spans = [sentences[source.context][source.sentence] for source in sources]
        result.append(agreement(example, spans, evidence))
    return result


def by_head(labelled: LabelledExample, verdict: Evaluation) -> list[Agreement]:
    """Compare the sources in a verdict of each supported sentence with the labels."""
    found = []
    for evidence in supported_sentences(labelled):
        at = evidence.response
        own = [s for s in verdict.sentences if s.start < at.end and at.start < s.end]
        sources = [one for sentence in own[:1] for one in sentence.evidence or ()]
        spans = [ContextSpan(one.context, one.start, one.end) for one in sources]
        found.append(agreement(labelled.example, spans, evidence))
    return found


def supported_sentences(labelled: LabelledExample) -> list[Evidence]:
    """Return the supported sentences with evidence."""
    return [one for one in labelled.labels.evidence or () if one.contexts]


def agreement(example: RagExample, sources: Sequence[ContextSpan], evidence: Evidence) -> Agreement:
    """Compare the sources of a sentence, best first, with its evidence."""
    return Agreement(
        tuple(_overlaps(source, evidence) for source in sources),
        sum(
            _overlaps(sentence, evidence) for own in context_sentences(example) for sentence in own
        ),
    )


def context_sentences(example: RagExample) -> list[list[ContextSpan]]:
    """Return the spans of the sentences of each context."""
    return [
        [ContextSpan(context, at.start, at.end) for at in own]
        for context, own in enumerate(example.context_sentences or ())
    ]


def _overlaps(at: ContextSpan, evidence: Evidence) -> bool:
    return any(
        span.context == at.context and span.start < at.end and at.start < span.end
        for span in evidence.contexts
    )


def verdict_on(example: RagExample, supported: Sequence[Evidence]) -> Evaluation:
    """Return a verdict with the supported sentences and the context sentences, without scores."""
    sentences = tuple(
        SentenceVerdict(at.start, at.end, example.response[at.start : at.end], 1.0, True)
        for at in (one.response for one in supported)
    )
    contexts = tuple(
        ContextVerdict(
            None,
            None,
            tuple(ContextSentence(at.start, at.end, text[at.start : at.end], 0, 0) for at in own),
        )
        for text, own in zip(example.contexts, example.context_sentences or (), strict=True)
    )
    return Evaluation(*_NO_SCORES, (), sentences, contexts, 1, 1, 0, 1, 0)


def table_row(name: str, groups: Sequence[int], found: Sequence[Agreement]) -> tuple[str, ...]:
    """Return the means over sentences, with 95 % intervals over the groups [n]; shares of pairs."""
    cells = []
    for values in (
        [any(one.right[:1]) for one in found],
        [any(one.right) for one in found],
        [1 / (1 + one.right.index(True)) if any(one.right) else 0 for one in found],
    ):
        mean = mean_of(np.array(values, dtype=np.float64), np.array(groups))
        value = "-" if mean.value is None else f"{mean.value:.3f}"
        cells.append(value if mean.low is None else f"{value} ({mean.low:.3f} to {mean.high:.3f})")
    right = sum(sum(one.right) for one in found)
    named, labelled = sum(len(one.right) for one in found), sum(one.labelled for one in found)
    cells += [f"{right / max(1, n):.3f}" for n in (named, labelled)]
    cells.append(f"{2 * right / max(1, named + labelled):.3f}")
    return name, str(len(found)), *cells


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the measures of the sources by words and, with a bundle, of its evidence head."""
    flags = data_parser(__doc__)
    flags.add_argument("--bundle", type=Path, help="with an evidence head; none by default")
    given = flags.parse_args(arguments)
    evaluator = Evaluator(given.bundle) if given.bundle else None
    if evaluator and "evidence" not in evaluator.bundle.info.heads:
        flags.error(f"{given.bundle} has no evidence head")
    rows = [r for r in load(given) if r.labels.evidence and r.example.context_sentences]
    names = {name: number for number, name in enumerate(dict.fromkeys(row.group for row in rows))}
    groups = [names[row.group] for row in rows for _ in supported_sentences(row)]
    table = [table_row("shared words", groups, [one for row in rows for one in by_words(row)])]
    if evaluator:
        head: list[Agreement] = []
        for row, verdict in zip(
            rows, evaluator.evaluate_many(r.example for r in rows), strict=True
        ):
            if not isinstance(verdict, Evaluation):
                raise SystemExit(f"{row.example.id}: {verdict}")
            head += by_head(row, verdict)
        table.append(table_row("evidence head", groups, head))
    print(Table(f"{len(rows)} rows", COLUMNS, [*table]).to_markdown())


if __name__ == "__main__":
    main()
