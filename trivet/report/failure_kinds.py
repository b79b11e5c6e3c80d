"""What can be wrong with an answer, as a person who is to repair it thinks of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trivet.records import ConfigError

MADE_UP, RETRIEVAL_POOR, CONTEXT_IGNORED = "made up", "retrieval poor", "context ignored"
KINDS = (MADE_UP, RETRIEVAL_POOR, CONTEXT_IGNORED)
_WITHOUT_BUNDLE = 0.5  # where a verdict's ``adherent`` was left out of the file


@dataclass(frozen=True, slots=True)
class Limits:
    """Below which scores an answer belongs to a kind of failure; probabilities in [0, 1].

    Attributes:
        faithfulness: ``None`` leaves it to the bundle, whose verdict says ``adherent`` or not.
        relevance: Relevance is a share of all sentences retrieved, so a low limit.
        utilization: Likewise.
        completeness: Of what is relevant, the share that the answer used.
    """

    faithfulness: float | None = None
    relevance: float = 0.1
    utilization: float = 0.05
    completeness: float = 0.5

    @classmethod
    def from_words(cls, words: Mapping[str, float]) -> Limits:
        """Return the limits, some of them changed.

        Raises:
            ConfigError: A word is no score, or its limit no number from 0 to 1.
        """
        for name, limit in words.items():
            if name not in cls.__slots__:
                raise ConfigError(f"no score {name!r}; the scores are {', '.join(cls.__slots__)}")
            if not 0 <= limit <= 1:
                raise ConfigError(f"the limit of {name} is {limit:g}; it must lie in [0, 1]")
        return cls(**words)

    def meanings(self) -> dict[str, str]:
        """Return, for each kind, the sentence that says what it stands for."""
        faithless = (
            "faithfulness below the bundle's threshold"
            if self.faithfulness is None
            else f"faithfulness below {self.faithfulness:g}"
        )
        return {
            MADE_UP: f"{faithless}: something in the response is supported by no passage",
            RETRIEVAL_POOR: f"relevance below {self.relevance:g}: hardly a sentence of the "
            "passages helps to answer the question",
            CONTEXT_IGNORED: f"utilization below {self.utilization:g} or completeness below "
            f"{self.completeness:g}, while relevance is not low: the passages would help, and the "
            "response does not draw on them",
        }

    def kinds(
        self, scores: Mapping[str, float | None], adherent: bool | None = None
    ) -> tuple[str, ...]:
        """Return the kinds of failure that an answer shows; none for a sound one.

        Args:
            scores: Of `read_scores`.
            adherent: What the bundle says, where it says it.
        """
        poor = _below(scores["relevance"], self.relevance)
        ignored = _below(scores["utilization"], self.utilization) or _below(
            scores["completeness"], self.completeness
        )
        if self.faithfulness is None and adherent is not None:
            made_up = not adherent
        else:
            limit = _WITHOUT_BUNDLE if self.faithfulness is None else self.faithfulness
            made_up = _below(scores["faithfulness"], limit)
        shown = {MADE_UP: made_up, RETRIEVAL_POOR: poor, CONTEXT_IGNORED: ignored and not poor}
        return tuple(kind for kind, found in shown.items() if found)


def _below(score: float | None, limit: float) -> bool:
    return score is not None and score < limit
