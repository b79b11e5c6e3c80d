"""The record of a run, ``OUT.run.json``: its inputs, progress and results.

::

    {"schema_version": 3, "trivet": "0.1.0", "started": "2026-11-20T20:15:00+00:00",
     "input": {"path", "bytes", "sha256"},                 null bytes and hash for stdin
     "bundle": {"folder", "name", "manifest_sha256", "thresholds": {...},
                "errors": [...]},                          `ErrorRates` on labelled answers
     "backend": {"name", "precision"},
     "settings": {...},                                    `RunSettings.to_dict()`
     "block_characters": 24576,                            see `evaluate_blocks`
     "changed": [...],                                     inputs that changed before a resume
     "progress": {"rows", "blocks", "bytes"},              rows of the input, bytes of the output
     "counts": {...},                                      `RunTally.to_dict()`
     "finished": true}

The output up to ``progress.bytes`` is complete; the rest is written again. The record is replaced
after the output was synced to the disk, so it never claims more than there is.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trivet.errors import DataError
from trivet.report.run_tally import RunTally

SCHEMA = 3
_WAY_OUT = "start over with --restart"


@dataclass(frozen=True)
class Progress:
    """Rows of the input so far (of all shards), their blocks, and bytes of the output."""

    rows: int = 0
    blocks: int = 0
    bytes: int = 0


@dataclass
class RunRecord:
    """The record of a run; see the top of this file for the fields."""

    trivet: str
    started: str
    input: dict[str, Any]
    bundle: dict[str, Any]
    backend: dict[str, Any]
    settings: dict[str, Any]
    block_characters: int
    changed: list[str] = field(default_factory=list)
    progress: Progress = field(default_factory=Progress)
    counts: RunTally = field(default_factory=RunTally)
    finished: bool = False

    def changes(self, other: RunRecord) -> list[str]:
        """Return the differences to another run that may change verdicts, with both values."""
        ours, theirs = self._fingerprint(), other._fingerprint()
        changes = [
            f"{name} was {ours.get(name)}, is {value}"
            for name, value in theirs.items()
            if ours.get(name) != value
        ]
        before, now = self.input, other.input
        if before["sha256"] is None and now["sha256"] is None:
            changes.append("input is stdin, which may have changed")
        elif before["sha256"] != now["sha256"]:
            sizes = f"{before['bytes']} bytes then, {now['bytes']} now; None is stdin"
            changes.insert(0, f"the log is not that of the run ({sizes})")
        return changes

    def to_dict(self) -> dict[str, Any]:
        """Return the record as it is written."""
        record = {"schema_version": SCHEMA} | vars(self)
        return record | {"progress": asdict(self.progress), "counts": self.counts.to_dict()}

    def _fingerprint(self) -> dict[str, Any]:
        return {
            "trivet": self.trivet,
            "the bundle (by the SHA-256 of its manifest)": self.bundle["manifest_sha256"][:12],
            "--backend": self.backend["name"],
            "--precision": self.backend["precision"],
            "characters of a block": self.block_characters,
            **{_option(name): value for name, value in self.settings.items()},
        }


def _option(name: str) -> str:
    """Return the option that a setting is given with."""
    return "--map" if name == "mapping" else f"--{name.replace('_', '-')}"


def record_path(out: Path) -> Path:
    """Return the path of an output's record."""
    return out.with_name(f"{out.name}.run.json")


def read_record(out: Path) -> RunRecord | None:
    """Read the record of an output; ``None`` without one, ``DataError`` if it is damaged."""
    path = record_path(out)
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error}); {_WAY_OUT}") from error
    try:
        if record.pop("schema_version") != SCHEMA:
            raise DataError(f"{path}: its schema is not {SCHEMA}; {_WAY_OUT}")
        progress = Progress(**record.pop("progress"))
        counts = RunTally.from_dict(record.pop("counts"))
        return RunRecord(**record, progress=progress, counts=counts)
    except DataError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{path}: not a record of a run ({error!r}); {_WAY_OUT}") from error
