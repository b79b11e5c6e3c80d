"""As many engine calls at once as an engine likes.

On a CPU that is one for each core, each on one thread: cores that share a call wait for one another
after every product, and for the one that other work holds up.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

# How long the end of the process waits for calls that run; an engine that hangs may not stop it.
_AT_EXIT_SECONDS = 5.0


class WorkerPool:
    """Runs work, some of it at once. Safe for threads.

    What one thread asks for runs in its order; threads that ask at the same time take turns.

    Attributes:
        count: How much at once.
    """

    def __init__(self, count: int) -> None:
        """Start no thread yet.

        Args:
            count: How much runs at once.
        """
        self.count = count
        self._open()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Let work wait for a worker. Who gives up cancels what comes back."""
        return self.submit_told(lambda _: work(), owner=work)

    def submit_told(self, work: Callable[[int], T], owner: object) -> Future[T]:
        """Let work wait for a worker, as ``submit``.

        Args:
            work: Is told how much work of other owners runs or waits when it begins.
            owner: Lives as long as its work; is told apart by its identity.
        """
        if self._process != os.getpid():
            self._open()  # the threads stayed behind in the process that this one was forked from
        return self._workers.submit(work, id(owner))

    def _open(self) -> None:
        self._process = os.getpid()
        self._workers = _Workers(self.count)
        weakref.finalize(self, self._workers.close).atexit = False


class _Waiting(NamedTuple):
    """Work that waits for a worker, what comes of it, and the identity of its owner."""

    future: Future[Any]
    work: Callable[[int], Any]
    owner: int


class _Workers:
    """The threads of some workers; they hold no reference to who owns them.

    A pool of the standard library would run all that waits when the process ends, and take nothing
    more as soon as its main thread has ended.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: OrderedDict[int, deque[_Waiting]] = OrderedDict()
        self._running: dict[int, int] = {}  # the owner of what runs, by thread
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._process = os.getpid()
        _open_workers.add(self)

    def submit(self, work: Callable[[int], T], owner: int) -> Future[T]:
        future: Future[T] = Future()
        with self._changed:
            if len(self._threads) < self._most:
                # A call that hangs cannot be ended; as a daemon it does not keep the process alive.
                thread = threading.Thread(target=self._serve, name="trivet-worker", daemon=True)
                thread.start()
                self._threads.append(thread)
            asked = self._waiting.setdefault(threading.get_ident(), deque())
            asked.append(_Waiting(future, work, owner))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Run nothing more; what waits is given up."""
        if self._process != os.getpid():
            return  # forked: whoever held the lock then will never release it here
        with self._changed:
            self._closed = True
            for asked in self._waiting.values():
                for each in asked:
                    each.future.cancel()
            self._waiting.clear()
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait for the calls that run, once closed."""
        for thread in self._threads if self._process == os.getpid() else ():
            thread.join(_AT_EXIT_SECONDS)

    def _serve(self) -> None:
        while (taken := self._take()) is not None:
            (future, work, _), others = taken
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work(others))
            except BaseException as error:  # it belongs to who waits for the result
                future.set_exception(error)
            del taken, future, work  # else a worker that waits would keep its last answer

    def _take(self) -> tuple[_Waiting, int] | None:
        """Wait for work and take it from whose turn it is; ``None`` once closed.

        Returns:
            The work, and how much of other owners runs or waits.
        """
        with self._changed:
            self._running.pop(threading.get_ident(), None)
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            who, asked = self._waiting.popitem(last=False)
            taken = asked.popleft()
            if asked:
                self._waiting[who] = asked
            others = sum(owner != taken.owner for owner in self._running.values())
            others += sum(
                each.owner != taken.owner for waits in self._waiting.values() for each in waits
            )
            self._running[threading.get_ident()] = taken.owner
            return taken, others


_open_workers: weakref.WeakSet[_Workers] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Let no call run into the end of the process."""
    for workers in list(_open_workers):
        workers.close()
        workers.wait()
