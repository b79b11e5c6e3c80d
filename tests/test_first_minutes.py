"""The first minutes of a new user: the README's commands in order, in an empty folder."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Train your own")[0]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
TRIVET = [sys.executable, "-m", "trivet"]
PATIENCE = 120  # seconds


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder that has only the examples of the clone."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def run(*command: str) -> tuple[str, str]:
    """Return what a command wrote to stdout and to stderr."""
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def commands(language: str) -> list[list[str]]:
    """Return the commands of the blocks of a language, without those that install."""
    lines = [
        line
        for own, text in BLOCKS
        if own == language
        for line in text.replace("\\\n", "").splitlines()
    ]
    words = [shlex.split(line, comments=True) for line in lines]
    return [each for each in words if each and each[0] not in ("git", "pip")]


def ids(file: Path) -> list[str]:
    return [json.loads(line)["id"] for line in file.read_text(encoding="utf-8").splitlines()]


def test_each_command_does_what_the_page_says(folder: Path) -> None:
    one, log, serve, curl = commands("bash")
    assert [each[0] for each in (one, log, serve, curl)] == ["trivet"] * 3 + ["curl"]

    ((script, printed),) = re.findall(r"```python\n(.*?)```\n+```\n(.*?)```", README, re.DOTALL)
    assert run(sys.executable, "-c", script)[0] == printed
    right = script.replace("1789", "1790")
    assert run(sys.executable, "-c", right)[0] == "True\n"

    said, _ = run(*TRIVET, *one[1:])
    first = re.search(r"^0-\d+ (.*?): not_supported\n\d+-\d+ (\d+)", printed, re.MULTILINE)
    assert first is not None
    assert re.search(r"^faithfulness +\S+ +unsupported", said, re.MULTILINE)
    assert f"[{first[1]}] [{first[2]}]" in said

    _, summary = run(*TRIVET, *log[1:])
    page = (ROOT / "docs" / "evaluating.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```\n(\d+ of \d+ answers.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert re.fullmatch(re.escape(shown).replace(re.escape("..."), r"0\.\d+"), summary)
    assert ids(folder / "verdicts.jsonl") == ids(folder / log[2])
    assert "<h2>What to do</h2>" in (folder / "report.html").read_text(encoding="utf-8")
    before = (folder / "verdicts.jsonl").read_bytes()
    run(*TRIVET, *log[1:])
    assert (folder / "verdicts.jsonl").read_bytes() == before

    serve[serve.index("--port") + 1] = "0"
    process = subprocess.Popen(
        [*TRIVET, *serve[1:]], stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    with process:
        try:
            ready = (re.match(r"trivet: ready on (\S+) \(", line) for line in process.stderr or ())
            url = next(found[1] for found in ready if found)
            place = next(word for word in curl if word.startswith("http"))
            body = curl[curl.index("-d") + 1].encode()
            target = re.sub(r"http://[^/]+", url, place)
            with urllib.request.urlopen(target, body, timeout=PATIENCE) as answer:
                verdict = json.load(answer)
        finally:
            process.terminate()
    spans = [span["text"] for span in verdict["unsupported"]]
    (comment,) = re.findall(r"^# in short: (\{.*\})$", README, re.MULTILINE)
    assert json.loads(comment) == {"adherent": verdict["adherent"], "unsupported": spans}
