"""Runs of peers over rows: each score is kept as soon as it is there, and a stopped run resumes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from trivet.batch.errors import RunChangedError
from trivet.batch.output import Output, no_room
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.evaluation.job import WorkerPool, prefetch
from trivet.llm.errors import LlmError
from trivet.peers.peer import Peer, PeerScore
from trivet.peers.predictions import Header, digest_rows, read_header, to_line
from trivet.records import LabelledExample

_WRITE_EVERY = 0.5  # seconds between two writes, each of which waits for the disk
_WAITING = 4  # rows in work for each thread: a slow row does not keep the others waiting


@dataclass(frozen=True)
class Run:
    """The rows and settings of a comparison.

    Attributes:
        rows: Rows to be scored.
        folder: Folder of the prediction files.
        repeats: Number of times that each row is scored.
        concurrency: Rows that a concurrent peer scores at once.
        restart: Whether earlier predictions are dropped.
    """

    rows: Sequence[LabelledExample]
    folder: Path
    repeats: int = 1
    concurrency: int = 8
    restart: bool = False

    def path(self, name: str) -> Path:
        """Return the file of a peer's predictions."""
        safe = "".join(each if each.isalnum() or each in "-._" else "_" for each in name)
        return self.folder / f"{safe}.jsonl"


def run_peer(
    name: str,
    load: Callable[[int], Peer],
    run: Run,
    track: Callable[[Iterator[PeerScore], int], Iterable[PeerScore]] = lambda scores, _: scores,
    fingerprint: Mapping[str, str] | None = None,
) -> Path:
    """Score the rows that have no prediction of this peer yet; return the file.

    Args:
        name: Name of the peer.
        load: Function that loads the peer for a repeat, only called if rows are left.
        run: Rows and settings.
        track: Function that shows the progress of an iterator of a length.
        fingerprint: Digests of `trivet.peers.fingerprint`, which complete predictions are also
            held against.

    Raises:
        RunChangedError: The file has predictions of another peer, version or rows.
        OutputLockedError: Another process writes the file.
        LlmError: Further calls of an LLM would fail too; the scores so far are kept.
    """
    path, digest = run.path(name), digest_rows(run.rows)
    known = {"peer": name} | dict(fingerprint or {})
    with _opened(path) as output:
        header, done = (None, 0) if run.restart else _read_done(path, output)
        if header is not None:
            if header.rows != digest:
                raise _changed(path, [f"the rows ({len(run.rows)}) are others"])
            _check(path, header, known)
        for repeat in range(done // len(run.rows), run.repeats):
            peer = load(repeat)
            first = b""
            if header is None:
                header = Header.of(name, peer, digest, fingerprint or {})
                first = to_line(header)
                output.cut(0)
            _check(path, header, {"about": peer.about})
            start = done - repeat * len(run.rows)
            scores = _scores(peer, run.rows[start:], run.concurrency)
            with contextlib.closing(scores), _Lines(output, first) as lines:
                for place, score in enumerate(track(scores, len(run.rows) - start), start=start):
                    row = run.rows[place].example
                    lines.add(to_line(score, row=place + 1, repeat=repeat, id=row.id))
                    done += 1
    return path


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Output]:
    """Open the file of a peer; one that is still empty at the end is removed."""
    with Output(path) as output:
        try:
            yield output
        finally:
            if not output.size:
                with contextlib.suppress(OSError):  # Windows keeps open files
                    path.unlink()


def _read_done(path: Path, output: Output) -> tuple[Header | None, int]:
    """Return the header and the number of whole lines after it; a torn last line is cut."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    output.cut(end)
    lines = content[:end].splitlines()
    return (read_header(path, lines[0]), len(lines) - 1) if lines else (None, 0)


def _check(path: Path, header: Header, now: Mapping[str, str]) -> None:
    if changes := header.changes(now):
        raise _changed(path, changes)


def _changed(path: Path, changes: Sequence[str]) -> RunChangedError:
    return RunChangedError(
        f"{path}: has predictions of another run: {'; '.join(changes)}; choose another --out, or "
        "begin anew with --restart"
    )


class _Lines:
    """Lines that are written together, twice a second and at the end, ``first`` with the first."""

    def __init__(self, output: Output, first: bytes) -> None:
        self._output, self._first, self._last = output, first, time.monotonic()
        self._lines: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Add a line, and write if it is time."""
        self._lines += [self._first, line]
        self._first = b""
        if time.monotonic() - self._last > _WRITE_EVERY:
            self._write()

    def _write(self) -> None:
        with no_room(self._output.path):
            self._output.append(b"".join(self._lines))
        self._lines, self._last = [], time.monotonic()

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *error: object) -> None:
        if self._lines:
            self._write()


def _scores(
    peer: Peer, rows: Sequence[LabelledExample], concurrency: int
) -> Generator[PeerScore, None, None]:
    """Yield the score of each row in order, several at once if the peer allows it."""
    if not peer.concurrent or concurrency == 1:
        yield from (_score(peer, row) for row in rows)
        return
    pool = WorkerPool(concurrency)

    def begin(row: LabelledExample) -> Future[PeerScore]:
        return pool.submit(lambda _: _score(peer, row), peer)

    for future in prefetch(rows, begin, _WAITING * concurrency):
        yield future.result()


def _score(peer: Peer, row: LabelledExample) -> PeerScore:
    """Score a row; a failure that concerns this row alone becomes a score without a value."""
    began = time.perf_counter()
    try:
        score = peer.score(row.example)
    except (ExampleError, WindowError, BackendError, LlmError) as error:
        if getattr(error, "fatal", False):
            raise
        score = PeerScore(None, failed=getattr(error, "code", "window"), raw=str(error))
    if score.seconds is None and peer.timed:
        score = replace(score, seconds=time.perf_counter() - began)
    return score
