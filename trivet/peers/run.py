"""Runs of peers over rows: each score is kept as soon as it is there, and a stopped run resumes.

Shards have a file each. No run scores what is in the file of another one.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from trivet.batch.output import Output, RunChangedError, no_room
from trivet.batch.settings import Shard
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.evaluation.streams import work_in_order
from trivet.llm.chat import LlmError
from trivet.peers.peer import Peer, PeerScore
from trivet.peers.predictions import Header, PredictionFile, digest_rows, read_files, to_line
from trivet.records import LabelledExample

_WRITE_EVERY = 0.5  # seconds between two writes, each of which waits for the disk
_SHARD = re.compile(r"\.[0-9]+-of-[0-9]+\.jsonl$")  # end of the name of a shard's file


@dataclass(frozen=True)
class Run:
    """The rows and settings of a comparison.

    Attributes:
        rows: Rows to be scored.
        folder: Folder of the prediction files.
        repeats: Number of times that each row is scored.
        concurrency: Rows that a concurrent peer scores at once.
        restart: Whether earlier predictions are dropped, those of shards too.
        shard: Part of the rows that is scored: the ``number``-th of every ``count``.
    """

    rows: Sequence[LabelledExample]
    folder: Path
    repeats: int = 1
    concurrency: int = 8
    restart: bool = False
    shard: Shard = field(default_factory=Shard)

    def path(self, name: str) -> Path:
        """Return the file of a peer's predictions."""
        part = f".{self.shard.number}-of-{self.shard.count}" if self.shard.count > 1 else ""
        return self.folder / f"{_safe(name)}{part}.jsonl"

    def files(self, name: str) -> list[Path]:
        """Return all files of a peer, that of this part of the rows first."""
        form = re.compile(rf"{re.escape(_safe(name))}(\.[0-9]+-of-[0-9]+)?\.jsonl")
        files = [each for each in self.folder.iterdir() if form.fullmatch(each.name)]
        return sorted(files, key=lambda each: (each != self.path(name), each))


def _safe(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-._" else "_" for each in name)


def run_peer(
    name: str,
    load: Callable[[int], Peer],
    run: Run,
    fingerprint: Mapping[str, str] | None = None,
    on_score: Callable[[int, int], None] = lambda done, count: None,
) -> Path:
    """Score the rows that have no prediction of this peer yet; return its file.

    Args:
        name: Name of the peer.
        load: Function that loads the peer for a repeat, only called if rows are left.
        run: Rows and settings.
        fingerprint: Digests of `trivet.peers.predictions`, which complete predictions are also
            held against.
        on_score: Called after each score with the number of scores so far, and of all to make.

    Raises:
        RunChangedError: The file has predictions of another peer, version or rows.
        OutputLockedError: Another process writes the file.
        LlmError: Further calls of an LLM would fail too; the scores so far are kept.
    """
    path, own = run.path(name), dict(fingerprint or {})
    now = {"peer": name, "rows": digest_rows(run.rows)} | own
    with _opened(path) as output:
        earlier = [] if run.restart else _read_earlier(name, run, output, now)
        done = {place for file in earlier for place in file.scores}
        header = earlier[0].header if earlier else None
        for repeat in range(run.repeats):
            places = (place for place in range(len(run.rows)) if run.shard.has(place))
            left = [place for place in places if (place, repeat) not in done]
            if not left:
                continue
            peer = load(repeat)
            for file in earlier:
                _check(file, {"about": peer.about})
            if header is None:
                header = Header.of(name, peer, now["rows"], own)
                _drop(run.files(name)[1:] if run.restart else ())
                output.cut(0)
            threads = run.concurrency if peer.concurrent else 1
            rows = (run.rows[place] for place in left)
            scores = work_in_order(rows, partial(_score, peer), threads)
            first = b"" if output.size else to_line(header)
            with contextlib.closing(scores), _Lines(output, first) as lines:
                for made, (place, (row, score)) in enumerate(zip(left, scores, strict=True), 1):
                    lines.add(to_line(score, row=place + 1, repeat=repeat, id=row.example.id))
                    on_score(made, len(left))
    return path


def _read_earlier(
    name: str, run: Run, output: Output, now: Mapping[str, str]
) -> list[PredictionFile]:
    """Return the files that have a header; a torn last line is cut from the run's own.

    Raises:
        RunChangedError: A file has predictions of another peer, version or rows.
    """
    files = read_files(run.files(name))
    output.cut(next((file.size for file in files if file.path == output.path), 0))
    for file in files:
        if file.header.rows != now["rows"]:
            raise _changed(file.path, [f"the rows ({len(run.rows)}) are others"])
        _check(file, now)
        now = {**now, "about": file.header.about}
    return files


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


def _drop(paths: Iterable[Path]) -> None:
    """Remove the files of other runs, or none of them while one is written."""
    with contextlib.ExitStack() as stack:
        for output in [stack.enter_context(_opened(path)) for path in paths]:
            output.cut(0)


def _check(file: PredictionFile, now: Mapping[str, str]) -> None:
    if changes := file.header.changes(now):
        raise _changed(file.path, changes)


def _changed(path: Path, changes: Sequence[str]) -> RunChangedError:
    # --restart drops all shards, and is refused in a run of one.
    shards, of_shard = _SHARD.subn(".*-of-*.jsonl", path.name)
    again = f"or delete {shards}" if of_shard else "begin anew with --restart, or delete the file"
    return RunChangedError(
        f"{path}: has predictions of another run: {'; '.join(changes)}; take another --out, {again}"
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
