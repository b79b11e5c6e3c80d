"""The package as an index gets it: versions of Python, a wheel without compiled parts."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/trivet-rag/trivet"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def test_the_classifiers_name_the_supported_versions() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [
        classifier.removeprefix(prefix)
        for classifier in PROJECT["classifiers"]
        if prefix in classifier
    ]
    assert [f"3.{minor}" for minor in named] == list(SUPPORTED)
    accepted = SpecifierSet(PROJECT["requires-python"])
    assert list(accepted.filter(["3.10", *SUPPORTED])) == list(SUPPORTED)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def read_about(wheel: zipfile.ZipFile, name: str) -> email.message.Message:
    (path,) = (file for file in wheel.namelist() if file.endswith(f".dist-info/{name}"))
    return email.message_from_string(wheel.read(path).decode("utf-8"))


def test_one_wheel_with_all_files_of_the_package_serves_every_system(
    wheel: zipfile.ZipFile,
) -> None:
    about = read_about(wheel, "WHEEL")
    assert about.get_all("Tag") == ["py3-none-any"]
    assert about["Root-Is-Purelib"] == "true"
    inside = set(wheel.namelist())
    assert {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "trivet").rglob("*")
        if file.suffix in {".py", ".typed", ".yaml", ".json", ".onnx", ".html", ".css", ".js"}
    } <= inside
    assert {name.partition("/")[0].partition("-")[0] for name in inside} == {"trivet"}
    compiled = re.compile(r"\.(so|pyd|dylib|dll)(\.|$)")
    assert [name for name in inside if compiled.search(name)] == []


def test_links_of_the_readme_work_on_an_index() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)", text)
    assert [target for target in targets if not re.match("https://|#", target)] == []
    raw = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
    link = re.compile(rf"(?:{REPOSITORY}/blob/main|{raw}/main)/([^#]+)")
    paths = [match[1] for target in targets if (match := link.match(target))]
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []
