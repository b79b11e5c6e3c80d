"""Reading of ``bundle.json``."""

from __future__ import annotations

import json

from pydantic import ValidationError

from trivet.bundle.schema import SCHEMA_VERSION, BundleInfo
from trivet.errors import BundleError, fault_words


def parse_info(text: bytes, where: str) -> BundleInfo:
    """Parse ``bundle.json``, checking its schema version first; messages call it ``where``.

    Raises:
        BundleError: The text is not JSON, has another schema version, or a key is missing, unknown
            or of the wrong type; the message names every such key.
    """
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise BundleError(f"{where}: not JSON: {error}") from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise BundleError(
            f"{where}: schema_version {version!r}, this trivet reads {SCHEMA_VERSION}; "
            + (
                "use a newer trivet"
                if isinstance(version, int) and version > SCHEMA_VERSION
                else "write the bundle again with this trivet"
            )
        )
    if isinstance(raw.get("thresholds"), dict) and "adherence" in raw["thresholds"]:
        del raw["thresholds"]["adherence"]  # of bundles before version 2; sentences decide
        text = json.dumps(raw).encode()
    try:
        return BundleInfo.model_validate_json(text)
    except ValidationError as error:
        raise BundleError(f"{where}: {fault_words(error)}") from error
