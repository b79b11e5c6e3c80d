"""Fingerprints of peers: digests of what their scores depend on, found without loading them.

Finished predictions are only taken again under the fingerprint that they were made with.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.peers.peer import PEERS, PeerSetup

_ASKING = "llm_claims", "llm_ratings", "tlm"  # modules of peers that ask an LLM
_WEIGHTS = "*.safetensors", "*.json"
_OPENAI = "https://api.openai.com/v1"


def fingerprint(name: str, setup: PeerSetup) -> dict[str, str]:
    """Return the digest or the name of each thing that a peer is made of, by what it is.

    A model of the hub has no entry, nor has a folder that is not there: what cannot be looked at
    does not hinder the use of predictions.
    """
    kind, _, argument = name.partition(":")
    if PEERS[kind] in _ASKING:
        from trivet.peers.llm_peer import prompt_digest

        return {
            "model": argument or setup.model,
            "--base-url": _endpoint(setup.base_url),
            "prompts": prompt_digest(),
        }
    if kind == "tfidf":
        examples = ((row.example, row.labels.adherent) for row in setup.dev)
        return {"--dev": _digest([one.question, one.response, label] for one, label in examples)}
    if kind == "stored":
        return {"stored scores": _digest(str(row.published) for row in setup.rows)}
    parts = [argument] if kind == "trivet" else argument.split(":")
    names = [part.partition("#")[0].rpartition("=")[2] for part in parts]
    if kind in ("trivet", "overlap") and not names[0]:
        names = [EMBEDDED_BUNDLE.name]
    own = EMBEDDED_BUNDLE.name, "support"
    folders = {each: EMBEDDED_BUNDLE if each in own else Path(each) for each in names if each}
    return {each: digest_folder(path) for each, path in folders.items() if path.is_dir()}


def digest_folder(folder: Path) -> str:
    """Return a digest of a bundle's manifest, or else of a model's weights and settings."""
    manifest = folder / MANIFEST_NAME
    files = [manifest] if manifest.is_file() else [f for p in _WEIGHTS for f in folder.glob(p)]
    whole = hashlib.sha256()
    for file in sorted(files):
        with file.open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:12]


def _endpoint(base_url: str | None) -> str:
    """Return host, port and path of an endpoint, without what may be secret."""
    address = urlsplit(base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI)
    return address.netloc.rpartition("@")[2] + address.path.rstrip("/")


def _digest(records: Iterable[Any]) -> str:
    whole = hashlib.sha256()
    for record in records:
        whole.update(json.dumps(record).encode() + b"\n")
    return whole.hexdigest()[:12]
