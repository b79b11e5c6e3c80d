"""Progress of a run on stderr: one changing line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trivet.batch.run import OnBlock
from trivet.logs.log import Log
from trivet.report.run_tally import SHOWN_SCORES, RunTally

Say = Callable[[Callable[[], str]], None]
"""Shows a line if it is time for one; the line is only made then."""


@contextlib.contextmanager
def show_line(quiet: bool = False) -> Iterator[Say]:
    """Yield what shows lines on stderr, one every ten seconds if that is not a terminal."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if quiet:
        yield lambda make: None
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield at_times(lambda text: live.update(Text(text), refresh=True), 0.1)
    else:
        yield at_times(console.print, 10.0)


def at_times(
    show: Callable[[str], object], every: float, clock: Callable[[], float] = time.monotonic
) -> Say:
    """Return what shows a line at most once in ``every`` seconds."""
    last = clock()

    def say(make: Callable[[], str]) -> None:
        nonlocal last
        if clock() - last >= every:
            last = clock()
            show(make())

    return say


@contextlib.contextmanager
def show_progress(log: Log, quiet: bool = False) -> Iterator[OnBlock]:
    """Show the progress of a run over a log, unless ``quiet``; yields the callback for blocks."""
    with show_line(quiet) as say:
        yield Reporter(log, say)


class Reporter:
    """Reports the progress of a run after each block."""

    def __init__(self, log: Log, say: Say, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the log that is read, and what shows a line."""
        self._log, self._say, self._clock = log, say, clock
        self._first: tuple[float, int, int, float] | None = None

    def __call__(self, tally: RunTally) -> None:
        """Take the counts after a block, and show them if it is time."""
        if self._first is None:  # rows that a resumed run skips must not count as speed
            self._first = (self._clock(), tally.rows, tally.windows, self._log.share_read() or 0.0)
            return
        began, first_rows, first_windows, first_share = self._first

        def line() -> str:
            share, seconds = self._log.share_read(), max(self._clock() - began, 1e-9)
            parts = [
                f"{tally.rows} rows, {tally.failed} failed",
                f"{(tally.rows - first_rows) / seconds:.1f} rows/s",
                f"{(tally.windows - first_windows) / seconds:.1f} windows/s",
            ]
            means = {score: tally.mean(score) for score in SHOWN_SCORES}
            parts += [f"{score} {mean:.3f}" for score, mean in means.items() if mean is not None]
            if share is not None and share > first_share:
                left = seconds * (1.0 - share) / (share - first_share)
                minutes, left_seconds = divmod(round(left), 60)
                hours, minutes = divmod(minutes, 60)
                clock = f"{hours}:{minutes:02d}" if hours else str(minutes)
                parts.append(f"{share:.0%}, {clock}:{left_seconds:02d} left")
            return " | ".join(parts)

        self._say(line)
