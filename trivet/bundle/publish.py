"""Publish a bundle on the hub, in one commit."""

from __future__ import annotations

import hashlib
import os

from trivet.bundle.bundle import CARD_NAME, read_bundle
from trivet.bundle.hub import HUB_NAME, check_hub_files, explain_hub_error, import_hub
from trivet.bundle.manifest import MANIFEST_NAME, FileRecord
from trivet.bundle.model_card import render_card
from trivet.errors import BundleError

_KEPT = frozenset({".gitattributes"})
_LICENCES = frozenset({"apache-2.0", "mit"})  # names that the hub knows; all others are "other"


def publish(bundle: str | os.PathLike[str], repository: str, private: bool = False) -> str:
    """Make a repository hold exactly a bundle's files, and return the commit.

    The model card gets the hub's header and the repository's name. An interrupted call leaves the
    repository as it was.

    Args:
        bundle: Folder or name of the bundle.
        repository: ``org/name`` on the hub; created if there is none.
        private: Whether a new repository is private.

    Raises:
        BundleError: The bundle is refused or holds files that the hub's bundles may not, the name
            is not a name on the hub, or the hub cannot be reached or refuses.
    """
    name = HUB_NAME.fullmatch(repository)
    if name is None or name[2] is not None:
        raise BundleError(f"{repository}: a repository on the hub is named org/name")
    stored = read_bundle(bundle)
    check_hub_files(str(bundle), stored.manifest)
    hub = import_hub(repository)
    licence = stored.info.encoder.licence.lower()
    header = {
        "library_name": "trivet",
        "license": licence if licence in _LICENCES else "other",
        "tags": "[rag, hallucination-detection, faithfulness]",
    }
    lines = "".join(f"{key}: {value}\n" for key, value in header.items())
    body = render_card(stored.info).replace("path/to/this/folder", repository)
    card = f"---\n{lines}---\n\n{body}".encode()
    record = FileRecord(size=len(card), sha256=hashlib.sha256(card).hexdigest())
    files = stored.manifest.files | {CARD_NAME: record}
    manifest = stored.manifest.model_copy(update={"files": files})
    content = {name: stored.folder / name for name in files} | {
        CARD_NAME: card,
        MANIFEST_NAME: (manifest.model_dump_json(indent=2) + "\n").encode(),
    }
    try:
        api = hub.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        old = set(api.list_repo_files(repository)) - content.keys() - _KEPT
        changes = [hub.CommitOperationAdd(name, data) for name, data in sorted(content.items())]
        changes += [hub.CommitOperationDelete(name) for name in sorted(old)]
        message = f"{stored.info.name}, written by trivet {stored.info.package_version}"
        return str(api.create_commit(repository, changes, commit_message=message).oid)
    except Exception as error:  # the library passes on errors of its HTTP client
        raise explain_hub_error(repository, error) from error
