"""Predictions of a peer in a file: a header, then one JSON line a score, in any order.

::

    {"peer", "about", "model", "rows": DIGEST, "trivet", "started", "fingerprint": {...}}
    {"row": 1, "repeat": 0, "id": "q1", ...}                the fields of `PeerScore`

A fingerprint holds digests of what the scores depend on, found without loading the peer; finished
predictions are only taken again under the fingerprint that they were made with.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter

import trivet
from trivet.bundle.hub import EMBEDDED_BUNDLE
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.errors import DataError, ExampleError
from trivet.logs.log import Log
from trivet.peers.peer import PEERS, Peer, PeerScore, PeerSetup
from trivet.records import LabelledExample, to_json_text

_SCORE = TypeAdapter(PeerScore)
_NAMED = 5  # ids in a refusal


@dataclass(frozen=True)
class Header:
    """First line of a file of predictions: the peer, and the digest of its rows.

    Attributes:
        peer: Name of the peer.
        about: Line about the loaded peer.
        model: Model of an LLM peer.
        rows: Digest of the rows.
        trivet: Version of the package.
        started: Time of the first score.
        fingerprint: Digests that are known without loading the peer.
    """

    peer: str
    about: str
    model: str
    rows: str
    trivet: str
    started: str
    fingerprint: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, peer: Peer, rows: str, fingerprint: Mapping[str, str]) -> Header:
        """Return the header of a run that starts now."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        version = trivet.__version__
        return cls(name, peer.about, peer.model, rows, version, now, fingerprint)

    def changes(self, now: Mapping[str, str]) -> list[str]:
        """Return the differences to the values of the same names, with both values."""
        before = {**vars(self), **self.fingerprint}
        return [
            f"{name} was {before[name]!r}, is {value!r}"
            for name, value in now.items()
            if before.get(name, value) != value
        ]


@dataclass(frozen=True)
class Predictions:
    """Scores of one peer on all rows, of each repeat. *Shape:* [repeats][rows]."""

    header: Header
    repeats: Sequence[Sequence[PeerScore]]


def digest_rows(rows: Sequence[LabelledExample]) -> str:
    """Return a digest of texts, ids and order of rows; labels may change."""
    total = hashlib.sha256()
    for row in rows:
        one = row.example
        text = json.dumps([one.id, one.question, one.contexts, one.response])
        total.update(text.encode() + b"\n")
    return total.hexdigest()[:16]


def to_line(record: Any, **place: Any) -> bytes:
    """Return a header or a score as a line, after the names of its place."""
    return to_json_text({**place, **dataclasses.asdict(record)}).encode() + b"\n"


@dataclass(frozen=True)
class PredictionFile:
    """A file of predictions.

    Attributes:
        path: Its path.
        size: Bytes of its whole lines.
        header: Its first line.
        scores: Scores by place of the row and repeat, both from 0.
    """

    path: Path
    size: int
    header: Header
    scores: Mapping[tuple[int, int], PeerScore]


def read_files(paths: Iterable[Path]) -> list[PredictionFile]:
    """Read the whole lines of files, but for those without any; ``DataError`` if one is damaged."""
    files = []
    for path in paths:
        # The other run may have ended without a score.
        content = path.read_bytes() if path.exists() else b""
        content = content[: content.rfind(b"\n") + 1]
        header, scores = None, {}
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                record = json.loads(line)
                if header is None:
                    header = Header(**record)
                    continue
                place = record["row"] - 1, record["repeat"]
                scores[place] = _SCORE.validate_python({n: record.get(n) for n in _FIELDS})
            except (ValueError, TypeError, KeyError) as error:
                raise DataError(f"{path} line {number}: not a prediction ({error})") from error
        if header:
            files.append(PredictionFile(path, len(content), header, scores))
    return files


