"""The grids that ship begin: none measures rows that its runs are trained on."""

from __future__ import annotations

import contextlib
import functools
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.data.examples import write_parquet
from trivet import ablate as ablate_module
from trivet.ablate import ablate
from trivet.ablation.grid import Grid, Run, read_grid
from trivet.configs import schema
from trivet.labelled.sources import load_source

EMBEDDED = Path(schema.__file__).parent / "embedded.yaml"
SHIPPED = sorted((Path(schema.__file__).parent / "ablations").glob("*.yaml"))
RAGBENCH = ["covidqa", "cuad", "delucionqa", "emanual", "expertqa", "finqa"]
RAGBENCH += ["hagrid", "hotpotqa", "msmarco", "pubmedqa", "tatqa", "techqa"]
CLAIMS = ("fever-symmetric", "fm2", "healthver", "climate-fever", "covid-fact")
ROWS = 40  # of each set, each of a document of its own: some are dev rows


def of_ragbench(name: str, number: int) -> dict[str, Any]:
    return {
        "id": str(number),
        "question": f"What is {name} {number}?",
        "documents_sentences": [[["0a", f"The {name} of page {number} is a set of rows."]]],
        "response_sentences": [["a", "It is a set."]],
        "sentence_support_information": [],
        "unsupported_response_sentence_keys": [],
        "adherence_score": True,
        "all_relevant_sentence_keys": ["0a"],
        "all_utilized_sentence_keys": ["0a"],
        "relevance_score": 1.0,
        "utilization_score": 1.0,
        "completeness_score": 1.0,
        "generation_model_name": "writer",
    }


def of_jsonl(source: str, number: int) -> dict[str, Any]:
    contexts = [f"The {source} of page {number} is a set of rows."]
    labels = {"adherent": True, "relevant": [[0, 0, 3]]}
    texts = {"question": "", "contexts": contexts, "response": "It is a set.", "labels": labels}
    return {**texts, "id": str(number), "source": source, "group": f"{source}-{number}"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Write a few rows of each data set that the shipped grids name; each source is read once."""
    folder = tmp_path_factory.mktemp("taught")
    with contextlib.chdir(folder):
        write_data()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablate_module, "load_source", functools.cache(load_source))
        yield folder


@pytest.fixture
def in_data(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the folder of the data."""
    monkeypatch.chdir(data)


def write_data() -> None:
    """Write the rows of every data set to the working folder."""
    for name in RAGBENCH:
        rows = [of_ragbench(name, number) for number in range(ROWS)]
        write_parquet(Path("data/ragbench") / name / "train-00000-of-00001.parquet", *rows)
    sources, responses = [], []
    for number in range(8 * ROWS):  # some dev rows of a grid get 24 passages of others
        task = ("QA", "Summary", "Data2txt")[number % 3]
        known = {"source_id": str(number), "prompt": "", "task_type": task}
        texts = {"question": f"What of {number}?"}
        texts["passages"] = f"passage 1:Clay {number} rests for a day.\n"
        sources.append(json.dumps({**known, "source_info": texts}))
        row = {"id": f"r{number}", "source_id": str(number), "model": "writer", "labels": []}
        row |= {"split": "train", "quality": "good", "response": f"{number} rests."}
        responses.append(json.dumps(row))
    Path("data/ragtruth").mkdir()
    Path("data/ragtruth/source_info.jsonl").write_text("\n".join(sources), encoding="utf-8")
    Path("data/ragtruth/response.jsonl").write_text("\n".join(responses), encoding="utf-8")
    base = yaml.safe_load(EMBEDDED.read_text(encoding="utf-8"))["data"]
    specs = [source["spec"] for part in ("train", "dev", "test") for source in base[part]]
    files = {spec.partition(":")[2] for spec in specs}
    for file in sorted(file for file in files if file.endswith(".jsonl.xz")):
        name = Path(file).name.partition(".")[0]
        names = {"claims": CLAIMS, "relevance": ("qmsum", "wikiqa")}.get(name, (name,))
        lines = [json.dumps(of_jsonl(name, number)) for name in names for number in range(ROWS)]
        Path(file).parent.mkdir(exist_ok=True)
        with lzma.open(file, "wt", encoding="utf-8") as out:
            out.write("\n".join(lines))


def begun(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the runs that a grid begins, without training them."""
    names: list[str] = []

    def note(run: Run, *_: object, **__: object) -> None:
        names.append(run.name)

    monkeypatch.setattr(ablate_module, "finish", note)
    assert ablate(grid) == []
    return names


@pytest.mark.usefixtures("in_data")
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: str(file.stem))
def test_a_grid_that_ships_begins_all_its_runs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = read_grid(Path(file.stem), None, ["encoder.name=x"])
    assert begun(grid, monkeypatch) == [run.name for run in grid.runs]
