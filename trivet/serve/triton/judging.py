"""One example through an encoder that is asked, not called: its windows are under way together.

The same cutting, packing and joining as everywhere (``evaluation.packing``); only the waiting
differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from trivet.data.windows import Windows, collate
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.packing import WindowAccumulator, pack
from trivet.evaluation.preprocessing import Prepared
from trivet.model.aggregate import Outputs
from trivet.records import BackendError, Evaluation, RagExample

Ask: TypeAlias = Callable[[Windows], Awaitable[Outputs]]


class Cancelled(RuntimeError):
    """The client went away; what had not been asked by then never was."""


async def judge(
    evaluator: Evaluator,
    ask: Ask,
    example: RagExample,
    *,
    allow_empty_contexts: bool,
    calls_in_flight: int,
    is_cancelled: Callable[[], bool],
) -> Evaluation:
    """Judge one example.

    Args:
        evaluator: Prepares the example, and reads the verdict.
        ask: Runs the encoder once.
        example: The texts.
        allow_empty_contexts: As in ``Evaluator.evaluate``.
        calls_in_flight: Most calls that are under way at a time.
        is_cancelled: Whether nobody waits for the verdict any more.

    Raises:
        ExampleError: As in ``Evaluator.evaluate``.
        WindowError: The same.
        BackendError: The encoder failed, or answered with no probability.
        Cancelled: Nobody waits any more.
    """
    (prepared,) = evaluator.prepare([example], allow_empty_contexts=allow_empty_contexts)
    if not isinstance(prepared, Prepared):
        raise prepared
    gathering = WindowAccumulator(prepared.layout)
    pad = evaluator.bundle.info.special_tokens.pad
    gate = asyncio.Semaphore(calls_in_flight)

    async def run(rows: Sequence[int]) -> None:
        async with gate:
            if gathering.error is not None:
                return
            if is_cancelled():
                raise Cancelled
            part = gathering.take(sorted(rows))
            try:
                answer = await ask(collate([part.layout], pad))
            except BackendError as error:
                gathering.error = error
            else:
                gathering.add(part, answer, 0)

    lengths = [len(row) for row in prepared.layout.rows]
    # All are waited for, the others of a cancelled example too: none outlives its request.
    ended = await asyncio.gather(
        *(run(rows) for rows in pack(lengths, evaluator.limits)), return_exceptions=True
    )
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    outputs = evaluator.join(gathering)
    if isinstance(outputs, BackendError):
        raise outputs
    return evaluator.finish(prepared, outputs)
