"""How far a run is, on stderr: one line that changes on a terminal, else one every ten seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from trivet.batch.run import OnBlock
from trivet.batch.tally import Tally
from trivet.data.logs.log import Log

_SECONDS = 10.0
_SHOWN = ("faithfulness", "relevance", "utilization", "completeness")


@contextlib.contextmanager
def show_progress(log: Log, quiet: bool = False) -> Iterator[OnBlock]:
    """Yield what is to be told of each block, and show it.

    Args:
        log: It knows which share of its bytes was read.
        quiet: Show nothing.
    """
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if quiet:
        yield lambda tally, rows: None
        return
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield Reporter(log, lambda text: live.update(Text(text), refresh=True), 0.1)
        return
    yield Reporter(log, console.print, _SECONDS)


class Reporter:
    """Tells how far a run is, at most once in some seconds.

    Attributes:
        log: It knows which share of its bytes was read.
    """

    def __init__(
        self,
        log: Log,
        tell: Callable[[str], object],
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to measure.

        Args:
            log: The log that is judged.
            tell: Takes one line for a person.
            every: Seconds between two lines.
            clock: Seconds.
        """
        self.log = log
        self._tell, self._every, self._clock = tell, every, clock
        self._last = clock()
        self._first: tuple[float, int, int, float] | None = None

    def __call__(self, tally: Tally, rows: int) -> None:
        """Take note of a block; tell of it if it is time."""
        now, share = self._clock(), self.log.share_read()
        if self._first is None:  # what a resumed run passed over must not count as its speed
            self._first = (now, rows, tally.windows, share or 0.0)
        elif now - self._last >= self._every:
            self._last = now
            self._tell(self._line(tally, rows, now, share))

    def _line(self, tally: Tally, rows: int, now: float, share: float | None) -> str:
        began, first_rows, first_windows, first_share = self._first or (now, rows, 0, 0.0)
        seconds = max(now - began, 1e-9)
        parts = [
            f"{rows} rows, {tally.failed} failed",
            f"{(rows - first_rows) / seconds:.1f} rows/s",
            f"{(tally.windows - first_windows) / seconds:.1f} windows/s",
        ]
        means = {score: tally.mean(score) for score in _SHOWN}
        parts += [f"{score} {mean:.3f}" for score, mean in means.items() if mean is not None]
        if share is not None and share > first_share:
            left = seconds * (1.0 - share) / (share - first_share)
            parts.append(f"{share:.0%}, {_duration(left)} left")
        return " | ".join(parts)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
