"""Files of other tools: whole, nearly right, in a folder, on stdin, in Parquet and in Python.

``exports`` holds one file or more for each shape. Written by the tools themselves:

- langchain*.jsonl: langchain-classic 1.0.8, ``RetrievalQA.invoke`` with its source documents, by
  ``model_dump`` and by ``langchain_core.load.dumps``; messages*.jsonl: langchain-core 1.8.3,
  ``convert_to_openai_messages`` and ``model_dump``
- llama-index.jsonl: llama-index-core 0.14.25, ``query`` and ``NodeWithScore.to_dict``
- haystack*.jsonl: haystack-ai 3.4.1, ``Pipeline.run`` with and without ``AnswerBuilder``
- mlflow-results.json: mlflow-skinny 3.17.2, ``genai.evaluate(...).result_df``
- langsmith.csv: langsmith 0.15.1, ``evaluate(...).to_pandas().to_csv()``
- promptfoo.json: promptfoo 0.121.20, ``eval -o`` with its provider ``echo``
- columns*.json: pandas 3, ``DataFrame.to_json`` and ``to_dict``; -deepeval: deepeval 4.3.1,
  ``TestRun.model_dump_json``
- ragas.jsonl: ragas 0.4.3, ``EvaluationDataset.to_jsonl`` of ``MultiTurnSample``

By their documentation:

- bedrock.jsonl: https://docs.aws.amazon.com/bedrock/latest/userguide/knowledge-base-evaluation-prompt-retrieve-generate.html
- mlflow.jsonl: https://docs.databricks.com/en/generative-ai/agent-evaluation/evaluation-schema.html
- mlflow-inputs.jsonl: https://mlflow.org/docs/latest/genai/eval-monitor/
- langfuse*.json: https://api.reference.langfuse.com (``GET /api/public/traces``)
- sharegpt.jsonl: https://llamafactory.readthedocs.io/en/latest/getting_started/data_preparation.html
"""

from __future__ import annotations

import copy
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from trivet.errors import DataError
from trivet.logs.column_mapping import Columns, LogRow
from trivet.logs.recognition import read_rows
from trivet.logs.rows import read_examples
from trivet.logs.shapes import SHAPES, described
from trivet.logs.trace_log import open_log
from trivet.records import FailedEvaluation, RagExample

EXPORTS = Path(__file__).parent / "exports"
FILES = sorted(path.name for path in EXPORTS.iterdir())
LINES = [name for name in FILES if name.endswith(".jsonl") and name != "bedrock.jsonl"]
TEXTS = [
    ("How hot is it?", ("Cone six.", "It cools."), "Very."),
    ("Où va l’eau?", ("L’eau va à la mer.", "Le four est éteint."), "À la mer."),
]


def read(source: Path | str, format_: str | None = None, **mapping: str) -> list[LogRow]:
    columns = Columns(mapping, format=format_)
    return list(read_rows(open_log(str(source), format_).rows(), columns))


def texts(row: LogRow) -> tuple[str, tuple[str, ...], str] | str:
    example = row.example
    return example.code if isinstance(example, FailedEvaluation) else shown(example)


def shown(example: RagExample) -> tuple[str, tuple[str, ...], str]:
    asked = re.sub(r"\n(assistant|user): .*", "", example.question)  # earlier turns
    return asked, example.contexts, example.response


def documents(name: str) -> list[Any]:
    text = (EXPORTS / name).read_text(encoding="utf-8")
    return (
        [json.loads(line) for line in text.splitlines()] if "jsonl" in name else [json.loads(text)]
    )


