"""What the devices of a run tell each other: the rows of dev, and that one of them diverged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trivet.training.validation import ValidationMeasures

# Rank 1 has a source of its own, and the batch whose loss is no number.
PROCESS = """
import json, sys
from pathlib import Path

import torch
from torch import distributed

from trivet.training.divergence import stop_if_diverged
from trivet.records import DivergedError, LabelledExample, Labels, RagExample
from trivet.training.validation import ValidationMeasures

rank, folder = int(sys.argv[1]), Path(sys.argv[2])
torch.set_num_threads(1)
distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
measures = ValidationMeasures()
for sources, columns in json.loads((folder / "rows.json").read_text())[rank]:
    measures.update(sources, **{name: torch.tensor(column) for name, column in columns.items()})
answer = {"figures": measures.compute()}
row = LabelledExample(RagExample("?", (), "", id=f"row-{rank}"), Labels(), "tiny", f"group-{rank}")
loss = torch.tensor(1.0)
stop_if_diverged({"total": loss}, [row], 3, folder / "diverged.json")
try:
    stop_if_diverged({"total": loss / (1 - rank)}, [row], 4, folder / "diverged.json")
except DivergedError as error:
    answer["said"] = str(error)
(folder / f"answer-{rank}.json").write_text(json.dumps(answer))
distributed.destroy_process_group()
"""


def batch(sources: list[str], faithfulness: list[float], true: list[float]) -> tuple[object, ...]:
    half = [0.5] * len(sources)
    columns = {"faithfulness": faithfulness, "adherent": true}
    columns |= {"relevance": half, "relevance_true": faithfulness}
    columns |= {"utilization": half, "utilization_true": true}
    return sources, columns


@pytest.fixture(scope="module")
def rows() -> list[list[tuple[object, ...]]]:
    """Return each rank's batches; in source a no rank has both classes alone."""
    return [
        [batch(["a", "b"], [0.9, 0.3], [1.0, 0.0]), batch(["a", "b"], [0.2, 0.4], [1.0, 1.0])],
        [batch(["a", "c"], [0.3, 0.8], [0.0, 1.0]), batch(["c"], [0.1], [0.0])],
    ]


@pytest.fixture(scope="module")
def met(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[tuple[object, ...]]]
) -> tuple[Path, list[dict[str, object]]]:
    """Run two processes, and return their folder and what each answered."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(rank), str(folder)],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    for process in running:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
    return folder, [json.loads((folder / f"answer-{rank}.json").read_text()) for rank in (0, 1)]


def test_every_rank_has_the_figures_of_all_rows(
    met: tuple[Path, list[dict[str, object]]], rows: list[list[tuple[object, ...]]]
) -> None:
    alone = ValidationMeasures()
    for rank in rows:
        for sources, columns in rank:
            assert isinstance(sources, list)
            assert isinstance(columns, dict)
            alone.update(sources, **{name: torch.tensor(each) for name, each in columns.items()})
    expected = alone.compute()
    assert {name.partition("/")[2] for name in expected} == {"a", "b", "c", "mean"}
    assert expected["hallucination_auroc/a"] == 0.5
    for answer in met[1]:
        assert answer["figures"] == pytest.approx(expected)


def test_one_device_that_diverges_stops_all_and_every_batch_is_named(
    met: tuple[Path, list[dict[str, object]]],
) -> None:
    folder, answers = met
    said = {str(answer["said"]) for answer in answers}
    assert len(said) == 1
    assert "diverged at step 4: total is inf; the 2 examples" in said.pop()
    written = json.loads((folder / "diverged.json").read_text(encoding="utf-8"))
    read = [each["id"] for one in written["batches"] for each in one["examples"]]
    assert read == ["row-0", "row-1"]
