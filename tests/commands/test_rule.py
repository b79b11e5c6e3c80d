"""`trivet test --rule`: all sets of the rule, from a folder of a few rows each."""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import exit_code
from tests.data.examples import write_parquet
from tests.labelled.test_ragbench import row as ragbench_row
from tests.labelled.test_ragtruth import QA, RECORD, SUMMARY, response
from trivet.labelled.grouping import digest, in_part

CONTEXT = "A kiln reaches cone six. Clay rests for a day."


def dev_names(form: str, name: Callable[[str], str] = str) -> Iterator[str]:
    """Yield names that a form makes of numbers, of which the split makes dev rows."""
    return (text for n in itertools.count() if in_part(name(text := form.format(n))))


def labelled(name: str, answer: str, adherent: bool | None, **others: Any) -> dict[str, Any]:
    plain = {"question": "How hot is a kiln?", "contexts": [CONTEXT], "response": answer}
    labels = {"adherent": adherent}
    return plain | {"id": name, "labels": labels, "group": name, "source": "s"} | others


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    path.write_bytes(lzma.compress(text) if path.suffix == ".xz" else text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with all sets; each has a right and a wrong answer of several documents."""
    data = tmp_path / "data"
    sources, responses = [], []
    for kind in (QA, SUMMARY, RECORD):
        form = f"{kind['task_type']}-{{}}"
        for name in itertools.islice(dev_names(form, "ragtruth/{}".format), 3):
            sources.append(kind | {"source_id": name})
            wrong = [{"start": 0, "end": 4, "text": "Clay", "label_type": "Evident Conflict"}]
            for n, labels in enumerate(([], wrong)):
                model = ("gpt-4-0613", "llama-2-7b-chat")[n]
                written = {"id": f"{name}-{n}", "source_id": name, "labels": labels, "model": model}
                responses.append(response(**written))
    write_lines(data / "ragtruth" / "source_info.jsonl", sources)
    write_lines(data / "ragtruth" / "response.jsonl", responses)
    questions = list(itertools.islice(dev_names("How long does clay {} rest?", digest), 3))
    rows = [ragbench_row(id=text, question=text) for text in questions]
    right = {"unsupported_response_sentence_keys": [], "adherence_score": True}
    rows += [row | right | {"id": f"{row['id']} right"} for row in rows]
    write_parquet(data / "ragbench" / "pottery" / "validation-0.parquet", *rows)
    answers = [
        labelled(f"{n}", text, adherent, group=str(n // 2))
        for n in range(6)
        for text, adherent in [(("It reaches cone six.", True), ("It melts glass.", False))[n % 2]]
    ]
    for file in ("generative_search", "dialogue", "long_answers"):
        write_lines(data / f"other_domains/{file}.jsonl.xz", answers)
    for file in ("changed_facts", "conflicts_names"):
        write_lines(data / f"eval/{file}.jsonl.xz", answers)
    groups = list(itertools.islice(dev_names("document {}"), 3))
    ranked = [
        labelled(name, "", None, group=name, source=source) | {"labels": {"relevant": [[0, 0, 24]]}}
        for source in ("wikiqa", "selqa")
        for name in groups
    ]
    write_lines(data / "extra/relevance.jsonl.xz", ranked)
    topics = [
        labelled(name, "", None, contexts=CONTEXT.split(". "), relevant_context=0)
        for name in groups
    ]
    write_lines(data / "eval/relevance_topics.jsonl.xz", topics)
    return data


def test_a_bundle_is_measured_by_the_rule_beside_another(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    words = ["test", "--rule", folder, "--keep", tmp_path / "kept", "--json", tmp_path / "f.json"]
    assert exit_code(monkeypatch, *words) == 0
    alone, _ = capfd.readouterr()
    assert "baseline" not in alone and "By the rule" not in alone
    kept = {file: file.read_bytes() for file in (tmp_path / "kept").iterdir()}
    assert exit_code(monkeypatch, *words, "--baseline", "embedded") == 0
    compared, _ = capfd.readouterr()
    assert {file: file.read_bytes() for file in (tmp_path / "kept").iterdir()} == kept
    assert "By the rule of choosing, the bundle is not kept." in compared
    figures = json.loads((tmp_path / "f.json").read_bytes())
    names = (
        "QA,Summary,Data2txt,RAGBench,search,dialogue,long answers,changed facts,other names,mean"
    )
    assert [figure["set"] for figure in figures["answers"]] == names.split(",")
    assert [figure["n"] for figure in figures["answers"]] == [6] * 9 + [54]
    assert all(figure["change"][0] == 0 for figure in figures["answers"])
    relevance = {figure["set"]: figure["n"] for figure in figures["relevance"]}
    assert relevance == {"WikiQA": 3, "SelQA": 3, "topics": 3, "RAGBench": 6, "mean": 15}
    shown = {(figure["set"], figure["measure"]): figure["n"] for figure in figures["shown"]}
    assert shown["changed facts", "pairs"] == shown["Summary, open", "F1"] == 3


def test_one_of_so_many_documents_is_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    assert exit_code(monkeypatch, "test", "--rule", folder, "--every", "40", "--json", file) == 0
    assert exit_code(monkeypatch, "test", "--rule", folder, "--every", "2", "--json", file) == 0
    counts = [figure["n"] for figure in json.loads(file.read_bytes())["answers"]]
    assert 0 < counts[-1] < 54
    (folder / "eval" / "changed_facts.jsonl.xz").unlink()
    assert exit_code(monkeypatch, "test", "--rule", folder) == 2
    _, error = capfd.readouterr()
    assert "no such file: " in error and "changed_facts.jsonl.xz" in error
