"""Trivet's own bundles, and the word overlap that they read, as peers."""

from __future__ import annotations

import hashlib
from typing import cast, get_args

from trivet.backends.loading import BackendName
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.data.windows import Windows
from trivet.errors import ConfigError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs, join
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


class WordOverlap(EvaluatorPeer):
    """Shares of words that the contexts hold, in place of a model; without a threshold."""

    def __init__(self) -> None:
        super().__init__(Evaluator(backend=OverlapBackend()))
        self.about = "lexical overlap of the weakest sentence, with the embedded vocabulary"

    def score(self, example: RagExample) -> PeerScore:
        """Return the overlap of the sentence that shares least."""
        sentences = _sentences(self._evaluate(example))
        return PeerScore(min(one.faithfulness for one in sentences), sentences=sentences)


class OverlapBackend:
    """Returns lexical overlaps as probabilities."""

    name = "shared words"

    def run(self, windows: Windows) -> Outputs:
        """Join the overlaps as a model's probabilities are joined."""
        return join(
            support_probs=windows.context_overlap,
            relevance_probs=windows.question_overlap,
            utilization_probs=windows.response_overlap,
            response_mask=windows.response_at.max(axis=-1) >= 0,
            context_weight=windows.context_weight,
            sentence_pool=windows.sentence_pool,
            faithfulness="weakest_sentence",
        )


def _sentences(verdict: Evaluation) -> tuple[SentenceScore, ...]:
    return tuple(SentenceScore(one.text, one.support) for one in verdict.sentences)


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
