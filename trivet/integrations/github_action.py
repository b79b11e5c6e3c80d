"""The script of the GitHub Action: evaluates a file, shows a table, and fails as the command does.

Its inputs are the environment variables that ``action.yml`` sets. The table goes to the summary of
the job and, if wanted, to a comment on the pull request. The verdicts and the report are written to
``trivet-verdicts.jsonl`` and ``trivet-report.html``, for a later step that uploads them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

VERDICTS, REPORT = Path("trivet-verdicts.jsonl"), Path("trivet-report.html")


def main() -> int:
    """Run the command and write its table; return the exit code of the command."""
    command = [sys.executable, "-m", "trivet", *_words()]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    print(result.stdout + result.stderr, end="")
    table = _table(result.returncode, result.stdout, result.stderr)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(table)
    pull_request = os.environ.get("TRIVET_PULL_REQUEST")
    if os.environ.get("TRIVET_COMMENT") == "true" and pull_request:
        comment = ["gh", "pr", "comment", pull_request, "--body-file", "-"]
        if subprocess.run(comment, input=table, text=True, encoding="utf-8").returncode:
            print("::warning::the comment could not be written; the job needs pull-requests: write")
    return result.returncode


def _words() -> list[str]:
    """Return the words of the command line."""

    def given(name: str) -> str:
        return os.environ.get(f"TRIVET_{name}", "").strip()

    words = ["evaluate", "--quiet", "--restart", "--out", str(VERDICTS), "--report", str(REPORT)]
    words += [word for pair in given("MAP").split() for word in ("--map", pair)]
    words += [word for pair in given("FAIL_UNDER").split() for word in ("--fail-under", pair)]
    if baseline := given("BASELINE"):
        words += ["--baseline", baseline, "--fail-if-worse"]
    return [*words, "--", given("FILE")]


def _table(code: int, said: str, problems: str) -> str:
    """Return the result as Markdown."""
    lines = [f"### Trivet: {'passed' if code == 0 else 'failed'}", ""]
    try:
        counts = json.loads(Path(f"{VERDICTS}.run.json").read_bytes())["counts"]
    except OSError:  # the run did not begin
        counts = {"scores": {}}
    if counts["scores"]:
        lines += ["| score | mean | answers |", "|---|---:|---:|"]
        for name, score in counts["scores"].items():
            mean = "-" if score["mean"] is None else f"{score['mean']:.3f}"
            lines.append(f"| {name} | {mean} | {score['n']} |")
        found = f"{counts['unsupported']} of {counts['answers']} answers unsupported"
        lines += ["", f"{found}, {counts['failed']} rows failed.", ""]
    for text in (said, problems):
        if text.strip():
            # Ids of rows are in it: four backquotes end no block of three.
            lines += ["````text", text.strip().replace("````", "'''"), "````", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
