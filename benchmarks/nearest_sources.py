"""Share of supported sentences whose nearest source by words is among the labelled evidence.

python -m benchmarks.nearest_sources --data ragbench:data/ragbench [--split dev]

The rule is that of the report (``trivet.report.sources``); no model is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.labelled import data_parser, load
from trivet.records import (
    ContextSentence,
    ContextVerdict,
    Evaluation,
    Evidence,
    LabelledExample,
    RagExample,
    SentenceVerdict,
)
from trivet.report.estimates import mean_of
from trivet.report.sources import Source, find_sources

_NO_SCORES = (None, None, None, None, None, None, None)


def hits(labelled: LabelledExample) -> list[tuple[bool, bool]]:
    """Return for each supported sentence whether its first source is right, and whether any is."""
    example = labelled.example
    supported = [one for one in labelled.labels.evidence or () if one.contexts]
    found = find_sources(verdict_on(example, supported))
    right = [
        [is_evidence(example, source, one) for source in sources]
        for one, sources in zip(supported, found, strict=True)
    ]
    return [(any(own[:1]), any(own)) for own in right]


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


def is_evidence(example: RagExample, source: Source, evidence: Evidence) -> bool:
    """Return whether a source overlaps a labelled span."""
    at = (example.context_sentences or ())[source.context][source.sentence]
    return any(
        span.context == source.context and span.start < at.end and at.start < span.end
        for span in evidence.contexts
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both shares, with 95 % intervals over source documents."""
    loaded = load(data_parser(__doc__).parse_args(arguments))
    rows = [row for row in loaded if row.labels.evidence and row.example.context_sentences]
    names = {name: number for number, name in enumerate(dict.fromkeys(row.group for row in rows))}
    found = [(names[row.group], *pair) for row in rows for pair in hits(row)]
    groups = np.array([group for group, _, _ in found])
    print(f"{len(rows)} rows, {len(found)} supported sentences")
    for place, name in ((1, "first source"), (2, "either source")):
        mean = mean_of(np.array([one[place] for one in found], dtype=np.float64), groups)
        print(f"{name} is evidence: {mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f})")


if __name__ == "__main__":
    main()
