"""The command: from labelled rows to a folder with predictions and the comparison."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.llm.scripted_endpoint import Reply, ScriptedEndpoint, last_text
from trivet.__main__ import app
from trivet.peers import built_in

RUNNER = CliRunner()


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Write labelled rows of twelve documents, half of each split, and two files of other uses.

    ``copy.jsonl`` has four of the rows, ``mine.jsonl`` a score of each; return the rows' source.
    """
    lines = []
    for number in range(24):
        wrong = number % 3 == 0
        colour = "green" if wrong else "blue"
        row = {
            "id": f"q{number}",
            "question": "What colour is the boat?",
            "contexts": [f"Boat {number} is blue. It lies at the river."],
            "response": f"Boat {number} is {colour}.",
            "labels": {"adherent": not wrong},
            "group": f"doc-{number // 2}",
            "split": "first" if number < 12 else "second",
        }
        lines.append(json.dumps(row) + "\n")
    scores = [json.dumps({"id": f"q{n}", "s": n / 24}) + "\n" for n in range(24)]
    for name, written in (("toy", lines), ("copy", lines[10:14]), ("mine", scores)):
        (tmp_path / f"{name}.jsonl").write_text("".join(written), encoding="utf-8")
    return f"jsonl:{tmp_path / 'toy.jsonl'}"


def compare(data: str, out: Path, *more: str) -> tuple[int, str]:
    found = RUNNER.invoke(app, ["compare", "--data", data, "--out", str(out), *more])
    if found.exception and not isinstance(found.exception, SystemExit):
        return 99, str(found.exception)
    return found.exit_code, found.output


def test_cheap_peers_and_a_file_are_compared_and_made_again_without_running(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (
        *("--split", "first", "--dev", data, "--dev-split", "second"),
        *("--peers", "overlap, tfidf,always-yes", "--predictions", f"mine={tmp_path}/mine.jsonl:s"),
    )
    code, text = compare(data, tmp_path / "out", *arguments)
    assert code == 0, text
    for name in ("overlap", "tfidf", "always-yes", "mine"):
        assert f"| {name} | 12 | 4 |" in text
    monkeypatch.setattr(built_in, "make_peer", None)  # a call would fail
    code, again = compare(data, tmp_path / "out", *arguments)
    assert code == 0
    tables = text.partition("Command:")[2].partition("\n")[2]
    assert again.partition("Command:")[2].partition("\n")[2] == tables


def test_shards_are_joined_by_the_command_without_them(data: str, tmp_path: Path) -> None:
    peers = ("--peers", "overlap,always-yes", "--repeats", "2")
    assert compare(data, tmp_path / "whole", *peers)[0] == 0
    for number in (1, 2):
        code, text = compare(data, tmp_path / "out", *peers, "--shard", f"{number}/2")
        assert code == 0 and "the tables are made without --shard" in text
        assert not (tmp_path / "out" / "comparison.md").exists()
    assert len((tmp_path / "out" / "overlap.2-of-2.jsonl").read_bytes().splitlines()) == 1 + 24
    code, text = compare(data, tmp_path / "out", *peers)
    assert code == 0 and "| overlap | 24 | 8 | " in text
    found = [
        json.loads((tmp_path / out / "comparison.json").read_bytes()) for out in ("whole", "out")
    ]
    figures = [
        [one for one in each["figures"] if not one["measure"].startswith("seconds")]
        for each in found
    ]
    assert figures[0] == figures[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--peers tfidf --dev {data} --dev-split all", "12 source documents are in --data and in"),
        # The same rows under another name of the data.
        ("--peers tfidf --dev jsonl:{folder}/copy.jsonl --dev-split all", "2 source documents are"),
        ("--peers tfidf", "needs supported and hallucinated rows to fit on"),
        ("--peers stored:GPT-4", "no such judge; there are GPT-3.5, RAGAS, TruLens"),
        ("--peers overlap --price gpt=much", "must be IN,OUT"),
        ("--peers overlap --price 0.1,0.2", "must be NAME=VALUE"),
        ("--peers overlap --shard 1/2 --restart", "give it without --shard"),
        ("--peers likert", "name it with --model, or PEER:MODEL"),
        ("--peers likert:tiny --max-dollars 1 --price x=1,2", "--price tiny=IN,OUT"),
        ("--peers x --predictions x=no-file.jsonl:s", "no-file.jsonl"),
        ("--predictions {mine} --predictions {mine}", "names a peer twice"),
        ("--peers mine --predictions {mine}", "--predictions and --peers both have mine"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(
    data: str, tmp_path: Path, arguments: str, message: str
) -> None:
    mine = f"mine={tmp_path}/mine.jsonl:s"
    given = arguments.format(data=data, folder=tmp_path, mine=mine).split()
    code, text = compare(data, tmp_path / "out", *given)
    assert code != 0 and message in text
    assert not list((tmp_path / "out").glob("comparison.*"))


def test_a_limit_draws_the_same_rows_by_its_seed(data: str, tmp_path: Path) -> None:
    ids = []
    for out in ("one", "two"):
        arguments = ("--peers", "always-yes", "--limit", "10", "--seed", "3")
        assert compare(data, tmp_path / out, *arguments)[0] == 0
        lines = (tmp_path / out / "always-yes.jsonl").read_bytes().splitlines()
        ids.append([json.loads(line).get("id") for line in lines])
    assert ids[0] == ids[1] and len(ids[0]) == 11


def predicted(file: Path) -> list[tuple[float | None, str | None]]:
    """Return score and failure of each row in a file of predictions."""
    records = map(json.loads, file.read_text(encoding="utf-8").splitlines()[1:])
    return [(record["faithfulness"], record["failed"]) for record in records]


def test_an_llm_peer_stops_at_the_budget_and_goes_on_without_asking_twice(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with ScriptedEndpoint(lambda _: "Explanation: fine. Score: 4") as endpoint:
        arguments = (
            *("--split", "first", "--peers", "likert:tiny", "--base-url", endpoint.url),
            *("--concurrency", "1", "--price", "tiny=1000,5000"),  # $0.15 a row
        )
        code, text = compare(data, tmp_path / "out", *arguments, "--max-dollars", "6")
        assert code == 2 and "of at most $6.0000 are spent" in text
        scored = (tmp_path / "out" / "likert_tiny.jsonl").read_bytes().splitlines()[1:]
        assert 0 < len(scored) < 12 and len(endpoint.bodies) == len(scored)
        code, text = compare(data, tmp_path / "out", *arguments)
        assert code == 0, text
        assert len(endpoint.bodies) == 12
    assert predicted(tmp_path / "out" / "likert_tiny.jsonl") == [(0.75, None)] * 12
    costs = text.partition("## Costs and failures")[2]
    assert "| likert:tiny | 12 | - |" in costs and "| 150 (150 to 150) |" in costs
    code, text = compare(data, tmp_path / "out", *arguments[:6])
    assert code == 0 and "dollars" not in text  # without a price


def test_finished_predictions_of_a_changed_peer_are_refused(data: str, tmp_path: Path) -> None:
    dev = tmp_path / "dev.jsonl"
    lines = Path(data.partition(":")[2]).read_text(encoding="utf-8").splitlines(keepends=True)
    dev.write_text("".join(lines[12:]), encoding="utf-8")
    fitted = ("--split", "first", "--peers", "tfidf", "--dev", f"jsonl:{dev}", "--dev-split", "all")
    assert compare(data, tmp_path / "out", *fitted)[0] == 0
    assert compare(data, tmp_path / "out", *fitted)[0] == 0
    dev.write_text("".join(lines[12:22]), encoding="utf-8")
    code, text = compare(data, tmp_path / "out", *fitted)
    assert code == 6 and "--dev was '" in text and "begin anew with --restart" in text
    assert compare(data, tmp_path / "out", *fitted, "--restart")[0] == 0


def test_a_row_whose_call_takes_longer_than_the_timeout_fails_alone(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    monkeypatch.setattr("trivet.llm.client._RETRIES", 0)
    gate = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return Reply("Score: 4", wait=gate if "Boat 3 is" in last_text(body) else None)

    with ScriptedEndpoint(script) as endpoint:
        arguments = ("--split", "first", "--peers", "likert:tiny", "--base-url", endpoint.url)
        code, text = compare(data, tmp_path / "out", *arguments, "--timeout", "10")
        gate.set()
    assert code == 0, text
    expected: list[tuple[float | None, str | None]] = [(0.75, None)] * 12
    expected[3] = (None, "timeout")
    assert predicted(tmp_path / "out" / "likert_tiny.jsonl") == expected
