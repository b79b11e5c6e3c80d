"""``trivet evaluate`` on whole logs: exit codes and messages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.batch.conftest import GOOD, Call, WriteLog


def test_the_exit_code_says_how_it_went(call: Call, write_log: WriteLog, tmp_path: Path) -> None:
    log, out = write_log(range(70)), tmp_path / "v.jsonl"
    code, printed, err = call("evaluate", log, "--out", out)
    assert (code, printed) == (0, "")
    assert " unsupported" in err and "means: faithfulness 0." in err
    assert err.endswith(f"verdicts: {out}\n")
    assert call("evaluate", log, "--out", out, "--texts", "--restart")[0] == 0
    write_log([*range(70), "{broken"])
    code, _, err = call("evaluate", log, "--out", out, "--texts", "--force", "--quiet")
    assert (code, err) == (1, "")
    assert len(out.read_bytes().splitlines()) == 71


def test_a_mean_below_its_bar_fails(call: Call, write_log: WriteLog, tmp_path: Path) -> None:
    log = write_log([{**GOOD, "response": ""}, GOOD])
    bars = ["--fail-under", "relevance=0.0", "--fail-under"]
    assert call("evaluate", log, "-q", *bars, "relevance=0.01")[0] == 0
    code, _, err = call("evaluate", write_log([{**GOOD, "response": ""}]), *bars, "faithfulness=0")
    assert code == 8 and "faithfulness: no verdict has it" in err
    code, _, err = call("evaluate", log, "--fail-over", "abstains=2")
    assert code == 2 and "must be KIND=SHARE" in err
    code, _, err = call("evaluate", log, "--fail-under", "faithfulness=nan")
    assert code == 2 and "must be SCORE=MEAN" in err


def test_refusals_pass_no_bar(call: Call, write_log: WriteLog) -> None:
    refusal = {**GOOD, "response": "I don't know."}
    under, over = ("-q", "--fail-under", "faithfulness=0"), ("-q", "--fail-over")
    code, _, err = call("evaluate", write_log([refusal] * 2), *under)
    assert code == 8 and "nothing was judged: 2 of 2 answers abstain" in err
    some = write_log([refusal, GOOD, GOOD])
    assert call("evaluate", some, *under)[0] == 0
    assert call("evaluate", some, *over, "abstains=0.4")[0] == 0
    code, _, err = call("evaluate", some, *over, "abstains=0.2")
    assert code == 8 and "abstains: 0.3333 of 3 answers is above 0.2" in err


def test_shards_have_all_lines_of_one_run(call: Call, write_log: WriteLog, tmp_path: Path) -> None:
    log = write_log(range(200))
    parts = [tmp_path / f"part-{number}.jsonl" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        assert call("evaluate", log, "--out", part, "--shard", f"{number}/2")[0] == 0
    _, whole, _ = call("evaluate", log)
    lines = [line for part in parts for line in part.read_text(encoding="utf-8").splitlines()]
    assert sorted(lines, key=lambda line: int(json.loads(line)["row"])) == whole.splitlines()


def test_a_text_that_is_too_long_names_the_option_that_admits_it(
    call: Call, write_log: WriteLog
) -> None:
    log = write_log([{**GOOD, "response": "It is old. " * 10}])
    code, printed, _ = call("evaluate", log, "--max-characters", "100")
    assert code == 1 and "(--max-characters)" in json.loads(printed)["error"]["message"]
    assert call("evaluate", log, "--max-characters", "110")[0] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_report_on_a_full_disk_says_that_the_verdicts_are_complete(
    call: Call, write_log: WriteLog, tmp_path: Path
) -> None:
    out = tmp_path / "v.jsonl"
    code, _, err = call("evaluate", write_log([GOOD]), "--out", out, "--report", "/dev/full")
    assert code == 5 and len(out.read_bytes().splitlines()) == 1
    assert f"/dev/full: cannot be written: No space left on device; {COMPLETE}{out} --out" in err
    code, _, err = call("report", out, "--out", "/dev/full")
    assert code == 5 and COMPLETE in err


COMPLETE = "the verdicts are complete: trivet report "


def test_one_verdict_is_shown(call: Call, write_log: WriteLog, tmp_path: Path) -> None:
    out = tmp_path / "v.csv"
    assert (
        call("evaluate", write_log([*range(5), {**GOOD, "response": ["a"]}]), "--out", out)[0] == 1
    )
    for name in ("q3", "4"):
        code, printed, _ = call("show", out, "--id", name)
        assert code == 0 and "row 4, id q3" in printed
        assert "What was built in 3?" in printed and "faithfulness" in printed
    assert "row " in call("show", out)[1]
    assert "no verdict (bad_field)" in call("show", out, "--id", "line-6")[1]


def test_a_run_that_is_worse_than_its_baseline_fails(
    call: Call, write_log: WriteLog, tmp_path: Path
) -> None:
    log, old = write_log(range(20)), tmp_path / "old.jsonl"
    assert call("evaluate", log, "--out", old)[0] == 0
    gate = ["--baseline", old, "--fail-if-worse"]
    code, printed, _ = call("evaluate", log, *gate)
    assert code == 0 and "20 rows in both runs, paired by id" in printed
    assert "faithfulness +0.000 (95 % interval +0.000 to +0.000, n 20)" in printed
    rows = [json.loads(line) for line in old.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        row["faithfulness"] = min(1.0, row["faithfulness"] + 0.4)
    old.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    code, printed, err = call("evaluate", log, *gate, "--out", tmp_path / "new.csv")
    assert code == 8 and "faithfulness is worse than that of --baseline" in err
    assert "20 rows fell in faithfulness" in printed and "id q7: " in printed
    assert call("evaluate", log, *gate[:2])[0] == 0
    old.write_text("{}\n", encoding="utf-8")
    code, _, err = call("evaluate", log, *gate)
    assert code == 2 and "holds no score" in err


def test_missing_columns_name_the_flag(call: Call, write_log: WriteLog, tmp_path: Path) -> None:
    row = {"question": "What?", "found": {"docs": ["The mill."]}, "said": "It is old."}
    log, out = write_log([row]), tmp_path / "v.jsonl"
    code, _, err = call("evaluate", log, "--out", out)
    assert code == 2
    assert (
        "found question, found.docs, said); name the fields with --map contexts=found.docs" in err
    )
    assert not out.exists()
    assert (
        call("evaluate", log, "--out", out, "--map", "contexts=found.docs", "response=said")[0] == 0
    )


def test_every_kind_of_bad_row_has_its_line_and_code(call: Call, write_log: WriteLog) -> None:
    bad: list[Any] = [
        {**GOOD, "response": {"a": 3}},
        {**GOOD, "contexts": []},
        {**GOOD, "response": "word " * 2_000_000},
        {"question": "What?"},
        "{",
    ]
    log = write_log([GOOD, *bad, GOOD])
    code, printed, err = call("evaluate", log)
    lines = [json.loads(line) for line in printed.splitlines()]
    assert code == 1
    assert [line.get("error", {}).get("line") for line in lines] == [None, *range(2, 7), None]
    codes = [line["error"]["code"] for line in lines[1:-1]]
    assert codes[:2] == ["bad_field", "empty_contexts"]
    assert codes[2:] == ["too_long", "missing_field", "malformed_line"]
    assert all(line["error"]["message"].startswith("line ") for line in lines[1:-1])
    assert ", 5 failed" in err
    code, printed, _ = call("evaluate", write_log([{**GOOD, "response": "It is \ud800 old."}]))
    assert (code, json.loads(printed)["replaced_characters"]) == (0, 1)


def test_a_terminal_gets_a_table_and_a_pipe_lines(
    call: Call, write_log: WriteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log([*range(50), {**GOOD, "contexts": []}, {**GOOD, "response": ""}])
    assert call("evaluate", log)[1].startswith('{"row": 1, ')
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb")  # no colours
    code, printed, err = call("evaluate", log)
    lines = printed.splitlines()
    assert code == 1 and lines[0].split() == ["row", "verdict", "faithfulness", "why"]
    scores = [float(re.findall(r" (\d\.\d\d) ", line)[0]) for line in lines[1:-1]]
    assert scores == sorted(scores) and len(lines) == 42
    assert lines[-1].startswith("12 more rows; --out FILE keeps them all")
    assert "1 without a response, 1 failed" in err and "failed: empty_contexts 1" in err
    assert call("evaluate", log, "--fields", "id")[1].startswith('{"row": 1, "id": "q0"}')


def test_a_file_of_another_tool_is_read_and_its_shape_said(call: Call, tmp_path: Path) -> None:
    exports = Path(__file__).parents[1] / "logs" / "exports"
    log, out, page = exports / "promptfoo.json", tmp_path / "v.jsonl", tmp_path / "report.html"
    code, _, err = call("evaluate", log, "--out", out, "--report", page)
    assert code == 0
    assert "read as promptfoo's results" in err
    assert "Le four est éteint." in page.read_text(encoding="utf-8")
    verdicts = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert [verdict["row"] for verdict in verdicts] == [1, 2]
    assert verdicts[0]["metadata"]["success"] is True
    assert call("evaluate", log, "--out", out, "--quiet")[2] == ""
    named = tmp_path / "named.jsonl"
    code, _, err = call("evaluate", log, "--out", named, "--format", "promptfoo")
    assert code == 0 and "read as" not in err


def test_the_shapes_are_listed(call: Call) -> None:
    code, printed, _ = call("evaluate", "--formats")
    assert code == 0
    assert "langsmith-csv: LangSmith's table of an experiment" in printed
    assert "  contexts    source_documents\n" in printed
