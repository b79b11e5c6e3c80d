"""Requests made from the server's own description, valid and not: none may be answered 500.

python -m venv fuzz && fuzz/bin/pip install schemathesis
python -m benchmarks.server_fuzz --schemathesis fuzz/bin/schemathesis [--examples 1000]

Schemathesis has an environment of its own, because it brings half a hundred packages. It reads
``/openapi.json`` and asks each operation up to ``--examples`` things. It checks that no server
error but 503 and 504 comes, and that every answer is as its schema says. The server counts what it
answered.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Table, publish
from benchmarks.server_process import HOST, server_parser, serving

CHECKS = "not_a_server_error,response_schema_conformance,content_type_conformance"
# A server that is asked for more than it can do in the time says so.
SETTINGS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", "503", "504"]
"""
_COUNT = re.compile(r'^trivet_requests_total\{code="(\d+)",route="([^"]*)"\} (\S+)$', re.MULTILINE)


def counts(port: int) -> Counter[str]:
    """Return how many answers of each status the server has given."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics") as page:
        found = _COUNT.findall(page.read().decode())
    total: Counter[str] = Counter()
    for status, _, number in found:
        total[status] += int(float(number))
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz a server; the exit code is Schemathesis's, or 1 where it was answered 500."""
    flags = server_parser(__doc__, repeats=1)
    flags.add_argument("--schemathesis", type=Path, required=True, help="its command")
    flags.add_argument("--examples", type=int, default=1000, help="at most, of each operation")
    flags.add_argument("--seed", type=int, default=0)
    given = flags.parse_args(arguments)
    with serving(given) as server, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
        command = [str(given.schemathesis), "run", f"http://{HOST}:{server.port}/openapi.json"]
        command += ["--checks", CHECKS, "--max-examples", str(given.examples)]
        command += ["--phases", "examples,coverage,fuzzing", "--seed", str(given.seed)]
        command += ["--continue-on-failure", "--no-color", "--generation-database", "none"]
        code = subprocess.run(command, cwd=folder, check=False).returncode
        total = counts(server.port)
    rows = [(status, number) for status, number in sorted(total.items())]
    asked = sum(total.values())
    publish("server_fuzz", [Table(f"{asked} requests", ("status", "answers"), rows)], given)
    return code or int(total["500"] > 0)


if __name__ == "__main__":
    sys.exit(main())
