"""Workflows with pinned actions, and a citation that is valid."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(path: Path) -> dict[str, Any]:
    """Return a file of YAML; the key ``on`` stays a string."""
    content: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    return content


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text(encoding="utf-8"))
    assert used
    pinned = r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+"
    assert [action for action in used if not re.fullmatch(pinned, action)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_but_for_the_job_that_publishes(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert int(job["timeout-minutes"]) <= 90
        if "permissions" in job:
            assert name in ("publish", "deploy") and "environment" in job
            assert not any("run" in step for step in job["steps"])  # none of our code runs there


def test_ci_runs_what_everyone_can_run_on_every_supported_python() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands == ["bash .ci/run", "bash .ci/core"]
    matrix = jobs["core"]["strategy"]["matrix"]
    classifiers = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if " :: 3." in classifier
    ]
    assert matrix["python"] == classifiers
    assert {system.partition("-")[0] for system in matrix["system"]} == {
        "ubuntu",
        "macos",
        "windows",
    }
    core = (ROOT / ".ci" / "core").read_text(encoding="utf-8")
    paths = re.findall(r"tests/[\w/.]+", core)
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []


def test_the_citation_is_of_this_version() -> None:
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["repository-code"] == PROJECT["urls"]["Repository"]
    assert [author["name"] for author in citation["authors"]] == [
        author["name"] for author in PROJECT["authors"]
    ]
