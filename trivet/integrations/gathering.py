"""Many small questions, few calls.

Most tools ask for one score of one example at a time, from many tasks or threads. Here what is
asked while the engine is busy is judged together afterwards, and an example of which several scores
are asked is judged once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

from trivet.integrations.judge import Judge, default_judge, judge_many, verdict_of
from trivet.integrations.rows import example
from trivet.records import Evaluation, RagExample

_TOGETHER = 64
_REMEMBERED = 256

Promise: TypeAlias = "Future[Evaluation]"


class Gathering:
    """A judge that may be asked from any thread and any event loop.

    Attributes:
        judge: Who answers.
    """

    def __init__(self, judge: Judge | None = None) -> None:
        """Gather what ``judge`` is asked; ``None`` is the embedded bundle."""
        self.judge = judge or default_judge()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trivet")
        self._lock = threading.Lock()
        self._waiting: deque[tuple[RagExample, Promise]] = deque()
        self._known: OrderedDict[RagExample, Promise] = OrderedDict()

    def ask(self, question: Any, contexts: Any, response: Any) -> Evaluation:
        """Return the verdict on one example.

        Raises:
            ExampleError: It cannot be judged.
        """
        return self._promise(example(question, contexts, response)).result()

    async def ask_async(self, question: Any, contexts: Any, response: Any) -> Evaluation:
        """Return the verdict on one example; the event loop goes on meanwhile.

        Raises:
            ExampleError: It cannot be judged.
        """
        promise = self._promise(example(question, contexts, response))
        # Others may wait for the same verdict: who gives up waiting must not take it from them.
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
        """Judge what waits, together; a call before may have taken all of it."""
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(min(_TOGETHER, len(self._waiting)))]
        if not taken:
            return
        try:
            results = judge_many(self.judge, [asked for asked, _ in taken])
            pairs = list(zip(taken, results, strict=True))
        except BaseException as error:  # whatever it is, those who wait must hear of it
            for asked, promise in taken:
                self._forget(asked)
                promise.set_exception(error)
            return
        for (asked, promise), result in pairs:
            try:
                promise.set_result(verdict_of(result))
            except ValueError as error:
                self._forget(asked)
                promise.set_exception(error)

    def _forget(self, asked: RagExample) -> None:
        """Let a failure be tried again when it is asked for again."""
        with self._lock:
            self._known.pop(asked, None)
