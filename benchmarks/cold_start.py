"""Seconds and memory from the start of a process to its first verdict.

python -m benchmarks.cold_start [--bundle DIR] [--backend onnx]

Each run is a new Python process that imports the package, loads the bundle and evaluates one short
example. The first run, before the file cache is warm, is reported apart. glibc's allocator keeps
its defaults.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Table, parser, publish, spread

# Runs in the new process, which may import nothing before the clock starts.
CHILD = """
import time
started = time.perf_counter()
import sys
import trivet
Evaluator = trivet.Evaluator
imported = time.perf_counter()
evaluator = Evaluator(sys.argv[1], threads=int(sys.argv[2]), backend=sys.argv[3])
loaded = time.perf_counter()
verdict = evaluator.evaluate(
    "When was the bridge built?",
    ["The stone bridge over the river was built in 1884."],
    "It was built in 1894.",
)
evaluated = time.perf_counter()
import json, resource
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "import": imported - started,
    "load": loaded - imported,
    "first_verdict": evaluated - loaded,
    "peak_mb": peak * (1 if sys.platform == "darwin" else 1024) / 1e6,
    "torch": "torch" in sys.modules,
}))
"""
MEASURES = {
    "process": "process start to end, s",
    "import": "import, s",
    "load": "load the bundle, s",
    "first_verdict": "first verdict, s",
    "peak_mb": "peak memory, MB",
}


def start_once(bundle: Path, threads: int, backend: str) -> dict[str, Any]:
    """Start one process and return its measurements."""
    command = [sys.executable, "-c", CHILD, str(bundle.resolve()), str(threads), backend]
    started = time.perf_counter()
    child = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - started
    measured: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return {"process": seconds} | measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Start processes one after the other and print their measurements."""
    flags = parser(__doc__, repeats=5)
    flags.add_argument("--backend", choices=["onnx", "openvino"], default="onnx")
    options = flags.parse_args(arguments)
    if options.repeats < 1:
        flags.error(f"--repeats ({options.repeats}) must be at least 1")
    first, *rest = [
        start_once(options.bundle, options.threads, options.backend)
        for _ in range(options.repeats + 1)
    ]
    rows = [
        (label, f"{first[name]:.2f}", spread([run[name] for run in rest], 2))
        for name, label in MEASURES.items()
    ]
    loaded = ["yes" if run["torch"] else "no" for run in (first, rest[-1])]
    rows.append(("torch was loaded", loaded[0], loaded[1]))
    header = ("", "first run", "the rest, median (least to most)")
    publish("cold_start", [Table(f"{options.backend}:", header, rows)], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
