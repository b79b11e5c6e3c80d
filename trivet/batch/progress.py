"""Progress of a run on stderr: one changing line on a terminal, else a line every ten seconds."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trivet.batch.run import OnBlock
from trivet.batch.tally import Tally
from trivet.data.logs.log import Log
from trivet.verdict_json import SCORES


@contextlib.contextmanager
def show_progress(log: Log, quiet: bool = False) -> Iterator[OnBlock]:
    """Show the progress of a run over a log, unless ``quiet``; yields the callback for blocks."""
    with show_line(quiet) as (show, every):
        yield Reporter(log, show, every)


@contextlib.contextmanager
def show_line(quiet: bool) -> Iterator[tuple[Callable[[str], object], float]]:
    """Yield what shows a line on stderr, and the least seconds from one line to the next."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if quiet:
        yield lambda text: None, math.inf
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield lambda text: live.update(Text(text), refresh=True), 0.1
    else:
        yield console.print, 10.0


class Reporter:
    """Reports the progress of a run, at most once in some seconds."""

    def __init__(
        self,
        log: Log,
        show: Callable[[str], object],
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the clock; ``every`` is the least seconds between two lines for ``show``."""
        self._log, self._show, self._every, self._clock = log, show, every, clock
        self._last = clock()
        self._first: tuple[float, int, int, float] | None = None

    def __call__(self, tally: Tally, rows: int) -> None:
        """Take the state after a block, and show it if it is time."""
        now, share = self._clock(), self._log.share_read()
        if self._first is None:  # rows that a resumed run skips must not count as speed
            self._first = (now, rows, tally.windows, share or 0.0)
            return
        if now - self._last < self._every:
            return
        self._last = now
        began, first_rows, first_windows, first_share = self._first
        seconds = max(now - began, 1e-9)
        parts = [
            f"{rows} rows, {tally.failed} failed",
            f"{(rows - first_rows) / seconds:.1f} rows/s",
            f"{(tally.windows - first_windows) / seconds:.1f} windows/s",
        ]
        means = {score: tally.mean(score) for score in SCORES}
        parts += [f"{score} {mean:.3f}" for score, mean in means.items() if mean is not None]
        if share is not None and share > first_share:
            left = seconds * (1.0 - share) / (share - first_share)
            minutes, left_seconds = divmod(round(left), 60)
            hours, minutes = divmod(minutes, 60)
            clock = f"{hours}:{minutes:02d}" if hours else str(minutes)
            parts.append(f"{share:.0%}, {clock}:{left_seconds:02d} left")
        self._show(" | ".join(parts))
