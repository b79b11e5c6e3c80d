"""Results of many evaluations: a stream with a progress bar, or a DataFrame."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from trivet.records import Evaluation, FailedEvaluation

if TYPE_CHECKING:
    import pandas

Result: TypeAlias = Evaluation | FailedEvaluation
_FLATTENED = ("error", "metadata", "texts")


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
            row |= {f"{name}.{member}": each for member, each in value.items()}
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