def write(path: Path, values: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", FILES)
def test_an_export_is_read_and_its_shape_said(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    rows = read(EXPORTS / name)
    assert [texts(row) for row in rows] == TEXTS
    assert [row.number for row in rows] == [1, 2]
    assert len({row.example.id for row in rows}) == 2
    (message,) = caplog.messages
    assert message.startswith("read as ") and "response = " in message
    shape = message.partition("--format ")[2].partition(")")[0]
    assert [texts(row) for row in read(EXPORTS / name, shape)] == TEXTS
    assert len(caplog.messages) == 1  # what was chosen is not said again


def test_every_shape_has_an_export(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    for name in FILES:
        read(EXPORTS / name)
    shapes = {message.partition("--format ")[2].partition(")")[0] for message in caplog.messages}
    assert shapes == set(SHAPES)
    listed = "\n".join(described())
    assert all(f"{name}: {shape.title}" in listed for name, shape in SHAPES.items())


def both() -> dict[str, Any]:
    """Return a row that is LangChain's and LlamaIndex's, with other passages in each."""
    row = documents("langchain.jsonl")[0] | documents("llama-index.jsonl")[0]
    row["source_nodes"] = row["source_nodes"][:1]
    return copy.deepcopy(row)


def test_an_ambiguous_file_names_both_shapes_and_asks(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [both(), both()])
    with pytest.raises(DataError) as refused:
        read(log)
    message = str(refused.value)
    assert "LangChain's" in message and "LlamaIndex's" in message
    assert "--format langchain" in message and "--format llama-index" in message
    for name, count in (("langchain", 2), ("llama-index", 1)):
        examples = [row.example for row in read(log, name)]
        assert [
            isinstance(example, RagExample) and len(example.contexts) for example in examples
        ] == [count] * 2
    mapped = read(log, contexts="source_documents", response="result")
    assert [texts(row) for row in mapped] == [TEXTS[0]] * 2
    (failed,) = read_examples([both()])
    assert isinstance(failed, FailedEvaluation) and failed.code == "missing_field"
    (whole,) = read_examples([both()], {"contexts": "source_documents", "response": "result"})
    assert isinstance(whole, RagExample)


def test_a_path_of_the_caller_replaces_that_of_the_shape(tmp_path: Path) -> None:
    (whole,) = documents("promptfoo.json")
    for result in whole["results"]["results"]:
        result["vars"]["asked"] = result["vars"].pop("question")
    log = write(tmp_path / "p.json", [whole])
    with pytest.raises(DataError, match="has no question"):
        read(log)
    assert [texts(row) for row in read(log, question="vars.asked")] == TEXTS


def test_a_file_with_plain_names_is_read_by_them_whatever_else_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    plain = {"question": "Why?", "contexts": ["Oil."], "response": "So."}
    rows = read(write(tmp_path / "log.jsonl", [both(), {**both(), **plain, "query": None}]))
    assert [texts(row) for row in rows] == ["missing_field", ("Why?", ("Oil.",), "So.")]
    assert caplog.messages == []


def test_a_folder_may_hold_every_shape(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trivet.logs")
    rows = read(EXPORTS)
    assert [texts(row) for row in rows] == TEXTS * len(FILES)
    assert [row.number for row in rows] == list(range(1, 2 * len(FILES) + 1))
    assert caplog.messages[0].startswith("bedrock.jsonl: read as Amazon Bedrock's RAG evaluation")


def test_each_answer_of_a_conversation_may_be_a_row(tmp_path: Path) -> None:
    file = write(tmp_path / "m.jsonl", documents("messages.jsonl"))
    rows = list(read_rows(open_log(str(file)).rows(), Columns(turns="all")))
    assert [row.number for row in rows] == [1, 2, 3, 4]
    examples = [row.example for row in rows if isinstance(row.example, RagExample)]
    assert [example.id for example in examples] == [
        f"line-{line}-messages[{number}]" for line in (1, 2) for number in (2, 7)
    ]
    assert examples[0].contexts == ("Answer from what the tool finds.",)
    assert examples[1].contexts == TEXTS[0][1]


def test_ids_of_contexts_are_those_of_the_tools() -> None:
    ids = {name: read(EXPORTS / name)[0].context_ids for name in FILES}
    kilns = ("kiln-0", "kiln-1")
    for name in ("bedrock.jsonl", "haystack.jsonl", "llama-index.jsonl", "mlflow.jsonl"):
        assert ids[name] == kilns
    assert ids["langchain.jsonl"] == ids["langchain-dumps.jsonl"] == ("kiln-0.txt", "kiln-1.txt")
    assert ids["messages.jsonl"] == ("search-1", "search-2")


def test_a_name_that_also_means_other_things_yields_to_a_shape(tmp_path: Path) -> None:
    first, second = documents("langchain.jsonl")
    for row in (first, second):
        row |= {"answer": row.pop("result"), "sources": "kiln-0.txt, kiln-1.txt"}
    log = write(tmp_path / "log.jsonl", [first, second])
    assert [texts(row) for row in read(log)] == TEXTS
    del first["source_documents"]
    (row,) = read(write(log, [first]))
    assert texts(row) == (TEXTS[0][0], ("kiln-0.txt, kiln-1.txt",), TEXTS[0][2])


def test_an_object_of_many_lines_and_a_list_are_json_whatever_their_suffix(tmp_path: Path) -> None:
    rows = documents("langchain.jsonl")
    log = tmp_path / "log.jsonl"
    for content in (
        json.dumps(rows),
        json.dumps(rows, indent=1),
        json.dumps({"data": rows}, indent=1),
    ):
        log.write_text(content, encoding="utf-8")
        assert [texts(row) for row in read(log)] == TEXTS
