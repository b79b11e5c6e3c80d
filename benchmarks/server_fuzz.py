"""Valid and invalid requests made from the server's OpenAPI document; none may be answered 500.

python -m venv fuzz && fuzz/bin/pip install schemathesis
python -m benchmarks.server_fuzz --schemathesis fuzz/bin/schemathesis [--examples 1000]

Schemathesis gets an environment of its own for its many dependencies. It sends up to ``--examples``
requests to each operation and checks statuses and schemas of the answers.
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
# 503 and 504 are the right answers to more load than the server can take.
SETTINGS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", "503", "504"]
"""
_COUNT = re.compile(r'^trivet_requests_total\{code="(\d+)",route="([^"]*)"\} (\S+)$', re.MULTILINE)


def counts(port: int) -> Counter[str]:
    """Return the number of answers by status."""
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics") as page:
        found = _COUNT.findall(page.read().decode())
    total: Counter[str] = Counter()
    for status, _, number in found:
        total[status] += int(float(number))
    return total


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz a server; return Schemathesis's exit code, or 1 after an answer 500."""
    flags = server_parser(__doc__, repeats=1)
    flags.add_argument("--schemathesis", type=Path, required=True, help="path of its command")
    flags.add_argument("--examples", type=int, default=1000, help="requests to each operation")
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
