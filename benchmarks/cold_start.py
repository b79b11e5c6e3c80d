"""Cold start: seconds from a fresh process to the first verdict, and the memory it takes.

    python benchmarks/cold_start.py --bundle FOLDER --json cold_start.json

Each run is a new Python process that imports the package, loads the bundle (every file is checked
and the self-test runs) and judges one short example. The operating system's file cache is warm from
the second run on; the first run is reported apart.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Runs in the fresh process: nothing may be imported there before the clock starts.
CHILD = """
import time
started = time.perf_counter()
import sys
import trivet
Evaluator = trivet.Evaluator
imported = time.perf_counter()
evaluator = Evaluator(sys.argv[1] or None, threads=int(sys.argv[2]) or None)
loaded = time.perf_counter()
verdict = evaluator.evaluate(
    "When was the bridge built?",
    ["The stone bridge over the river was built in 1884."],
    "It was built in 1894.",
)
judged = time.perf_counter()
import json, resource
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "import_seconds": imported - started,
    "load_seconds": loaded - imported,
    "first_verdict_seconds": judged - loaded,
    "peak_memory_mb": peak * (1 if sys.platform == "darwin" else 1024) / 1e6,
    "torch_loaded": "torch" in sys.modules,
}))
"""
MEASURES = {
    "process_seconds": "process start to end, s",
    "import_seconds": "import, s",
    "load_seconds": "load the bundle, s",
    "first_verdict_seconds": "first verdict, s",
    "peak_memory_mb": "peak memory, MB",
}


def start_once(bundle: Path | None, threads: int) -> dict[str, Any]:
    """Start one process and return what it measured."""
    command = [sys.executable, "-c", CHILD, str(bundle or ""), str(threads)]
    started = time.perf_counter()
    child = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - started
    measured: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return {"process_seconds": seconds} | measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bundle", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: one a core")
    parser.add_argument("--json", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    bundle = chosen.bundle.resolve() if chosen.bundle else None
    first, *rest = [start_once(bundle, chosen.threads) for _ in range(chosen.repeats + 1)]
    if not rest:
        parser.error(f"--repeats ({chosen.repeats}) must be at least 1")
    medians = {name: statistics.median(run[name] for run in rest) for name in MEASURES}
    report = {
        "benchmark": "cold_start",
        "date": datetime.date.today().isoformat(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "repeats": chosen.repeats,
        "first": first,
        "median": medians,
        "torch_loaded": first["torch_loaded"],
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print("| | first run | median of the rest |\n|---|---|---|")
    for name, label in MEASURES.items():
        print(f"| {label} | {first[name]:.2f} | {medians[name]:.2f} |")
    print(f"\n{report['date']}, {report['cores']} cores, {chosen.repeats} runs after the first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
