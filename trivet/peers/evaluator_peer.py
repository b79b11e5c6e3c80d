"""Trivet's own bundles, and counting words, as peers."""

from __future__ import annotations

import hashlib
from typing import cast, get_args

from trivet.backends.loading import BackendName
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.data.sentence_features import content_words, share_nowhere
from trivet.data.sentences import split_sentences
from trivet.errors import ConfigError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.peers.peer import Peer, PeerScore, PeerSetup, SentenceScore
from trivet.records import Evaluation, RagExample, Span


class EvaluatorPeer(Peer):
    """A bundle on a backend, at the bundle's threshold.

    Rows are scored one at a time, as by every local peer, so that seconds are those of single rows;
    `trivet evaluate` runs windows of several rows together.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        manifest = (evaluator.bundle.folder / MANIFEST_NAME).read_bytes()
        self._evaluator = evaluator
        self.about = (
            f"bundle {evaluator.bundle.info.name}, manifest "
            f"{hashlib.sha256(manifest).hexdigest()[:12]}, {evaluator.backend_name}, "
            f"{evaluator.precision}"
        )

    def score(self, example: RagExample) -> PeerScore:
        """Evaluate one example."""
        verdict = self._evaluate(example)
        return PeerScore(
            verdict.faithfulness,
            hallucinated=not verdict.adherent,
            spans=tuple(Span(one.start, one.end) for one in verdict.unsupported),
            sentences=_sentences(verdict),
        )

    def _evaluate(self, example: RagExample) -> Evaluation:
        (result,) = self._evaluator.evaluate_many([example])
        if not isinstance(result, Evaluation):
            raise ExampleError(result.message, result.code)
        if result.faithfulness is None:
            raise ExampleError("the verdict has no faithfulness", "no_faithfulness")
        return result


class WordOverlap(Peer):
    """Share of the response's content words that the contexts have; no model, no threshold."""

    about = "share of content words that the contexts have"

    def score(self, example: RagExample) -> PeerScore:
        """Count the words of the response and of its sentences."""
        known = {word for context in example.contexts for word in content_words(context)}
        text = example.response
        spans = example.response_sentences or split_sentences(text)
        parts = [text[span.start : span.end] for span in spans]
        scores = tuple(SentenceScore(part, 1 - share_nowhere(part, known)) for part in parts)
        return PeerScore(1 - share_nowhere(text, known), sentences=scores)


def _sentences(verdict: Evaluation) -> tuple[SentenceScore, ...]:
    return tuple(
        SentenceScore(one.text, one.support) for one in verdict.sentences if one.support is not None
    )


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``overlap``, or ``trivet:BUNDLE#BACKEND`` of which both parts may be left out.

    Raises:
        BundleError: The bundle is refused.
        ConfigError: There is no such backend.
    """
    if kind == "overlap":
        if argument:
            raise ConfigError(f"peer overlap:{argument}: overlap takes no argument")
        return WordOverlap()
    bundle, _, backend = argument.partition("#")
    if backend and backend not in get_args(BackendName):
        names = ", ".join(get_args(BackendName))
        raise ConfigError(f"peer trivet:{argument}: no backend {backend!r}; there are {names}")
    chosen = cast("BackendName | None", backend or None)
    return EvaluatorPeer(Evaluator(bundle or None, setup.threads, backend=chosen))
