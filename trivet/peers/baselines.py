"""Peers without a model of their own: baselines to beat, and scores that a data set holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trivet.data.labelled.ragbench_published import JUDGES
from trivet.errors import ConfigError, ExampleError
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.peers.predictions import digest_rows
from trivet.records import LabelledExample, RagExample, Span


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


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``stored:JUDGE``, or a baseline, which takes no argument."""
    if kind == "stored":
        if argument not in JUDGES:
            known = ", ".join(JUDGES)
            raise ConfigError(f"peer {kind}:{argument}: no such judge; there are {known}")
        return StoredScores(argument, setup.rows)
    if argument:
        raise ConfigError(f"peer {kind}:{argument}: {kind} takes no argument")
    return AlwaysYes() if kind == "always-yes" else TfidfRegression(setup.dev, setup.seed)