def read_predictions(
    paths: Sequence[Path], rows: Sequence[LabelledExample], repeats: int
) -> Predictions:
    """Return the predictions in the files of a peer, in the order of the rows.

    Raises:
        DataError: They are of other rows or not complete, or a file is damaged.
    """
    files, names = read_files(paths), ", ".join(map(str, paths))
    if any(file.header.rows != digest_rows(rows) for file in files):
        raise DataError(f"{names}: has predictions for other rows than the given {len(rows)}")
    scores = {place: score for file in files for place, score in file.scores.items()}
    places = [[(row, repeat) for row in range(len(rows))] for repeat in range(repeats)]
    if missing := sum(place not in scores for each in places for place in each):
        raise DataError(f"{names}: lacks {missing} of {repeats * len(rows)} predictions")
    return Predictions(files[0].header, [[scores[place] for place in each] for each in places])


_FIELDS = tuple(field.name for field in dataclasses.fields(PeerScore))


def read_foreign(name: str, where: str, rows: Sequence[LabelledExample]) -> Predictions:
    """Read predictions of another tool: rows with ``id`` and a score.

    Args:
        name: Name of the peer.
        where: ``FILE:COLUMN``; the column has faithfulness in [0, 1], or, after a minus
            (``FILE:-COLUMN``), the probability of a hallucination. ``null`` or NaN is a failure.
        rows: Rows to be compared; further rows of the file are ignored.

    Raises:
        DataError: ``rows`` have no ids or one twice, the file cannot be read, misses rows or holds
            one twice, or a score is not in [0, 1].
    """
    file, _, column = where.rpartition(":")
    if not file or not column.strip("-"):
        raise DataError(f"predictions {name}={where}: must be NAME=FILE:COLUMN")
    ids = _unique_ids(name, rows)
    found: dict[str, PeerScore] = {}
    log = Log(file)
    for row in log.rows():
        if isinstance(row.fields, ExampleError):
            raise DataError(f"{file} {row.place}: {row.fields}")
        values = dict(row.fields)
        missing = [each for each in ("id", column.lstrip("-")) if each not in values]
        if missing:
            has = ", ".join(map(str, values))
            raise DataError(f"{file} {row.place}: has no {' and no '.join(missing)}, but {has}")
        key = str(values["id"])
        if key in found:
            raise DataError(f"{file} {row.place}: id {key} occurs twice")
        found[key] = _foreign_score(values, column, f"{file} {row.place}")
    if lost := [each for each in ids if each not in found]:
        raise DataError(
            f"{file}: misses {len(lost)} of {len(ids)} rows, with the ids {_some(lost)}"
        )
    sha = log.sha256() or ""
    header = Header(name, f"{Path(file).name}:{column}, {sha[:12]}", "", digest_rows(rows), "", "")
    return Predictions(header, [[found[each] for each in ids]])


def _unique_ids(name: str, rows: Sequence[LabelledExample]) -> list[str]:
    """Return the ids of rows, or raise a ``DataError`` where they do not tell all rows apart."""
    bare = [f"row {n}" for n, row in enumerate(rows, start=1) if row.example.id is None]
    ids = [str(row.example.id) for row in rows if row.example.id is not None]
    twice = {each: count for each, count in Counter(ids).items() if count > 1}
    if bare or twice:
        wrong = [f"{len(bare)} of {len(rows)} have no id ({_some(bare)})"] if bare else []
        shared = sum(twice.values())
        wrong += [f"{shared} of {len(rows)} share theirs ({_some(list(twice))})"] if twice else []
        raise DataError(
            f"predictions {name}: scores are given to ROWS by id, but {' and '.join(wrong)}; give "
            "each row an id of its own"
        )
    return ids


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def _foreign_score(values: Mapping[str, Any], column: str, place: str) -> PeerScore:
    value = values[column.lstrip("-")]
    try:
        # Tools such as RAGAS write NaN, the only value that differs from itself, for a failure.
        if value is None or value == "" or value != value:
            return PeerScore(None, failed="missing")
        return PeerScore(1 - float(value) if column.startswith("-") else float(value))
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: {column} is {value!r}, not a number in [0, 1]") from error


_ASKING = "llm_claims", "llm_ratings"  # modules of peers that ask an LLM
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
