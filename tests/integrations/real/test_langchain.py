"""Our runnable stands in a chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trivet.integrations.langchain import runnable
from trivet.records import Evaluation, ExampleError

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_chain_ends_in_a_verdict(judge: Any, rows: list[dict[str, Any]]) -> None:
    pytest.importorskip("langchain_core")
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda

    def answer(question: str) -> dict[str, Any]:
        documents = [Document(page_content=text) for text in rows[0]["contexts"]]
        return {"query": question, "context": documents, "answer": rows[0]["response"]}

    verdict = (RunnableLambda(answer) | runnable(judge)).invoke(rows[0]["question"])
    assert isinstance(verdict, Evaluation)
    assert len(verdict.contexts) == 2


def test_a_batch_is_one_call(
    judge: Any, rows: list[dict[str, Any]], expected: Callable[[str], Any]
) -> None:
    pytest.importorskip("langchain_core")
    verdicts = runnable(judge).batch(rows)
    assert [verdict.faithfulness for verdict in verdicts] == expected("faithfulness")
    assert judge.calls == [3]
    bad = {**rows[0], "contexts": []}
    with pytest.raises(ExampleError, match="there are no contexts"):
        runnable(judge).batch([rows[0], bad])
    first, second = runnable(judge).batch([rows[0], bad], return_exceptions=True)
    assert isinstance(first, Evaluation)
    assert isinstance(second, ExampleError)
