"""Bundles by name: from the hub's cache, from packages, and what is refused in one sentence."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from trivet.__main__ import app
from trivet.bundle.bundle import add_files, read_bundle
from trivet.bundle.hub import EMBEDDED_BUNDLE, locate
from trivet.bundle.publish import publish
from trivet.errors import BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, RagExample

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache of the hub, which cannot be reached."""
    folder = tmp_path / "hub"
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.setattr(constants, name, str(folder), raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return folder


@pytest.fixture
def cached(cache: Path, tiny_bundle: Path) -> Path:
    """Put the tiny bundle into the cache as the hub's library does, and return its snapshot."""
    repository = cache / "models--mill--judge"
    snapshot, blobs = repository / "snapshots" / COMMIT, repository / "blobs"
    for folder in (snapshot, blobs, repository / "refs"):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    for number, file in enumerate(sorted(tiny_bundle.iterdir())):
        shutil.copyfile(file, blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    (snapshot / ".gitattributes").write_text("*.onnx filter=lfs\n", encoding="utf-8")
    return snapshot


@pytest.mark.parametrize("name", ["mill/judge", "mill/judge@main", f"mill/judge@{COMMIT}"])
def test_a_name_gives_the_cached_commit(cached: Path, name: str) -> None:
    assert locate(name) == (cached, COMMIT, True)
    assert locate(cached) == (cached, COMMIT, True)


def test_verdicts_record_the_revision(
    cached: Path, tiny_bundle: Path, rag_example: RagExample
) -> None:
    (named,) = Evaluator("mill/judge", 1).evaluate_many([rag_example])
    (plain,) = Evaluator(tiny_bundle, 1).evaluate_many([rag_example])
    assert isinstance(named, Evaluation) and isinstance(plain, Evaluation)
    assert (named.to_dict()["revision"], plain.to_dict()["revision"]) == (COMMIT, None)
    assert {**named.to_dict(), "revision": None} == plain.to_dict()


def test_a_folder_wins_over_the_hub(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mill" / "judge").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert locate("mill/judge") == (Path("mill/judge"), None, False)


def damage(snapshot: Path) -> None:
    (snapshot / "bundle.json").resolve().write_bytes(b"{}")


def lead_out(snapshot: Path) -> None:
    outside = snapshot.parents[3] / "bundle.json"
    shutil.copyfile(snapshot / "bundle.json", outside)
    (snapshot / "bundle.json").unlink()
    (snapshot / "bundle.json").symlink_to(outside)


def add_engine(snapshot: Path) -> None:
    manifest = json.loads((snapshot / "MANIFEST.json").read_bytes())
    manifest["files"]["model.engine"] = {"size": 1, "sha256": "0" * 64}
    (snapshot / "MANIFEST.json").resolve().write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damage, r"bundle\.json: .* bytes instead of"),
        (lead_out, r"bundle\.json is named in MANIFEST\.json but missing"),
        (add_engine, r"mill/judge: model\.engine is refused: .* safetensors .* ONNX only"),
    ],
)
def test_a_cached_bundle_is_checked(
    cached: Path, change: Callable[[Path], None], message: str
) -> None:
    change(cached)
    with pytest.raises(BundleError, match=message):
        read_bundle("mill/judge")


def test_a_bundle_by_name_is_read_only(cached: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(EMBEDDED_BUNDLE)
    for name in ("mill/judge", cached, "embedded", EMBEDDED_BUNDLE, tmp_path / "link"):
        with pytest.raises(BundleError, match="read only; give a folder with --out"):
            read_bundle(name).check_writable()
    with pytest.raises(BundleError, match="read only"):
        add_files(cached, {})
    bundle, data = "embedded", f"jsonl:{tmp_path / 'none.jsonl'}"
    for command in (
        ["calibrate", bundle, "--data", data],
        ["export", "onnx", bundle],
        ["test", "--data", data, "--into-card"],  # before the data are read
    ):
        refused = CliRunner().invoke(app, command).exception
        assert isinstance(refused, BundleError) and "read only" in str(refused)


@pytest.mark.parametrize("name", ["mill/unknown", "mill/judge@v2"])
def test_offline_without_the_bundle_is_one_sentence(cached: Path, name: str) -> None:
    with pytest.raises(BundleError, match=f"^{name}: the hub cannot be reached, and its cache"):
        read_bundle(name)
    assert {path.name for path in cached.parents[2].iterdir()} <= {"models--mill--judge", ".locks"}


class Repository:
    """Stands for a repository of the hub, with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits = 0

    def create_repo(self, name: str, private: bool, exist_ok: bool) -> None:
        self.folder.mkdir(exist_ok=exist_ok)

    def list_repo_files(self, name: str) -> list[str]:
        return [path.name for path in self.folder.iterdir()]

    def create_commit(self, name: str, operations: list[Any], commit_message: str) -> Any:
        self.commits += 1
        for operation in operations:
            path = self.folder / operation.path_in_repo
            if isinstance(operation, huggingface_hub.CommitOperationDelete):
                path.unlink()
                continue
            with operation.as_file() as content:
                path.write_bytes(content.read())
        return SimpleNamespace(oid=COMMIT)


def test_a_published_repository_is_the_bundle_in_one_commit(
    tmp_path: Path, tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path / "repository")
    repository.folder.mkdir()
    (repository.folder / "old.onnx").touch()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: repository)
    result = CliRunner().invoke(app, ["publish", str(tiny_bundle), "mill/judge"])
    assert result.output == f"mill/judge@{COMMIT}\n"
    assert repository.commits == 1
    assert read_bundle(repository.folder).info == read_bundle(tiny_bundle).info
    card = (repository.folder / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: trivet\nlicense: other\n")
    assert 'trivet.Evaluator("mill/judge")' in card


def test_a_hub_that_cannot_be_reached_is_one_sentence(
    tiny_bundle: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unreachable(Exception):
        """The errors of the HTTP client are not OSErrors."""

    def fail(*_: object, **__: object) -> None:
        raise Unreachable("Name or service not known\nsecond line")

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", fail)
    message = "^mill/judge: the hub cannot be used: Name or service not known$"
    with pytest.raises(BundleError, match=message):
        publish(tiny_bundle, "mill/judge")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    with pytest.raises(BundleError, match=message):
        read_bundle("mill/judge")


def test_the_embedded_bundle_needs_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert read_bundle("embedded").folder == EMBEDDED_BUNDLE
