"""Provides a scorer for Inspect, and a solver that replays recorded responses.

Example: ``Task(dataset=samples, solver=replay(), scorer=scorer())``
"""

from __future__ import annotations

from typing import Any

from trivet.errors import ExampleError
from trivet.integrations.judge import (
    SCORES,
    Judge,
    RequestBatcher,
    details,
    import_tool,
    reason,
    scores_of,
)


def scorer(judge: Judge | None = None, contexts: str = "contexts") -> Any:
    """Return a scorer of all scores, each with its mean and standard error.

    The sample's input is the question; ``contexts`` is the key of the passages in its metadata.
    Concurrent samples are evaluated together.
    """
    inspect = import_tool("inspect_ai.scorer", "inspect-ai")
    metrics = {score: [inspect.mean(), inspect.stderr()] for score in SCORES}

    batcher = RequestBatcher(judge)

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
            verdict = await batcher.evaluate_async(
                state.input_text, state.metadata[contexts], state.output.completion
            )
            scores = scores_of(verdict).items()
            return inspect.Score(
                # Inspect leaves missing keys out of its means.
                value={name: value for name, value in scores if value is not None},
                answer=state.output.completion,
                explanation="\n".join(f"{name}: {reason(verdict, name)}" for name in SCORES),
                metadata=details(verdict),
            )

        return score

    return make()


def replay(response: str = "response") -> Any:
    """Return a solver that answers with the value of the key ``response`` in the metadata."""
    solver = import_tool("inspect_ai.solver", "inspect-ai")
    model = import_tool("inspect_ai.model", "inspect-ai")

    @solver.solver(name="trivet_replay")
    def make() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = model.ModelOutput.from_content("recorded", state.metadata[response])
            return state

        return solve

    return make()
