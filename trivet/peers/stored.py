"""Scores of other judges that a data set holds for its rows, as peers."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.data.labelled.ragbench_published import JUDGES
from trivet.errors import ConfigError, ExampleError
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import LabelledExample, RagExample

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
    """Return the peer ``stored:JUDGE``."""
    if argument not in JUDGES:
        raise ConfigError(f"peer {kind}:{argument}: no such judge; there are {', '.join(JUDGES)}")
    return StoredScores(argument, setup.rows)
