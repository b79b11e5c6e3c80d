"""Prepared rows in an Arrow file, which ranks and runs share instead of tokenizing anew.

A file is named by the hash of all that its rows depend on: texts and labels, tokenizer, window
settings and the code that prepares, not how often they are drawn. A memory map reads the rows.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, astuple, fields, is_dataclass, replace
from functools import cached_property, lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from filelock import FileLock
from safetensors.numpy import load, save

import trivet.data
from trivet.data.sentence_features import NO_CONTEXTS
from trivet.data.tokenization import SegmentTokenizer, TokenizedExample
from trivet.data.windows import Layout, WindowSettings
from trivet.labelled.datamodule import Item, prepare
from trivet.labelled.labels import Targets
from trivet.labelled.similarity import Retriever
from trivet.records import LabelledExample

AnyArray = npt.NDArray[Any]
logger = logging.getLogger(__name__)

_BLOCK = 256  # rows prepared and written at once
_SCHEMA = pa.schema([("row", pa.large_binary())])


class _Prepared(NamedTuple):
    """The parts of an ``Item`` that are stored; its texts and labels come from the source.

    Values are not stored: verdicts alone read them.
    """

    tokenized: TokenizedExample
    layout: Layout
    targets: Targets


_FROM_SOURCE = frozenset({"example", "values", "context_values"})


class PreparedRows(Sequence[Item]):
    """Items whose arrays are in an Arrow file; ``examples`` are those of its rows, in its order."""

    def __init__(self, examples: Sequence[LabelledExample], path: Path) -> None:
        self.examples = examples
        self._path = path

    def __len__(self) -> int:
        return len(self.examples)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        labelled = self.examples[index]
        arrays = load(self._rows[index].as_buffer().to_pybytes())
        stored = {"example": labelled.example, "values": (), "context_values": NO_CONTEXTS}
        row = _decode(_Prepared, arrays, stored)
        return Item(labelled, *row)

    @cached_property
    def _rows(self) -> pa.ChunkedArray:
        return _open(self._path)

    def __getstate__(self) -> dict[str, Any]:
        # Another process maps the file itself.
        return {"examples": self.examples, "_path": self._path}


def prepare_cached(
    examples: Sequence[LabelledExample],
    tokenizer: SegmentTokenizer,
    settings: WindowSettings,
    use_evidence: bool,
    folder: Path,
    workers: int = 0,
    retriever: Retriever | None = None,
) -> PreparedRows:
    """Return the rows as ``prepare`` makes them, from a file in ``folder`` that is made if needed.

    ``workers`` is the number of processes that prepare; 0 or 1: this one. The ``retriever`` gives
    cosines (``prepare``).

    One process writes the file; the others wait. A process that is killed leaves a ``.half`` file,
    which is never read, and which the next process overwrites.
    """
    key = _key(examples, tokenizer, settings, use_evidence, retriever)
    path = folder / f"{key}.arrow"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{key}.lock"):
        if _is_whole(path, len(examples)):
            logger.info("%d prepared rows from %s", len(examples), path)
        else:
            half = path.with_suffix(".half")
            with pa.OSFile(str(half), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as writer:
                make = partial(
                    _encode_block,
                    tokenizer=tokenizer,
                    settings=settings,
                    use_evidence=use_evidence,
                    retriever=retriever,
                )
                for blobs in _map_blocks(make, examples, workers):
                    writer.write_batch(
                        pa.record_batch([pa.array(blobs, pa.large_binary())], _SCHEMA)
                    )
            half.replace(path)
            logger.info("%d rows prepared and written to %s", len(examples), path)
    return PreparedRows(examples, path)


def _map_blocks(
    make: Callable[[Sequence[LabelledExample]], list[bytes]],
    examples: Sequence[LabelledExample],
    workers: int,
) -> Iterator[list[bytes]]:
    """Yield what ``make`` returns for each block of the examples, in order."""
    starts = range(0, len(examples), _BLOCK)
    blocks = [examples[first : first + _BLOCK] for first in starts]
    if workers < 2 or len(blocks) < 2:
        yield from map(make, blocks)
        return
    # Spawned: a fork of a process with threads may hang.
    with ProcessPoolExecutor(min(workers, len(blocks)), get_context("spawn")) as pool:
        yield from pool.map(make, blocks)


def _encode_block(
    examples: Sequence[LabelledExample],
    tokenizer: SegmentTokenizer,
    settings: WindowSettings,
    use_evidence: bool,
    retriever: Retriever | None,
) -> list[bytes]:
    items = prepare(examples, tokenizer, settings, use_evidence, retriever)
    rows = (_flatten("", _Prepared(item.tokenized, item.layout, item.targets)) for item in items)
    return [save({name: _smallest(array) for name, array in row.items()}) for row in rows]


def _open(path: Path) -> pa.ChunkedArray:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all().column("row")


def _is_whole(path: Path, rows: int) -> bool:
    try:
        return len(_open(path)) == rows
    except FileNotFoundError:
        return False
    except (OSError, pa.ArrowInvalid) as error:
        logger.warning("%s cannot be read (%s); its rows are prepared anew", path, error)
        return False


def _key(
    examples: Iterable[LabelledExample],
    tokenizer: SegmentTokenizer,
    settings: WindowSettings,
    use_evidence: bool,
    retriever: Retriever | None,
) -> str:
    digest = hashlib.sha256(_code().encode())
    cosines = None if retriever is None else retriever.fingerprint()
    digest.update(json.dumps([asdict(settings), use_evidence, cosines]).encode())
    digest.update(tokenizer.to_json().encode())
    for example in examples:
        digest.update(repr(replace(example, draws=1.0)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


@lru_cache
def _code() -> str:
    """Return the hash of the code that prepares rows: another version makes other files."""
    folders = Path(trivet.data.__file__).parent, Path(__file__).parent
    files = [file for folder in folders for file in folder.glob("*.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()


def _smallest(array: AnyArray) -> AnyArray:
    """Return integers in the smallest type that holds them; ``_decode`` widens them again."""
    if array.dtype.kind != "i" or not array.size:
        return array.copy(order="C")
    limits = (np.min_scalar_type(limit) for limit in (array.min(), array.max()))
    return array.astype(np.result_type(*limits), order="C")


def _flatten(name: str, value: Any) -> dict[str, AnyArray]:
    """Return the arrays of a value by dotted names; ragged ones are joined, with their lengths."""
    if is_dataclass(value):
        names = [field.name for field in fields(value) if field.name not in _FROM_SOURCE]
    elif hasattr(value, "_fields"):
        names = value._fields
    elif not isinstance(value, tuple):
        return {name: np.asarray(value)}
    elif value and isinstance(value[0], str):
        return {name: np.frombuffer("\n".join(value).encode(), dtype=np.uint8)}
    elif value and isinstance(value[0], np.ndarray):
        lengths = np.asarray([len(array) for array in value])
        return {name: np.concatenate(value), f"{name}.lengths": lengths}
    else:
        return {name: np.asarray([astuple(item) for item in value], dtype=np.int64)}
    parts = (_flatten(f"{name}.{field}", getattr(value, field)) for field in names)
    return {key: array for part in parts for key, array in part.items()}


def _decode(kind: Any, arrays: dict[str, AnyArray], known: dict[str, Any], name: str = "") -> Any:
    """Return the value of a type from its arrays, with ``known`` parts; reverses ``_flatten``."""
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        parts = {
            part: known[part] if part in known else _decode(hint, arrays, known, f"{name}.{part}")
            for part, hint in _hints(kind).items()
        }
        return kind(**parts)
    array = arrays[name]
    if array.dtype.kind in "iu":
        array = array.astype(np.int64)
    if kind is int:
        return int(array)
    if get_origin(kind) is not tuple:
        return array
    part: Any = get_args(kind)[0]
    if get_origin(part) is Literal:
        return tuple(array.astype(np.uint8).tobytes().decode().split("\n")) if array.size else ()
    if is_dataclass(part):
        return tuple(part(*row) for row in array.tolist())  # type: ignore[operator]
    if (lengths := arrays.get(f"{name}.lengths")) is None:
        return ()
    return tuple(np.split(array, np.cumsum(lengths.astype(np.int64))[:-1]))


_hints = lru_cache(get_type_hints)
