"""What the record beside a verdict file, ``OUT.run.json``, says to a reader of its report.

A report must not fail for a record that is missing, damaged or from another version: then it says
less.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUFFIX = ".run.json"
_DIGITS = 12  # of a hash, enough to tell two apart


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of the run that wrote a verdict file.

    Attributes:
        about: Names and values, for a table.
        remarks: What a reader must know before any figure.
        input: The log that was judged, as it stands in the record; ``None`` where it was stdin.
        mapping: Our field names to the log's.
        format: Of the log, where it was given.
        judge: What the verdicts depend on beside the rows: the bundle's manifest, the precision.
    """

    about: dict[str, str]
    remarks: tuple[str, ...]
    input: str | None = None
    mapping: Mapping[str, str] | None = None
    format: str | None = None
    judge: tuple[str, ...] = ()


def read_run_facts(verdicts: Path) -> RunFacts:
    """Read what stands beside a verdict file."""
    path = verdicts.with_name(f"{verdicts.name}{SUFFIX}")
    about = {"verdicts": verdicts.name}
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return RunFacts(about, (f"There is no {path.name}: what judged these rows is unknown.",))
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, Mapping):
        return RunFacts(about, (f"{path.name} cannot be read: what judged these rows is unknown.",))
    log, bundle, backend = (_part(record, name) for name in ("input", "bundle", "backend"))
    settings = _part(record, "settings")
    source = log.get("path")
    about |= {
        "input": "stdin" if source == "-" else Path(str(source or "unknown")).name,
        "bundle": f"{bundle.get('name')}, manifest {_digits(bundle.get('manifest_sha256'))}",
        "thresholds": _listed(_part(bundle, "thresholds")),
        "backend": ", ".join(str(value) for value in backend.values() if value is not None),
        "settings": _listed(settings) or "none given",
        "begun": f"{record.get('started')}, by trivet {record.get('trivet')}",
    }
    mapping = {str(ours): str(theirs) for ours, theirs in _part(settings, "mapping").items()}
    return RunFacts(
        about=about,
        remarks=tuple(_remarks(record)),
        input=source if isinstance(source, str) and source != "-" else None,
        mapping=mapping,
        format=settings["format"] if isinstance(settings.get("format"), str) else None,
        judge=(str(bundle.get("manifest_sha256")), str(backend.get("precision"))),
    )


def _remarks(record: Mapping[str, Any]) -> list[str]:
    found = []
    if record.get("finished") is not True:
        found.append("The run is not finished: every figure is of the rows judged so far.")
    changed = record.get("changed")
    if isinstance(changed, list) and changed:
        found.append(f"It went on although something changed: {'; '.join(map(str, changed))}.")
    return found


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    return part if isinstance(part, Mapping) else {}


def _listed(values: Mapping[str, Any]) -> str:
    """Write what was chosen; what was left to its default says nothing."""
    chosen = {name: value for name, value in values.items() if value not in (None, False, {}, [])}
    return ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {_plain(value)}"
        for name, value in chosen.items()
    )


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _digits(hashed: object) -> str:
    return str(hashed)[:_DIGITS]
