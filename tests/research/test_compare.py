"""The command: from labelled rows to a folder with scores and tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sklearn.metrics import f1_score, roc_auc_score

from research.compare import run
from research.compare.__main__ import main
from research.compare.measures import measure_systems
from research.compare.systems import Score
from tests.llm.scripted_endpoint import ScriptedEndpoint
from trivet.records import LabelledExample, Labels, RagExample, Span

WRONG = [number % 3 == 0 for number in range(24)]


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Write labelled rows of twelve documents, and ``mine.jsonl`` with a score of each."""
    lines = []
    for number, wrong in enumerate(WRONG):
        row = {
            "id": f"q{number}",
            "question": "What colour is the boat?",
            "contexts": [f"Boat {number} is blue. It lies at the river."],
            "response": f"Boat {number} is {'green' if wrong else 'blue'}.",
            "labels": {"adherent": not wrong},
            "group": f"doc-{number // 2}",
        }
        lines.append(json.dumps(row) + "\n")
    scores = [json.dumps({"id": f"q{n}", "s": n / 24}) + "\n" for n in range(24)]
    for name, written in (("toy", lines), ("mine", scores)):
        (tmp_path / f"{name}.jsonl").write_text("".join(written), encoding="utf-8")
    return f"jsonl:{tmp_path / 'toy.jsonl'}"


def compare(data: str, out: Path, systems: str, *more: str) -> None:
    main(["--data", data, "--out", str(out), "--systems", systems, *more])


def test_systems_of_all_kinds_are_compared_and_a_second_run_scores_nothing(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = f"words always-yes stored:{tmp_path}/mine.jsonl:s"
    compare(data, tmp_path / "out", systems)
    table = capsys.readouterr().out
    assert "| toy, words | hallucination_auroc | 1.000 |" in table
    assert "| always-yes | 24 | 0 |" in table
    monkeypatch.setattr(run, "_score", lambda *_: pytest.fail("was scored"))
    compare(data, tmp_path / "out", systems)
    assert capsys.readouterr().out == table
    written = json.loads((tmp_path / "out" / "comparison.json").read_bytes())
    assert written["rows"] == 24


def test_a_stopped_run_goes_on_and_asks_nothing_twice(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with ScriptedEndpoint(lambda _: "Explanation: fine. Score: 4") as endpoint:
        arguments = (
            *("likert:tiny", "--base-url", endpoint.url),
            *("--concurrency", "1", "--price", "tiny=1000,5000"),  # $0.15 a row
        )
        with pytest.raises(SystemExit, match=r"of at most \$6.0000 are spent"):
            compare(data, tmp_path / "out", *arguments, "--max-dollars", "6")
        asked = len(endpoint.bodies)
        assert 0 < asked < 24
        compare(data, tmp_path / "out", *arguments)
        assert len(endpoint.bodies) == 24
    lines = (tmp_path / "out" / "likert_tiny.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["score"]["faithfulness"] for line in lines] == [0.75] * 24
    assert "| 150 |" in (tmp_path / "out" / "comparison.md").read_text(encoding="utf-8")


def test_scores_of_other_rows_are_refused_and_a_restart_drops_them(
    data: str, tmp_path: Path
) -> None:
    compare(data, tmp_path / "out", "words")
    with pytest.raises(SystemExit, match=r"rows was .*start over with --restart"):
        compare(data, tmp_path / "out", "words", "--limit", "10")
    compare(data, tmp_path / "out", "words", "--limit", "10", "--restart")
    assert len((tmp_path / "out" / "words.jsonl").read_bytes().splitlines()) == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("likert", "name its model with --model"),
        ("stored:GPT-4", "must be stored:FILE:COLUMN or a judge of GPT-3.5"),
        ("stored:{folder}/mine.jsonl:x", "has no x, but id, s"),
        ("stored:{folder}/toy.jsonl:question", "not a number"),
        ("words --price 0.1,0.2", "MODEL=IN,OUT"),
        ("likert:tiny --max-dollars 1 --price x=1,2", "--price tiny=IN,OUT"),
    ],
)
def test_a_wrong_request_is_one_line(
    data: str, tmp_path: Path, arguments: str, message: str
) -> None:
    systems, *more = arguments.format(folder=tmp_path).split()
    with pytest.raises(SystemExit, match=message):
        compare(data, tmp_path / "out", systems, *more)


def test_measures_are_those_of_scikit_learn_on_the_rows_that_were_scored() -> None:
    rows = [
        LabelledExample(
            RagExample("", ("c",), "It is red.", str(n)),
            Labels(unsupported=(Span(6, 9),) if wrong else (), adherent=not wrong),
            source="toy",
            group=f"doc-{n // 2}",
        )
        for n, wrong in enumerate(WRONG)
    ]
    values = [(7 * n % 24) / 24 for n in range(24)]
    first = [Score.at(0.5, value, spans=(Span(3, 9),)) for value in values]
    second = [
        Score(None, failed="refused") if n % 4 == 0 else Score(1 - v) for n, v in enumerate(values)
    ]
    figures = {
        (figure.measure, figure.judge): figure
        for figure in measure_systems(rows, {"a": first, "b": second}, resamples=100)
    }
    suspicion = [1 - value for value in values]
    area = figures["hallucination_auroc", "a"].value
    assert area == pytest.approx(roc_auc_score(WRONG, suspicion))
    flags = [value < 0.5 for value in values]
    assert figures["hallucination_f1", "a"].value == pytest.approx(f1_score(WRONG, flags))
    marked, gold = 24 * 6, 8 * 3
    assert figures["span_f1", "a"].value == pytest.approx(2 * gold / (marked + gold))
    scored = [n for n in range(24) if n % 4]
    areas = [
        roc_auc_score([WRONG[n] for n in scored], [scores[n] for n in scored])
        for scores in (values, suspicion)
    ]
    difference = figures["auroc_difference", "b"]
    assert difference.value == pytest.approx(areas[0] - areas[1])
    assert (difference.n, difference.failed) == (18, 6)
    assert difference.low is not None
    assert ("hallucination_f1", "b") not in figures
