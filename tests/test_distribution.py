"""What a package index gets: pins for every supported Python, a wheel without compiled parts."""

from __future__ import annotations

import email
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/trivet-rag/trivet"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = {
    canonicalize_name(name): version
    for name, _, version in (
        line.partition("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    )
}
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}


def required(python: str, system: str) -> Iterator[tuple[str, Requirement]]:
    """Yield all requirements of the core there, each with the name of the package that has it.

    A requirement is followed where the version that is pinned is installed here.
    """
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": system,
        "platform_system": SYSTEMS[system],
        "os_name": "nt" if system == "win32" else "posix",
        "extra": "",
    }
    asked = [("trivet", text) for text in PROJECT["dependencies"]]
    seen = set()
    for asker, text in asked:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate(environment):
            continue
        yield asker, requirement
        name = canonicalize_name(requirement.name)
        if name not in seen and installed(name):
            asked += [(name, require) for require in importlib.metadata.requires(name) or ()]
        seen.add(name)


def installed(name: NormalizedName) -> bool:
    """Return whether the version that is pinned is installed."""
    try:
        return importlib.metadata.version(name).partition("+")[0] == PINS.get(name)
    except importlib.metadata.PackageNotFoundError:
        return False


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", SUPPORTED)
def test_the_pins_satisfy_the_core_on_every_supported_python(python: str, system: str) -> None:
    followed = 0
    for asker, requirement in required(python, system):
        name = canonicalize_name(requirement.name)
        assert name in PINS, f"{asker} requires {requirement}, which constraints.txt does not pin"
        assert requirement.specifier.contains(PINS[name], prereleases=True), (
            f"{asker} requires {requirement}; the pin is {PINS[name]}"
        )
        if installed(name):
            followed += 1
            accepted = str(importlib.metadata.metadata(name).json.get("requires_python", ""))
            assert SpecifierSet(accepted).contains(python), f"{name} {PINS[name]}: {accepted}"
    assert followed >= len(PROJECT["dependencies"]), "install with -c constraints.txt"


def test_the_classifiers_name_the_supported_versions() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [each.removeprefix(prefix) for each in PROJECT["classifiers"] if prefix in each]
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
    (path,) = (each for each in wheel.namelist() if each.endswith(f".dist-info/{name}"))
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
    own = re.compile(rf"(?:{REPOSITORY}/blob/main|{raw}/main)/([^#]+)")
    paths = [match[1] for target in targets if (match := own.match(target))]
    assert paths and [path for path in paths if not (ROOT / path).exists()] == []
