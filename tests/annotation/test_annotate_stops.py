"""``trivet annotate`` when it stops, resumes or refuses: budget, disk, keys, bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.annotation.job_commands import KEY, ROW, annotate, annotated, lines, numbered, write_log
from tests.annotation.scripted_annotator import text_of
from tests.llm import scripted_endpoint as scripted
from tests.llm.scripted_endpoint import Reply, ScriptedEndpoint


def test_the_same_command_pays_nothing_and_writes_the_same_bytes() -> None:
    write_log(*numbered(5))
    with ScriptedEndpoint(text_of) as endpoint:
        assert annotate(endpoint.url).exit_code == 0
        first = Path("out.jsonl").read_bytes()
        result = annotate(endpoint.url)
    assert result.exit_code == 0, result.output
    assert "labelled 5; $0.0000 spent" in result.output
    assert Path("out.jsonl").read_bytes() == first
    assert len(endpoint.bodies) == 5


def test_the_budget_stops_the_run_and_the_rest_is_done_later() -> None:
    write_log(*numbered(6))
    costs = ("--price", "0,1000", "--concurrency", "1")  # $0.01 a call here, at most $2.32
    with ScriptedEndpoint(text_of) as endpoint:
        stopped = annotate(endpoint.url, *costs, "--max-dollars", "2.349")
        assert stopped.exit_code == 10, stopped.output
        assert "raise --max-dollars" in stopped.output
        kept = len(lines())
        assert 0 < kept < 6
        assert annotate(endpoint.url, *costs, "--max-dollars", "2.349").exit_code == 10
        assert len(endpoint.bodies) == kept  # what was spent before counts
        assert annotate(endpoint.url, *costs).exit_code == 0
    assert len(endpoint.bodies) == len(lines()) == 6


def test_a_stop_keeps_what_was_done() -> None:
    write_log(*numbered(6))
    answers = iter(range(3))

    def first_three(body: dict[str, Any]) -> Reply | str:
        return scripted.error(401, "no") if next(answers, None) is None else text_of(body)

    result, _ = annotated(first_three, "--concurrency", "1")
    assert result.exit_code == 2
    assert "refuses the key" in result.output.strip().splitlines()[-1]
    assert KEY not in result.output
    assert [row["id"] for row in lines()] == ["r0", "r1", "r2"]


def test_rows_without_texts_are_kept_apart_unpaid() -> None:
    write_log(ROW | {"contexts": []}, ROW | {"response": " "}, ROW)
    result, endpoint = annotated(text_of)
    assert result.exit_code == 1
    codes = [row["error"]["code"] for row in lines("out.rejected.jsonl")]
    assert codes == ["empty_contexts", "empty_response"]
    assert len(endpoint.bodies) == len(lines()) == 1


def test_a_response_of_100_000_characters_is_labelled() -> None:
    write_log(ROW | {"response": "It was built in 1790. " * 4_546})
    result, endpoint = annotated(text_of)
    assert result.exit_code == 0, result.output
    assert lines()[0]["labels"]["adherent"] is True
    assert endpoint.bodies[0]["max_tokens"] > 100_000


def test_files_that_are_not_of_this_run_are_not_overwritten() -> None:
    write_log(*numbered(2))
    with ScriptedEndpoint(text_of) as endpoint:
        assert annotate(endpoint.url).exit_code == 0
        other = annotate(endpoint.url, "--model", "other")
        assert other.exit_code == 6
        assert "models was ['scripted'], is ['other']" in other.output
        with Path("out.jsonl").open("a", encoding="utf-8") as file:
            file.write("corrected by hand\n")
        mine = annotate(endpoint.url)
        assert mine.exit_code == 6
        assert "out.jsonl: was changed" in mine.output
        Path("out.jsonl").unlink()
        assert annotate(endpoint.url).exit_code == 0
    assert len(lines()) == len(endpoint.bodies) == 2
