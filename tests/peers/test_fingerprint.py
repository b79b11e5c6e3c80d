"""A fingerprint changes with what a peer is made of, and is known without loading it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.peers.rows import row
from trivet.peers.peer import PeerSetup
from trivet.peers.predictions import fingerprint
from trivet.records import Labels, PublishedScores

DEV = [row(number, number % 3 == 0) for number in range(4)]
RELABELLED = [replace(DEV[0], labels=Labels(adherent=True)), *DEV[1:]]
SCORED = [replace(one, published=(PublishedScores("RAGAS", 0.5, None, None),)) for one in DEV]


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("tfidf", PeerSetup(dev=DEV), PeerSetup(dev=DEV[1:])),
        ("tfidf", PeerSetup(dev=DEV), PeerSetup(dev=RELABELLED)),
        ("stored:RAGAS", PeerSetup(DEV), PeerSetup(SCORED)),
        ("likert", PeerSetup(model="one"), PeerSetup(model="two")),
        ("tlm", PeerSetup(base_url="http://a:8000/v1"), PeerSetup(base_url="http://a:8001/v1")),
        ("tlm:judge", PeerSetup(base_url="http://a/one/v1"), PeerSetup(base_url="http://a/two/v1")),
        ("tlm", PeerSetup(base_url="http://a/v1"), PeerSetup()),
    ],
)
def test_other_data_or_another_model_is_another_peer(
    name: str, one: PeerSetup, other: PeerSetup
) -> None:
    before, after = fingerprint(name, one), fingerprint(name, other)
    assert before == fingerprint(name, one)
    assert before.keys() == after.keys() and before != after


def test_an_endpoint_is_host_and_path_without_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://me:word@host:8443/v1/?key=word")
    found = fingerprint("likert", PeerSetup())
    assert found["--base-url"] == "host:8443/v1"
    assert found == fingerprint("likert", PeerSetup(base_url="https://host:8443/v1"))
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert fingerprint("likert", PeerSetup())["--base-url"] == "api.openai.com/v1"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("trivet:{folder}", "MANIFEST.json"),
        ("trivet:{folder}#onnx", "MANIFEST.json"),
        ("hhem:{folder}", "model.safetensors"),
        ("nli:{folder}", "config.json"),
        ("provenance:encoder=minilm:nli={folder}", "model.safetensors"),
    ],
)
def test_another_file_in_the_folder_is_another_peer(tmp_path: Path, name: str, file: str) -> None:
    name = name.format(folder=tmp_path)
    found = []
    for content in ("one", "two"):
        (tmp_path / file).write_text(content, encoding="utf-8")
        found.append(fingerprint(name, PeerSetup())[str(tmp_path)])
    assert found[0] != found[1]


@pytest.mark.parametrize("name", ["trivet", "trivet:embedded", "overlap", "longtracer:nli=support"])
def test_the_embedded_bundle_is_looked_at(name: str) -> None:
    assert len(fingerprint(name, PeerSetup())) == 1


@pytest.mark.parametrize("name", ["always-yes", "hhem", "trivet:org/name", "nli:no/such/folder"])
def test_what_is_not_at_hand_is_left_out(name: str) -> None:
    assert fingerprint(name, PeerSetup()) == {}
