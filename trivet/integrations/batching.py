"""Batches single requests, for tools that ask for one score of one example at a time."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

from trivet.integrations.judge import Judge, default_judge, example, judge_many, verdict_of
from trivet.records import Evaluation, RagExample

_MOST_EXAMPLES = 64  # of a batch
_REMEMBERED = 256

Promise: TypeAlias = "Future[Evaluation]"


class RequestBatcher:
    """Evaluates together what was requested while the judge was busy; repeats cost nothing.

    Its methods may be called from any thread and any event loop.
    """

    def __init__(self, judge: Judge | None = None) -> None:
        self.judge = judge or default_judge()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trivet")
        self._lock = threading.Lock()
        self._waiting: deque[tuple[RagExample, Promise]] = deque()
        self._known: OrderedDict[RagExample, Promise] = OrderedDict()

    def evaluate(self, question: Any, contexts: Any, response: Any) -> Evaluation:
        """Return the verdict on one example, or raise an ``ExampleError``."""
        return self._promise(example(question, contexts, response)).result()

    async def evaluate_async(self, question: Any, contexts: Any, response: Any) -> Evaluation:
        """Do the same without blocking the event loop."""
        promise = self._promise(example(question, contexts, response))
        # Others may wait for the same verdict: a cancelled caller must not cancel it for them.
        return await asyncio.shield(asyncio.wrap_future(promise))

    def _promise(self, asked: RagExample) -> Promise:
        with self._lock:
            if asked in self._known:
                self._known.move_to_end(asked)
                return self._known[asked]
            promise: Promise = Future()
            self._known[asked] = promise
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            self._waiting.append((asked, promise))
        self._worker.submit(self._judge_waiting)
        return promise

    def _judge_waiting(self) -> None:
        """Evaluate one batch; an earlier call may have taken all examples."""
        with self._lock:
            count = min(_MOST_EXAMPLES, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
        if not batch:
            return
        try:
            results = judge_many(self.judge, [asked for asked, _ in batch])
            pairs = list(zip(batch, results, strict=True))
        except BaseException as error:  # every caller must get it
            for asked, promise in batch:
                self._fail(asked, promise, error)
            return
        for (asked, promise), result in pairs:
            try:
                promise.set_result(verdict_of(result))
            except ValueError as error:
                self._fail(asked, promise, error)

    def _fail(self, asked: RagExample, promise: Promise, error: BaseException) -> None:
        """Report a failure, and forget it, so that the next request tries again."""
        with self._lock:
            self._known.pop(asked, None)
        promise.set_exception(error)
