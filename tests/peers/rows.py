"""Labelled rows and scripted peers for the tests of comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.errors import ExampleError
from trivet.peers.peer import Peer, PeerScore
from trivet.peers.predictions import Header, Predictions, digest_rows
from trivet.records import LabelledExample, Labels, RagExample, Span


def row(
    number: int, wrong: bool = False, source: str = "toy/a", generator: str = "m"
) -> LabelledExample:
    response = f"Answer {number} is wrong." if wrong else f"Answer {number} is right."
    spans = (Span(len(response) - 6, len(response) - 1),) if wrong else ()
    return LabelledExample(
        RagExample("Which?", (f"Context {number}.",), response, f"id-{number}"),
        Labels(unsupported=spans, adherent=not wrong),
        source=source,
        group=f"doc-{number // 2}",
        generator=generator,
    )


class Scripted(Peer):
    """Returns the next of its scores, and counts its calls."""

    def __init__(self, scores: Sequence[PeerScore | Exception], about: str = "scripted") -> None:
        self.scores, self.about, self.calls = scores, about, 0

    def score(self, example: RagExample) -> PeerScore:
        number = int(str(example.id).removeprefix("id-"))
        self.calls += 1
        found = self.scores[number]
        if isinstance(found, Exception):
            raise found
        return found


def refused() -> ExampleError:
    return ExampleError("no", "refused")


def predicted(rows: Sequence[LabelledExample], *repeats: Sequence[PeerScore]) -> Predictions:
    header = Header("p", "about", "gpt", digest_rows(rows), "0", "2026-11-23")
    return Predictions(header, repeats)
