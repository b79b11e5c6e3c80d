"""Peers: evaluators of faithfulness behind one call.

A peer named ``KIND`` or ``KIND:ARGUMENT`` is made by ``make_peer(kind, argument, setup)`` of its
module, which is imported only when it is named.
"""

from __future__ import annotations

import difflib
import importlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from trivet.errors import ConfigError, install_line
from trivet.records import LabelledExample, RagExample, Span

_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True)
class PeerScore:
    """The judgement of a peer on one example, or the reason why there is none.

    Attributes:
        faithfulness: Score in [0, 1], higher is more faithful; ``None`` if failed.
        hallucinated: Whether the response is flagged at the peer's own default threshold; ``None``
            if failed, or if the peer has no threshold of its own.
        spans: Unsupported characters of the response; ``None`` if the peer marks none.
        failed: Reason for no score, a short stable name such as ``unparsable``; a failure is
            counted, never replaced by a score.
        calls: Requests to an LLM.
        prompt_tokens: Tokens sent to it.
        completion_tokens: Tokens that it wrote.
        seconds: Time of the score; ``None`` lets the run measure it. Of a cached answer, the time
            that it took when it was asked.
        raw: Answers of an LLM, or the message of a failure, as JSON values.

    Raises:
        ValueError: The score is not in [0, 1], or there are both or neither of score and reason.
    """

    faithfulness: float | None
    hallucinated: bool | None = None
    spans: tuple[Span, ...] | None = None
    failed: str | None = None
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float | None = None
    raw: Any = None

    def __post_init__(self) -> None:
        if (self.faithfulness is None) != (self.failed is not None):
            raise ValueError(
                f"faithfulness {self.faithfulness} and failed {self.failed!r}: one of them is None"
            )
        # NaN fails both comparisons.
        if self.faithfulness is not None and not 0 <= self.faithfulness <= 1:
            raise ValueError(f"faithfulness must be in [0, 1], got {self.faithfulness}")

    @classmethod
    def at(cls, threshold: float, faithfulness: float, **more: Any) -> Self:
        """Return a score that is flagged below the peer's threshold; NaN becomes a failure.

        Rounding may leave a mean of probabilities just outside [0, 1], where it is cut.
        """
        if math.isnan(faithfulness):
            return cls(None, failed="not_a_number", **more)
        if -_ROUNDING < faithfulness < 1 + _ROUNDING:
            faithfulness = min(1.0, max(0.0, faithfulness))
        return cls(faithfulness, hallucinated=faithfulness < threshold, **more)


class Peer(Protocol):
    """An evaluator of faithfulness.

    Attributes:
        about: Everything that its scores depend on, in one line: weights with revision or digest,
            prompt version, thresholds. Scores are only resumed under the same line.
        concurrent: Whether ``score`` may be called from several threads and mostly waits, as for
            an LLM. Other peers score one row at a time, so that their seconds can be compared.
        timed: Whether seconds mean anything; not for stored scores.
        model: Model of an LLM peer, whose price its tokens have.
    """

    about: str
    concurrent: bool = False
    timed: bool = True
    model: str = ""

    def score(self, example: RagExample) -> PeerScore:
        """Score one example.

        Raises:
            ExampleError: The peer cannot score this example; counted as failed by its code.
        """


@dataclass(frozen=True)
class PeerSetup:
    """Data and services that peers may use.

    Attributes:
        rows: Rows to be compared, for peers whose scores are stored in them. No peer may look at
            their labels.
        dev: Labelled rows, of other documents than ``rows``, that peers may be fitted on.
        open_llm: Returns the `trivet.llm.client.ChatClient` of a model; clients share cache and
            budget.
        model: Model of the LLM peers that name none; ``""`` if there is none.
        threads: Threads of a local model; ``None`` is one per core.
        seed: Seed of anything random.
        repeat: Number of the repeat, from 0; the ``sample`` of LLM requests, so that each repeat
            has answers of its own in the cache.
        base_url: Endpoint of ``open_llm``; ``None`` is that of ``OPENAI_BASE_URL``, or OpenAI.
    """

    rows: Sequence[LabelledExample] = ()
    dev: Sequence[LabelledExample] = ()
    open_llm: Callable[[str], Any] | None = None
    model: str = ""
    threads: int | None = None
    seed: int = 0
    repeat: int = 0
    base_url: str | None = None


PEERS: dict[str, str] = {
    **dict.fromkeys(["trivet", "stored", "overlap", "tfidf", "always-yes"], "built_in"),
    **dict.fromkeys(["nli", "hhem"], "entailment"),
    **dict.fromkeys(["longtracer", "longtracer-labels", "longtracer-documented"], "pipelines"),
    "provenance": "pipelines",
    "lettucedetect": "lettucedetect",
    **dict.fromkeys(["minicheck", "factcg"], "chunk_checkers"),
    **dict.fromkeys(["ragas", "deepeval", "trulens", "selfcheck"], "llm_claims"),
    **dict.fromkeys(["likert", "chainpoll", "lynx"], "llm_ratings"),
    **dict.fromkeys(["prometheus", "guardian", "glider"], "llm_ratings"),
    **dict.fromkeys(["tlm", "tlm-high"], "llm_ratings"),
}
"""Module of each kind."""


def check_peer(name: str) -> None:
    """Refuse a name whose kind does not exist, with the nearest ones; ``ConfigError``."""
    kind = name.partition(":")[0]
    if kind not in PEERS:
        near = difflib.get_close_matches(kind, PEERS, n=3, cutoff=0.4)
        raise ConfigError(
            f"unknown peer {kind!r}; {'nearest' if near else 'peers'}: "
            f"{', '.join(near or sorted(PEERS))}"
        )


def load_peer(name: str, setup: PeerSetup) -> Peer:
    """Return the peer of a name such as ``overlap`` or ``trivet:FOLDER``.

    Raises:
        ConfigError: There is no such kind, or its library is not installed.
    """
    check_peer(name)
    kind, _, argument = name.partition(":")
    try:
        found = importlib.import_module(f"trivet.peers.{PEERS[kind]}")
        if setup.threads and (torch := sys.modules.get("torch")):
            torch.set_num_threads(setup.threads)
        peer: Peer = found.make_peer(kind, argument, setup)
    except ModuleNotFoundError as error:
        if (error.name or "trivet").partition(".")[0] == "trivet":
            raise
        raise ConfigError(
            f"peer {kind} needs {error.name}, which is not installed; {install_line('research')}"
        ) from error
    return peer
