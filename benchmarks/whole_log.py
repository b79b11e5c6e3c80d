"""Speed of ``trivet evaluate`` on a whole log, against the bare backend calls.

python -m benchmarks.whole_log --data ragbench:DIR --data ragtruth:DIR [--rows 2000] [--bundle DIR]

The rows of the data, repeated up to ``--rows``, become a log with metadata. The bare runs make the
same backend calls: one in each worker at once, and one after the other with all threads.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.backends import BareBackend, recorded_calls
from benchmarks.report import Table, parser, publish, spread
from benchmarks.timing import Contender, Run, race, timed
from trivet.backends.opening import load_backend
from trivet.batch.run import ResumePolicy, evaluate_to_file, evaluate_to_stream
from trivet.batch.run_settings import RunSettings
from trivet.bundle.bundle import read_bundle
from trivet.evaluation.evaluator import Evaluator
from trivet.logs.log import Log

MANY, ONE, WHOLE = "backend calls at once", "backend calls, one by one", "trivet evaluate"


def bare(bundle: Path, threads: int, log: Path) -> Run:
    """Return a ``Run`` of the backend calls that evaluating a log makes."""
    backend = load_backend(read_bundle(bundle), threads, None, "onnx").backend
    evaluator = Evaluator(bundle, backend=backend)
    with recorded_calls(backend) as calls, Path(os.devnull).open("wb") as sink:
        evaluate_to_stream(evaluator, Log(str(log)), sink, RunSettings(), lambda tally: None)
    bare_backend = BareBackend(backend)

    def work(case: Any) -> None:
        bare_backend.run(calls)

    return timed(work)


def whole(bundle: Path, threads: int, log: Path) -> Run:
    """Return a ``Run`` that evaluates a log into a file in its folder."""
    evaluator = Evaluator(bundle, threads)

    def work(case: Any) -> None:
        out = log.with_name("verdicts.jsonl")
        evaluate_to_file(
            evaluator,
            Log(str(log)),
            out,
            RunSettings(),
            lambda tally: None,
            ResumePolicy(restart=True),
        )

    return timed(work)


def write_log(path: Path, sources: Sequence[str], split: str, rows: int) -> None:
    """Write the rows of labelled data as a log, repeated up to ``rows``."""
    from trivet.labelled.sources import load_source

    labelled = [row for source in sources for row in load_source(source, split)[0]]
    with path.open("w", encoding="utf-8") as file:
        for row in itertools.islice(itertools.cycle(labelled), rows):
            example = row.example
            record = {
                "question": example.question,
                "contexts": example.contexts,
                "response": example.response,
                "source": row.source,
                "generator": row.generator,
            }
            file.write(json.dumps(record) + "\n")


def main(arguments: Sequence[str]) -> None:
    """Time the three in turns and print them."""
    flags = parser(__doc__, repeats=3)
    flags.add_argument("--data", action="append", required=True, help="ragbench:, jsonl: ...")
    flags.add_argument("--split", default="dev")
    flags.add_argument("--rows", type=int, default=2000)
    options = flags.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        write_log(log, options.data, options.split, options.rows)
        both = (options.bundle, options.threads, log)
        contenders = [
            Contender(MANY, bare, both),
            Contender(WHOLE, whole, both),
            Contender(ONE, bare, (*both, 1)),
        ]
        # Each takes minutes, so the slower first call does not matter.
        outcome = race(contenders, options.repeats, warm_up=())
        tally = _counts(log)
    rows = []
    for name in (MANY, ONE, WHOLE):
        seconds = outcome.measured[name, None].seconds()
        speed = [tally["windows"] / value for value in seconds]
        rows.append((name, spread(seconds), spread(speed)))
    many, alone = (
        spread([100 / ratio for ratio in outcome.ratios(WHOLE, name)]) for name in (MANY, ONE)
    )
    title = (
        f"{tally['evaluated']} rows, {tally['failed']} failed, {tally['windows']} windows; of the "
        f"bare backend's windows a second: {many} % with calls at once, {alone} % one by one"
    )
    publish("whole_log", [Table(title, ("what", "seconds", "windows/s"), rows)], options)


def _counts(log: Path) -> Mapping[str, int]:
    record = json.loads(log.with_name("verdicts.jsonl.run.json").read_bytes())
    counts: Mapping[str, int] = record["counts"]
    return counts


if __name__ == "__main__":
    main(sys.argv[1:])
