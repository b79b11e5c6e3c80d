"""Peers that need nothing else: bundles, scores that a data set holds, and baselines."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, cast, get_args

from trivet.bundle.manifest import MANIFEST_NAME
from trivet.data.sentence_features import share_nowhere, words_of
from trivet.errors import ConfigError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.ragbench_labels import JUDGES
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.peers.predictions import digest_rows
from trivet.records import Evaluation, LabelledExample, RagExample, Span
from trivet.settings import BackendName


class AlwaysYes(Peer):
    """Flags every response as a whole: the F1 that the share of hallucinated rows gives away."""

    about = "flags every response"

    def score(self, example: RagExample) -> PeerScore:
        """Return 0 for any example."""
        return PeerScore(0.0, hallucinated=True, spans=(Span(0, len(example.response)),))


class TfidfRegression(Peer):
    """Logistic regression on the TF-IDF words of question and response: their style alone."""

    def __init__(self, dev: Sequence[LabelledExample], seed: int) -> None:
        """Fit on labelled rows; ``ConfigError`` if they do not hold both labels."""
        import sklearn
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        known = [row for row in dev if row.labels.adherent is not None]
        truths = [bool(row.labels.adherent) for row in known]
        if len(set(truths)) < 2:
            raise ConfigError(
                f"peer tfidf needs supported and hallucinated rows to fit on, and {len(known)} "
                "labelled rows were given; name some with --dev"
            )
        self.about = f"fitted on {len(known)} rows, {digest_rows(known)}, scikit-learn "
        self.about += sklearn.__version__
        words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
        regression = LogisticRegression(class_weight="balanced", max_iter=1000, random_state=seed)
        self._model: Any = make_pipeline(words, regression)
        self._model.fit([_text(row.example) for row in known], truths)

    def score(self, example: RagExample) -> PeerScore:
        """Return the probability that such words are supported."""
        return PeerScore.at(0.5, float(self._model.predict_proba([_text(example)])[0, 1]))


def _text(example: RagExample) -> str:
    return f"{example.question}\n{example.response}"


_THRESHOLDS = {"GPT-3.5": 0.5}  # its answer is a yes or no; for the others none was published


class StoredScores(Peer):
    """The published faithfulness of a judge; rows without one fail as ``not_stored``."""

    timed = False

    def __init__(self, judge: str, rows: Sequence[LabelledExample]) -> None:
        self.about = f"published scores of {judge}, as the data holds them"
        self._threshold = _THRESHOLDS.get(judge)
        self._scores = {
            row.example: one.faithfulness
            for row in rows
            for one in row.published
            if one.judge == judge and one.faithfulness is not None
        }

    def score(self, example: RagExample) -> PeerScore:
        """Look the score up."""
        score = self._scores.get(example)
        if score is None:
            raise ExampleError("the data holds no score for this row", "not_stored")
        return PeerScore(score) if self._threshold is None else PeerScore.at(self._threshold, score)


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
        verdict = self.verdict(example)
        return PeerScore(
            verdict.faithfulness,
            hallucinated=not verdict.adherent,
            spans=tuple(Span(one.start, one.end) for one in verdict.unsupported),
        )

    def verdict(self, example: RagExample) -> Evaluation:
        """Return the verdict; ``ExampleError`` without a faithfulness."""
        (verdict,) = self._evaluator.evaluate_many([example])
        if not isinstance(verdict, Evaluation):
            raise ExampleError(verdict.message, verdict.code)
        if verdict.faithfulness is None:
            raise ExampleError("the verdict has no faithfulness", "no_faithfulness")
        return verdict


class WordOverlap(Peer):
    """Share of the response's content words that the contexts have; no model, no threshold."""

    about = "share of content words that the contexts have"

    def score(self, example: RagExample) -> PeerScore:
        """Count the words of the response."""
        return PeerScore(1 - share_nowhere(example.response, words_of(example.contexts)))


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``trivet:BUNDLE#BACKEND``, ``stored:JUDGE`` or a baseline.

    Raises:
        BundleError: The bundle is refused.
        ConfigError: There is no such backend or judge, or an argument to a baseline.
    """
    if kind == "trivet":
        bundle, _, backend = argument.partition("#")
        if backend and backend not in get_args(BackendName):
            names = ", ".join(get_args(BackendName))
            raise ConfigError(f"peer trivet:{argument}: no backend {backend!r}; there are {names}")
        chosen = cast("BackendName | None", backend or None)
        return EvaluatorPeer(Evaluator(bundle or None, setup.threads, backend=chosen))
    if kind == "stored":
        if argument not in JUDGES:
            known = ", ".join(JUDGES)
            raise ConfigError(f"peer {kind}:{argument}: no such judge; there are {known}")
        return StoredScores(argument, setup.rows)
    if argument:
        raise ConfigError(f"peer {kind}:{argument}: {kind} takes no argument")
    if kind == "tfidf":
        return TfidfRegression(setup.dev, setup.seed)
    return AlwaysYes() if kind == "always-yes" else WordOverlap()
