"""Options, texts, results and events that evaluators and clients share."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from trivet.records import ContextSpan, Evaluation, FailedEvaluation, MarkedSpan
from trivet.settings import THRESHOLD_NAMES, ThresholdName, percentage_hint

if TYPE_CHECKING:
    import pandas

Result: TypeAlias = Evaluation | FailedEvaluation
_FLATTENED = ("error", "metadata", "texts")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Options(TypedDict, total=False):
    """Options of every evaluation; ``Evaluator.evaluate`` documents them."""

    allow_empty_contexts: bool
    threshold: float | ThresholdName | None
    strict: bool


def checked(options: Options) -> Options:
    """Return options for a later call; an unknown one raises a ``TypeError`` now."""
    known = Options.__annotations__
    if unknown := options.keys() - known.keys():
        raise TypeError(f"no option {', '.join(sorted(unknown))}; use {', '.join(known)}")
    return options


def check_threshold(threshold: float | str | None) -> None:
    """Refuse a sentence threshold that is neither a name nor in [0, 1].

    Raises:
        TypeError: It is neither a name nor a number.
        ValueError: The message has the value, and of a percentage the share to write.
    """
    if threshold is None or (isinstance(threshold, str) and threshold in THRESHOLD_NAMES):
        return
    if isinstance(threshold, bool | str) or not hasattr(threshold, "__float__"):
        names = ", ".join(THRESHOLD_NAMES)
        raise TypeError(f"threshold must be a number in [0, 1] or {names}, not {threshold!r}")
    if not 0 <= threshold <= 1:
        hint = percentage_hint(threshold)
        raise ValueError(f"threshold must be in [0, 1], got {threshold:g}{hint}")


def replace_surrogates(text: str) -> tuple[str, int]:
    """Replace each lone surrogate, which no encoding can hold, by U+FFFD; return text and count."""
    if text.isascii():  # a fast check
        return text, 0
    return _SURROGATES.subn("\ufffd", text)


class Results(Iterator[Result]):
    """Results in order, each computed when it is asked for."""

    def __init__(self, results: Generator[Result], total: int | None, progress: bool) -> None:
        """Take a stream of results; ``total`` is their number, if it is known."""
        self._results = _counted(results, total) if progress else results

    def __next__(self) -> Result:
        return next(self._results)

    def close(self) -> None:
        """Stop early: what was not evaluated yet is dropped."""
        self._results.close()

    def to_pandas(self) -> pandas.DataFrame:
        """Evaluate the rest and return it as `to_frame` does."""
        return to_frame(self)


def to_frame(verdicts: Iterable[Result]) -> pandas.DataFrame:
    """Return a DataFrame with one row for each result, in order.

    Its columns are the fields of `Evaluation`, and ``error.code`` and ``error.message``.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a DataFrame needs pandas: pip install pandas", name="pandas") from error
    names = [*Evaluation.__dataclass_fields__, "error.code", "error.message"]
    records = [flat(_record(result)) for result in verdicts]
    return pandas.DataFrame([[row.get(name) for name in names] for row in records], columns=names)


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict's record with ``error.code``, ``metadata.model`` and so on as columns."""
    row: dict[str, Any] = {}
    for name, value in record.items():
        if name in _FLATTENED and isinstance(value, Mapping):
            row |= {f"{name}.{member}": content for member, content in value.items()}
        else:
            row[name] = value
    return row


def _record(result: Result) -> dict[str, Any]:
    if isinstance(result, Evaluation):
        return result.to_dict()
    return {"id": result.id, "error": {"code": result.code, "message": result.message}}


@contextlib.contextmanager
def progress_bar(total: int | None) -> Iterator[Callable[[], None]]:
    """Show a progress bar on stderr, or in a notebook; yields the function that advances it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress("Evaluating", *columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)


def _counted(results: Generator[Result], total: int | None) -> Generator[Result]:
    with contextlib.closing(results), progress_bar(total) as advance:
        for result in results:
            advance()
            yield result


@dataclass(frozen=True, slots=True)
class SentenceEvent:
    """A sentence of an answer that is still being written, judged when it ended.

    Attributes:
        start: First character in the text so far.
        end: One past the last character.
        text: The sentence.
        support: As of ``SentenceVerdict``; ``None`` without a claim.
        supported: Whether ``support`` reaches ``threshold``; ``None`` without a claim.
        unsupported: Spans in it that no context supports, by characters of the text so far.
        source: Its best source by the evidence head, else the context sentence that shares most
            words with it; ``None`` without contexts.
        source_text: Text of ``source``.
        abstains: Whether it says that there is no answer.
        threshold: Threshold of the bundle or the call; ``None`` from a server that does not tell
            it.
        to_check: Spans in it to check if it is supported, as of ``Evaluation``.
    """

    start: int
    end: int
    text: str
    support: float | None
    supported: bool | None
    unsupported: tuple[MarkedSpan, ...]
    source: ContextSpan | None
    source_text: str | None
    abstains: bool = False
    threshold: float | None = None
    to_check: tuple[MarkedSpan, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain dictionaries, lists, numbers and strings."""
        return dataclasses.asdict(self)
