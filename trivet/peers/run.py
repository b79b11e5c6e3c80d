"""Runs of peers over rows: each score is kept as soon as it is there, and a stopped run resumes.

Shards have a file each. Any run takes from the files of the others what it would score itself.
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
from trivet.batch.work import work_in_order
from trivet.errors import BackendError, ExampleError, WindowError
from trivet.llm.chat import LlmError
from trivet.peers.peer import Peer, PeerScore
from trivet.peers.predictions import Header, digest_rows, read_header, to_line
from trivet.records import LabelledExample

_WRITE_EVERY = 0.5  # seconds between two writes, each of which waits for the disk
_SHARD = re.compile(r"\.[0-9]+-of-[0-9]+\.jsonl$")  # end of the name of a shard's file
_PLACE = re.compile(rb'\{"row": ([0-9]+), "repeat": ([0-9]+)')  # first fields of a line


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

    def others(self, name: str) -> list[Path]:
        """Return the files of the peer that runs of other parts of the rows have written."""
        form = re.compile(rf"{re.escape(_safe(name))}(\.[0-9]+-of-[0-9]+)?\.jsonl")
        files = [each for each in self.folder.iterdir() if form.fullmatch(each.name)]
        return sorted(set(files) - {self.path(name)})


def _safe(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-._" else "_" for each in name)


def run_peer(
    name: str,
    load: Callable[[int], Peer],
    run: Run,
    fingerprint: Mapping[str, str] | None = None,
    on_score: Callable[[int, int], None] = lambda done, count: None,
) -> Path:
    """Score the rows that have no prediction of this peer yet; return the file.

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
    path, digest, own = run.path(name), digest_rows(run.rows), dict(fingerprint or {})
    with _opened(path) as output:
        earlier = _Earlier(path)
        if not run.restart:
            earlier = _read_earlier(name, run, output, {"peer": name, "rows": digest} | own)
        header = earlier.header
        for repeat, places in _left(run, earlier.done):
            new = [place for place in places if (place, repeat) not in earlier.elsewhere]
            scores: Iterator[PeerScore] = iter(())
            with contextlib.ExitStack() as stack:
                if new:
                    peer = load(repeat)
                    if header is None:
                        header = Header.of(name, peer, digest, own)
                        _drop(run.others(name) if run.restart else ())
                        output.cut(0)
                    _check(earlier.source, header, {"about": peer.about})
                    threads = run.concurrency if peer.concurrent else 1
                    found = work_in_order(
                        (run.rows[place] for place in new), partial(_score, peer), threads
                    )
                    stack.enter_context(contextlib.closing(found))
                    scores = (score for _, score in found)
                first = b"" if output.size else to_line(header)
                lines, made = stack.enter_context(_Lines(output, first)), 0
                for place in places:
                    line = earlier.elsewhere.get((place, repeat))
                    if line is None:
                        row = run.rows[place].example
                        line = to_line(next(scores), row=place + 1, repeat=repeat, id=row.id)
                        made += 1
                        on_score(made, len(new))
                    lines.add(line)
    return path


def _left(run: Run, done: int) -> Iterator[tuple[int, list[int]]]:
    """Yield the places of a run that follow the first ``done``, by repeat."""
    places = [place for place in range(len(run.rows)) if run.shard.has(place)]
    for repeat in range(run.repeats):
        if left := places[max(0, done - repeat * len(places)) :]:
            yield repeat, left


@dataclass
class _Earlier:
    """Predictions that are there.

    Attributes:
        source: File that has the header.
        header: Their header, if there are any.
        done: Lines in the run's own file.
        elsewhere: Lines of other files, by place and repeat.
    """

    source: Path
    header: Header | None = None
    done: int = 0
    elsewhere: dict[tuple[int, int], bytes] = field(default_factory=dict)


def _read_earlier(name: str, run: Run, output: Output, now: Mapping[str, str]) -> _Earlier:
    """Read all files of a peer; a torn last line is cut from the run's own.

    Raises:
        RunChangedError: A file has predictions of another peer, version or rows.
    """
    found, now = _Earlier(output.path), dict(now)
    for path in (output.path, *run.others(name)):
        try:
            content = path.read_bytes()
        except FileNotFoundError:  # the other run has ended without a score
            continue
        header, *lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True) or [b""]
        if path == output.path:
            output.cut(len(header) + sum(map(len, lines)))
            found.done = len(lines)
        else:
            places = ((_PLACE.match(line), line) for line in lines)
            found.elsewhere |= {(int(at[1]) - 1, int(at[2])): line for at, line in places if at}
        if header:
            theirs = read_header(path, header)
            if theirs.rows != now["rows"]:
                raise _changed(path, [f"the rows ({len(run.rows)}) are others"])
            _check(path, theirs, now)
            now["about"] = theirs.about
            if found.header is None:
                found.header, found.source = theirs, path
    return found


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


def _check(path: Path, header: Header, now: Mapping[str, str]) -> None:
    if changes := header.changes(now):
        raise _changed(path, changes)


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
