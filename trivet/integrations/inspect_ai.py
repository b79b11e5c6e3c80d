"""Inspect: a scorer, and a solver that replays recorded responses.

    from trivet.integrations.inspect_ai import replay, scorer

    Task(dataset=samples, solver=replay(), scorer=scorer())

A sample's input is the question; its metadata holds ``contexts``.
"""

from __future__ import annotations

from typing import Any

from trivet.integrations.gathering import Gathering
from trivet.integrations.judge import SCORES, Judge, details, foreign, reason, scores_of
from trivet.records import Evaluation, ExampleError


def scorer(judge: Judge | None = None, contexts: str = "contexts") -> Any:
    """Return a scorer with one value a score, each with its mean and standard error.

    What the samples that run at a time ask is judged together.

    Args:
        judge: Who judges; ``None`` is the embedded bundle.
        contexts: Where the sample's metadata holds the retrieved passages.

    Raises:
        MissingLibraryError: Inspect is not installed.
    """
    inspect = foreign("inspect_ai.scorer", "inspect-ai")
    gathering = Gathering(judge)
    metrics = {score: [inspect.mean(), inspect.stderr()] for score in SCORES}

    @inspect.scorer(metrics=metrics, name="trivet")
    def make() -> Any:
        async def score(state: Any, target: Any) -> Any:
            if contexts not in state.metadata:
                found = ", ".join(state.metadata) or "nothing"
                raise ExampleError(
                    f"the sample's metadata has no {contexts!r}, but {found}; name it with "
                    "scorer(contexts=...)",
                    code="missing_field",
                )
            verdict = await gathering.ask_async(
                state.input_text, state.metadata[contexts], state.output.completion
            )
            return inspect.Score(
                value=_values(verdict),
                answer=state.output.completion,
                explanation="\n".join(f"{name}: {reason(verdict, name)}" for name in SCORES),
                metadata=details(verdict),
            )

        return score

    return make()


def replay(response: str = "response") -> Any:
    """Return a solver that answers with what was recorded in the sample's metadata.

    Args:
        response: Where it stands there.

    Raises:
        MissingLibraryError: Inspect is not installed.
    """
    solver = foreign("inspect_ai.solver", "inspect-ai")
    model = foreign("inspect_ai.model", "inspect-ai")

    @solver.solver(name="trivet_replay")
    def make() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            recorded = state.metadata[response]
            state.output = model.ModelOutput.from_content("recorded", recorded)
            return state

        return solve

    return make()


def _values(verdict: Evaluation) -> dict[str, float]:
    """Return the scores that there are; Inspect's means leave out what a value lacks."""
    return {score: value for score, value in scores_of(verdict).items() if value is not None}
