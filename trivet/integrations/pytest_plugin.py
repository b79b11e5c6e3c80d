"""pytest plugin: the fixtures ``judge`` and ``assert_faithful``, and ``--trivet-report``.

::

    def test_the_bot_keeps_to_its_sources(assert_faithful):
        answer = bot.ask("When was the mill built?")
        assert_faithful(answer.question, answer.passages, answer.text)

It is loaded where trivet is installed; nothing of trivet is imported before a fixture is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    import trivet

_PROPERTY = "trivet_verdict"
_WIDTH = 100  # characters of a failure's message


class AssertFaithful(Protocol):
    """The type of the fixture ``assert_faithful``."""

    def __call__(
        self,
        question: str,
        contexts: Sequence[Any] | str,
        response: str,
        *,
        at_least: float | None = None,
        **options: Any,
    ) -> trivet.Evaluation:
        """Return the verdict on a response, or fail the test with its unsupported spans.

        Args:
            question: Question; may be empty.
            contexts: Retrieved passages.
            response: Answer.
            at_least: Lowest faithfulness that passes; ``None`` means that the response must be
                adherent by the threshold of the bundle.
            options: Options of ``Evaluator.evaluate``, such as ``threshold``.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("trivet")
    group.addoption("--trivet-report", metavar="HTML", help="report of all judged answers")
    group.addoption("--trivet-bundle", metavar="FOLDER", help="bundle; default: the embedded one")


@pytest.fixture(scope="session")
def judge(request: pytest.FixtureRequest) -> trivet.Evaluator:
    """Return an evaluator, loaded once."""
    import trivet

    return trivet.Evaluator(request.config.getoption("--trivet-bundle"))


@pytest.fixture
def assert_faithful(
    request: pytest.FixtureRequest,
    judge: trivet.Evaluator,
    record_property: Callable[[str, object], None],
) -> AssertFaithful:
    """Return the function that fails a test whose answer is not faithful."""

    def check(
        question: str, contexts: Any, response: str, *, at_least: Any = None, **options: Any
    ) -> trivet.Evaluation:
        __tracebackhide__ = True
        texts = [contexts] if isinstance(contexts, str) else list(contexts)
        verdict = judge.evaluate(question, texts, response, id=request.node.nodeid, **options)
        if request.config.getoption("--trivet-report"):
            row = verdict.to_dict()
            row["texts"] = {"question": question, "contexts": texts, "response": response}
            record_property(_PROPERTY, json.dumps(row))
        score = verdict.faithfulness
        passes = verdict.adherent if at_least is None else score is not None and score >= at_least
        if not passes:
            pytest.fail(_message(verdict, response, texts, at_least), pytrace=False)
        return verdict

    return check


class _Collector:
    """Collects the verdicts of all tests, also of those in workers of pytest-xdist."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._rows: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            properties = report.user_properties
            self._rows += [json.loads(str(row)) for name, row in properties if name == _PROPERTY]

    def pytest_sessionfinish(self) -> None:
        """Write the report, and the verdicts as JSON lines in the same folder."""
        from trivet.records import to_json_text
        from trivet.report.write_report import write_report

        if not self._rows:
            return
        rows = [to_json_text({"row": n, **row}) for n, row in enumerate(self._rows, start=1)]
        lines = self._page.with_suffix(".jsonl")
        lines.write_text("\n".join(rows) + "\n", encoding="utf-8")
        write_report([lines], self._page)


def pytest_configure(config: pytest.Config) -> None:
    """Collect verdicts, if a report is wanted, in the process that writes it."""
    page = config.getoption("--trivet-report")
    if page and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Collector(Path(page)), "trivet-report")


def _message(
    verdict: trivet.Evaluation, response: str, contexts: Sequence[str], at_least: float | None
) -> str:
    from rich.console import Console

    from trivet.report.terminal import number, render_verdict

    if verdict.faithfulness is None:
        why = "abstains" if verdict.abstains else "has no words"
        return f"there is no faithfulness: the response {why}"
    console = Console(width=_WIDTH, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(render_verdict(response, contexts, verdict))
    score = f"faithfulness {number(verdict.faithfulness)}"
    reason = f"the answer is unsupported: {score}, threshold {number(verdict.threshold)}"
    if at_least is not None:
        reason = f"{score} is below {at_least:g}"
    return f"{reason}\n\n{captured.get()}"
