"""Flags, tables and the description of the machine, shared by all benchmarks."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.timing import ALLOCATOR, Race
from trivet.backends.backend import cores
from trivet.bundle.hub import EMBEDDED_BUNDLE

_LIBRARIES = ("numpy", "onnxruntime", "openvino", "tokenizers", "torch", "transformers")
# Instructions that decide the speed of 8- and 16-bit matmuls.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")


class Table(NamedTuple):
    """One table of a benchmark, printed as Markdown and written as JSON.

    Attributes:
        title: Line above the table; may be empty.
        header: Names of the columns.
        rows: Texts and numbers.
    """

    title: str
    header: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def to_markdown(self) -> str:
        """Return the table in GitHub's Markdown."""
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        text = "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
        return f"{self.title}\n\n{text}" if self.title else text


def parser(doc: str | None, repeats: int, *, bundle: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the flags that all benchmarks share."""
    flags = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    if bundle:
        flags.add_argument("--bundle", type=Path, default=EMBEDDED_BUNDLE)
    flags.add_argument("--threads", type=int, default=cores(), help="threads of every backend")
    flags.add_argument("--repeats", type=int, default=repeats)
    flags.add_argument("--json", type=Path, default=None, help="also write the tables to this file")
    return flags


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return ``median (least to most)``."""
    median = statistics.median(values)
    return f"{median:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def skipped(outcome: Race) -> Table | None:
    """Return the contenders that did not run and why; ``None`` where all ran."""
    if not outcome.skipped:
        return None
    return Table("Not run:", ("what", "why"), list(outcome.skipped.items()))


def publish(name: str, tables: Sequence[Table | None], options: argparse.Namespace) -> None:
    """Print the tables and the machine; write them to ``--json``."""
    shown = [table for table in tables if table is not None and table.rows]
    about = machine() | {"threads": options.threads, "repeats": options.repeats}
    if options.json:
        written = [
            {"title": t.title, "rows": [dict(zip(t.header, row, strict=True)) for row in t.rows]}
            for t in shown
        ]
        report = {"benchmark": name} | about | {"tables": written}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    for table in shown:
        print(f"{table.to_markdown()}\n")
    allocator = " ".join(f"{key}={value}" for key, value in ALLOCATOR.items())
    versions = ", ".join(f"{key} {value}" for key, value in about["versions"].items())
    print(
        f"{about['date']}; {about['processor']} with {', '.join(about['instructions'])}, "
        f"{about['cores']} cores, {about['memory_gb']} GB, load {about['load']} at the end; "
        f"{options.threads} threads, {options.repeats} rounds; {allocator}; "
        f"Python {about['python']}, {versions}"
    )


def machine() -> dict[str, Any]:
    """Return date, processor, memory, load and library versions."""
    processor, flags = platform.processor() or platform.machine(), ""
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        lines = listing.read_text(encoding="utf-8").splitlines()
        told = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
        processor, flags = told.get("model name", processor), told.get("flags", "")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.date.today().isoformat(),
        "processor": processor,
        "instructions": [name for name in _INSTRUCTIONS if name in flags.split()],
        "cores": cores(),
        "memory_gb": round(pages / 2**30),
        "load": round(os.getloadavg()[0], 1),
        "allocator": ALLOCATOR,
        "python": platform.python_version(),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions
