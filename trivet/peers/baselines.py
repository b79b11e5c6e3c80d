"""Baselines without a language model, which every judge has to beat."""

from __future__ import annotations

from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import ConfigError, RagExample, Span


class AlwaysYes(Peer):
    """Flags every response as a whole: the F1 that the share of hallucinated rows gives away."""

    about = "flags every response"

    def score(self, example: RagExample) -> PeerScore:
        """Return 0 for any example."""
        return PeerScore(0.0, hallucinated=True, spans=(Span(0, len(example.response)),))


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return the baseline of a kind; none takes an argument."""
    if argument:
        raise ConfigError(f"peer {kind}:{argument}: {kind} takes no argument")
    return AlwaysYes()
