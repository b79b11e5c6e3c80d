"""Systems that say how faithful an answer is: one table over three kinds.

A system is named ``NAME`` or ``NAME:ARGUMENT``. ``load(name, argument, setup)`` of its module makes
it; the module is imported when the system is named.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from trivet.errors import ConfigError, ExampleError, install_line
from trivet.records import LabelledExample, RagExample, Span

Kind = Literal["prompt", "local", "stored"]

SYSTEMS: dict[str, tuple[Kind, str]] = {
    **dict.fromkeys(["likert", "ragas", "trulens", "chainpoll"], ("prompt", "judges")),
    **dict.fromkeys(["selfcheck", "lynx", "prometheus", "tlm"], ("prompt", "judges")),
    **dict.fromkeys(["trivet", "words", "always-yes"], ("local", "built_in")),
    **dict.fromkeys(["hhem", "lettucedetect", "longtracer", "provenance"], ("local", "detectors")),
    "stored": ("stored", "stored"),
}
"""Kind and module of each system."""

_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True)
class Score:
    """The judgement of a system on one answer, or the reason why there is none."""

    faithfulness: float | None  # in [0, 1], higher is more faithful; None if failed
    hallucinated: bool | None = None  # flagged at the system's own threshold; None without one
    spans: tuple[Span, ...] | None = None  # unsupported characters; None if it marks none
    failed: str | None = None  # short stable name of the reason for no score
    calls: int = 0  # requests to an LLM
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float | None = None  # None lets the run measure it

    def __post_init__(self) -> None:
        # NaN fails both comparisons.
        if self.faithfulness is not None and not 0 <= self.faithfulness <= 1:
            raise ValueError(f"faithfulness must be in [0, 1], got {self.faithfulness}")

    @classmethod
    def at(cls, threshold: float, faithfulness: float, **more: Any) -> Self:
        """Return a score that is flagged below a threshold; NaN becomes a failure."""
        if math.isnan(faithfulness):
            return cls(None, failed="not_a_number", **more)
        if -_ROUNDING < faithfulness < 1 + _ROUNDING:  # of a mean of probabilities
            faithfulness = min(1.0, max(0.0, faithfulness))
        return cls(faithfulness, hallucinated=faithfulness < threshold, **more)


@dataclass(frozen=True)
class System:
    """A loaded system; ``score`` raises an ``ExampleError`` for an answer that it cannot score."""

    about: str  # all that its scores depend on: weights with revision or digest, prompts
    score: Callable[[RagExample], Score]
    model: str = ""  # of a prompt, whose price its tokens have; it mostly waits
    timed: bool = True  # whether seconds mean anything


@dataclass(frozen=True)
class Setup:
    """Rows and services that systems may use; no system may look at the labels of the rows."""

    rows: Sequence[LabelledExample] = ()  # for scores that are stored in them
    open_llm: Callable[[str], Any] | None = None  # returns the ChatClient of a model
    model: str = ""  # of the prompts that name none
    threads: int | None = None  # of a local model; None is one per core


def check_systems(names: Sequence[str]) -> None:
    """Refuse names that are not in the table."""
    if unknown := [name for name in names if name.partition(":")[0] not in SYSTEMS]:
        raise ConfigError(f"unknown system {unknown[0]!r}; there are {', '.join(sorted(SYSTEMS))}")


def load_system(name: str, setup: Setup) -> System:
    """Return the system of a name such as ``words`` or ``trivet:FOLDER``.

    Raises:
        ConfigError: There is no such system, or its library is not installed.
    """
    check_systems([name])
    known, _, argument = name.partition(":")
    try:
        module = importlib.import_module(f"research.compare.{SYSTEMS[known][1]}")
        if setup.threads and (torch := sys.modules.get("torch")):
            torch.set_num_threads(setup.threads)
        system: System = module.load(known, argument, setup)
    except ModuleNotFoundError as error:
        if (error.name or "trivet").partition(".")[0] in ("trivet", "research"):
            raise
        raise ConfigError(
            f"{known} needs {error.name}, which is not installed; {install_line('research')}"
        ) from error
    return system


def require_response(example: RagExample) -> None:
    """Raise an ``ExampleError`` if the response is empty."""
    if not example.response.strip():
        raise ExampleError("the response is empty", "empty_response")
