"""Tasks for Inspect, found by its entry point: which model tells unsupported answers best.

Example: ``inspect eval trivet/ragtruth_qa -T data=data/ragtruth --model openai/gpt-4o-mini``, and
the same with ``--solver trivet/verdict --model none`` for Trivet's own verdicts.
"""

from __future__ import annotations

from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import accuracy, grouped, pattern, stderr
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

import trivet
from trivet.data.labelled.sources import load_source
from trivet.errors import DataError, ExampleError
from trivet.integrations.batching import RequestBatcher
from trivet.integrations.inspect_ai import scorer_factory
from trivet.records import LabelledExample

__all__ = ["halubench", "ragbench", "ragtruth_qa", "scorer", "verdict"]

scorer = scorer_factory()

_VERDICTS = {True: "supported", False: "unsupported"}
_PROMPT = """Question: {question}

Passages:
{passages}

Answer: {response}

Do the passages support everything that the answer says? What they do not say is unsupported, even \
if it is true. End with a line "Verdict: supported" or "Verdict: unsupported"."""


@task
def ragtruth_qa(data: str = "ragtruth", split: str = "test") -> Task:
    """Return the task of RAGTruth's answers to questions, labelled by people."""
    return _task("ragtruth", data, split, only="ragtruth/qa")


@task
def ragbench(data: str = "ragbench", split: str = "test", only: str = "") -> Task:
    """Return the task of RAGBench's answers; ``only`` names one of its sets, like ``covidqa``."""
    return _task("ragbench", data, split, only=f"ragbench/{only}")


@task
def halubench(data: str = "halubench", split: str = "test", only: str = "") -> Task:
    """Return the task of HaluBench's answers; ``only`` names one of its sources."""
    return _task("halubench", data, split, only=f"halubench/{only}")


@solver
def verdict(bundle: str | None = None) -> Solver:
    """Answer with the verdict of a bundle, without a model; ``None`` is the embedded one."""
    batcher = RequestBatcher(trivet.Evaluator(bundle) if bundle else None)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        fields = (state.metadata[name] for name in ("question", "contexts", "response"))
        found = await batcher.evaluate_async(*fields)
        if found.adherent is None:
            raise ExampleError("there is no verdict without a response or without a support head")
        state.output.completion = f"Verdict: {_VERDICTS[found.adherent]}"
        return state

    return solve


def _task(kind: str, data: str, split: str, only: str) -> Task:
    """Return the task of the rows with a verdict; ``data`` and ``split`` as in ``trivet test``."""
    rows, _ = load_source(f"{kind}:{data}", split)
    samples = [
        _sample(row, _VERDICTS[row.labels.adherent])
        for row in rows
        if row.labels.adherent is not None and row.source.startswith(only)
    ]
    if not samples:
        raise DataError(f"{kind}:{data} has no row of {only!r} with a verdict in split {split!r}")
    return Task(
        dataset=MemoryDataset(samples, name=only.rstrip("/"), location=data),
        solver=generate(),
        scorer=pattern(r"verdict:\W*(supported|unsupported)"),
        metrics=[
            accuracy(),
            stderr(cluster="group"),
            # The shares of supported and of unsupported answers that were told as such.
            grouped(accuracy(), "label", all="groups", all_label="balanced_accuracy"),
        ],
    )


def _sample(row: LabelledExample, label: str) -> Sample:
    example = row.example
    fields: dict[str, Any] = {
        "question": example.question,
        "contexts": list(example.contexts),
        "response": example.response,
    }
    passages = "\n\n".join(f"[{n}] {text}" for n, text in enumerate(example.contexts, start=1))
    facts = {"source": row.source, "group": row.group, "generator": row.generator, "id": example.id}
    return Sample(
        input=_PROMPT.format(**fields, passages=passages),
        target=label,
        metadata={**fields, **facts, "label": label},
    )
