"""The command line: one thin function a command. The only place that prints.

Results go to stdout or to files, progress and errors to stderr. Exit codes: 0 fine, 1 some rows
could not be judged, 2 usage or input error, 3 bundle refused, 4 no clean separation found.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

import trivet
from trivet.calibration import options as calibration_options
from trivet.records import (
    BundleError,
    ConfigError,
    DataError,
    DivergedError,
    EngineError,
    ExampleError,
    WindowError,
)

SOME_FAILED, USAGE, REFUSED, NO_SEPARATION = 1, 2, 3, 4

app = typer.Typer(
    name="trivet",
    help="Judge RAG answers: faithfulness, relevance, utilization, completeness.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

BundleOption = Annotated[
    Path | None, typer.Option(help="Folder of a bundle; the one in the package if not given.")
]
ThreadsOption = Annotated[
    int | None, typer.Option(min=1, help="Threads of the engine; one a core if not given.")
]
Precision = Literal["int8", "fp32", "bf16", "fp16"]
PrecisionOption = Annotated[
    Precision | None, typer.Option(help="Which graph; the fastest if not given.")
]
EngineName = Literal["onnx", "tensorrt"]
EngineOption = Annotated[
    EngineName, typer.Option(help="tensorrt: the engine that `trivet export` built here.")
]


def main() -> None:
    """Run the command line; turn the errors that users cause into one line and an exit code."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
    try:
        app()
    except BundleError as error:
        _fail(error, REFUSED)
    except (ConfigError, DataError, ExampleError, WindowError, EngineError, OSError) as error:
        _fail(error, USAGE)  # an OSError is a full disk or a closed pipe
    except DivergedError as error:
        _fail(error, SOME_FAILED)


def _fail(error: Exception | str, code: int) -> NoReturn:
    print(f"trivet: {error}", file=sys.stderr)
    sys.exit(code)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"trivet {trivet.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")] = False,
) -> None:
    if verbose:
        logging.getLogger("trivet").setLevel(logging.INFO)


@app.command()
def evaluate(
    file: Annotated[
        str | None,
        typer.Argument(help="JSONL, plain, .gz, .xz or .zst; - reads stdin.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the verdicts go; stdout if not given.")
    ] = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", help="OURS=THEIRS, for other field names.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="Judge one answer: the question.")] = None,
    context: Annotated[list[str] | None, typer.Option(help="... a passage; repeat it.")] = None,
    response: Annotated[str | None, typer.Option(help="... and the answer.")] = None,
    allow_empty_contexts: Annotated[
        bool, typer.Option(help="Judge answers without passages against nothing.")
    ] = False,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    engine: EngineOption = "onnx",
) -> None:
    """Judge a file of answers, or one answer given as calibration_options.

    A file becomes one JSON object a line, in order. One answer is printed for a person, or written
    as JSON with --out.
    """
    one = question is not None or context is not None or response is not None
    if one == (file is not None):
        raise typer.BadParameter("give a FILE (or -), or --question, --context and --response")
    if out is not None and file not in (None, "-") and out.resolve() == Path(str(file)).resolve():
        raise typer.BadParameter(f"--out {out} would overwrite the input")
    names = _parse_mapping(mapping or [])
    from trivet.serve import console, files, terminal
    from trivet.serve.evaluator import Evaluator

    evaluator = Evaluator(bundle, threads, precision=precision, engine=engine)
    if file is not None:
        counts = files.evaluate_file(evaluator, file, out, names, allow_empty_contexts)
        print(f"{counts.judged} judged, {counts.failed} failed", file=sys.stderr)
        if counts.failed:
            raise typer.Exit(SOME_FAILED)
        return
    contexts, answer = context or [], response or ""
    verdict = evaluator.evaluate(
        question or "", contexts, answer, allow_empty_contexts=allow_empty_contexts
    )
    if out is None:
        console.show(terminal.render_verdict(answer, contexts, verdict))
        return
    with console.output(out) as sink:
        sink.write(files.to_line(verdict))


@app.command()
def test(
    data: Annotated[
        str, typer.Option(help="ragbench:, ragtruth:, halubench: or jsonl:, and where it is.")
    ],
    split: Annotated[str, typer.Option(help="all, fit, dev, or the publisher's name.")] = "all",
    by_length: Annotated[
        bool, typer.Option(help="Also within 0-5k, 5k-16k and over 16k tokens.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure here too.")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write the table here too.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write a page with tables and curves here.")
    ] = None,
    into_card: Annotated[
        bool, typer.Option(help="Write the main figures into the bundle and its card.")
    ] = False,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
    engine: EngineOption = "onnx",
) -> None:
    """Measure a bundle on labelled data; every figure with its interval."""
    with _extra("train"):
        from trivet import measured_bundle
        from trivet.measures.figures import to_markdown
        from trivet.model.scores import keep_scores
        from trivet.serve.evaluator import Evaluator

        measured_bundle.check_files(json_file, markdown_file, html_file)
        evaluator = Evaluator(bundle, threads, precision=precision, engine=engine)
        found = measured_bundle.measure_bundle(evaluator, data, split, by_length)
    print(to_markdown(found.figures))
    print(f"{len(found.rows) - found.failed} judged, {found.failed} failed", file=sys.stderr)
    measured_bundle.write_measures(found, json_file, markdown_file, html_file)
    if into_card:
        keep_scores(
            evaluator.bundle,
            found.figures,
            split=split,
            command=_command(),
            precision=evaluator.precision,
        )
    if found.failed:
        raise typer.Exit(SOME_FAILED)


@app.command()
def train(
    configs_and_overrides: Annotated[
        list[str],
        typer.Argument(metavar="CONFIG.yaml... [KEY=VALUE]...", help="Later ones win."),
    ],
    resume: Annotated[bool, typer.Option(help="Go on from the last checkpoint.")] = False,
) -> None:
    """Train a model, write its bundle and print where it is."""
    configs = [Path(word) for word in configs_and_overrides if "=" not in word]
    overrides = [word for word in configs_and_overrides if "=" in word]
    with _extra("train"):
        from trivet.configs.schema import load_config
        from trivet.train import train as run_training
    config = load_config(configs, overrides)
    if not sys.stderr.isatty():  # where no bar is drawn, lines say how far the run is
        logging.getLogger("trivet").setLevel(logging.INFO)
    bundle = run_training(config, resume=resume, command=_command())
    if os.environ.get("LOCAL_RANK", "0") == "0":  # the other devices of a run are silent
        print(bundle)


@app.command()
def ablate(
    grid_and_overrides: Annotated[
        list[str],
        typer.Argument(metavar="GRID.yaml [KEY=VALUE]...", help="A grid file, and its changes."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs; runs/ablations/GRID if not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 1,
    table_only: Annotated[bool, typer.Option(help="Train nothing; compare what is there.")] = False,
    replace_changed: Annotated[
        bool, typer.Option(help="Run anew what was begun with another configuration.")
    ] = False,
) -> None:
    """Train every cell of a grid with every seed; compare them in one table.

    Finished runs are skipped, broken-off ones go on. The table (Markdown, JSON and a page) stands
    in the folder of the runs.
    """
    grids = [Path(word) for word in grid_and_overrides if "=" not in word]
    overrides = [word for word in grid_and_overrides if "=" in word]
    if len(grids) != 1:
        raise typer.BadParameter("give one grid file, and KEY=VALUE for what is to be different")
    with _extra("train"):
        from trivet.ablate import ablate as run_grid
        from trivet.ablation.grid import read_grid
        from trivet.ablation.page import write_table
        from trivet.ablation.table import tabulate
    grid = read_grid(grids[0], out, overrides)
    logging.getLogger("trivet").setLevel(logging.INFO)
    failures = [] if table_only else run_grid(grid, jobs, replace_changed, _command())
    table = tabulate(grid, _command())
    print(write_table(table, grid.folder))
    for failure in failures:
        print(f"{failure.run.name} failed: {failure.reason}", file=sys.stderr)
    if failures:
        raise typer.Exit(SOME_FAILED)


@app.command()
def calibrate(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle with weights.")],
    data: Annotated[list[str], typer.Option(help="Labelled rows no weight was trained on.")],
    split: Annotated[str, typer.Option(help="Their split.")] = "dev",
    method: calibration_options.Method = "platt",
    heads: calibration_options.Heads = None,
    support_level: calibration_options.SupportLevel = "sentence",
    weigh: calibration_options.Weigh = "example",
    only: calibration_options.Only = None,
    use: calibration_options.Use = "best-f1",
    precision_at_least: calibration_options.PrecisionAtLeast = None,
    thresholds_from: calibration_options.ThresholdsFrom = None,
    report: calibration_options.Report = None,
) -> None:
    """Fit a bundle's probabilities and thresholds on dev rows; export again afterwards.

    Where no threshold is justified the old one stays, and the exit code is 4.
    """
    with _extra("train"):
        from trivet.calibrate import Choices
        from trivet.calibrate import calibrate as fit_heads
        from trivet.calibration import report as calibration_report
    if report is not None:
        calibration_report.check_path(report)
    choices = Choices(
        method=method,
        heads=tuple(head.value for head in heads or ()),
        level=support_level,
        weighing=weigh,
        only=tuple(only or ()),
        thresholds_from=tuple(thresholds_from or ()),
        least_precision=precision_at_least,
    )
    found = fit_heads(bundle, data, split, choices)
    print("\n".join(calibration_report.lines(found.reports, found.uses)))
    if report is not None:
        print(calibration_report.write_report(report, found.info, found.reports, found.uses))
    if any(one.threshold is None for one in found.uses):
        raise typer.Exit(NO_SEPARATION)


@app.command()
def export(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle with weights.")],
    out: Annotated[
        Path | None, typer.Option(help="Write a serving bundle here; without it, add to BUNDLE.")
    ] = None,
    precision: Annotated[
        Precision | None,
        typer.Option(
            help="Write this graph alone; bf16 or fp16, for TensorRT, beside the others.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="tensorrt: build an engine for this machine's card as well.")
    ] = "onnx",
    data: Annotated[
        str | None, typer.Option(help="Rows whose verdicts the engine must not change.")
    ] = None,
    split: Annotated[str, typer.Option(help="Their split.")] = "dev",
    form: Annotated[
        Literal["portable", "attention"],
        typer.Option(help="attention: write model.attention.onnx as well, for TensorRT."),
    ] = "portable",
    threads: ThreadsOption = None,
) -> None:
    """Write a bundle's ONNX graphs, compared with its weights over a grid of shapes."""
    from trivet.model.bundle import WEIGHTS_NAME, read_bundle

    keep: tuple[Precision, ...] | None = (precision,) if precision else None
    if engine == "tensorrt" or precision in ("bf16", "fp16"):
        keep = ("fp32", "int8", precision or "bf16")  # an engine is compared with the first
    # On the machine of the card there may be no weights: the graphs were written elsewhere.
    if engine == "onnx" or read_bundle(bundle).has(WEIGHTS_NAME):
        with _extra("export"):
            from trivet.export import export_onnx
        report = export_onnx(bundle, out, keep=keep, form=form, threads=threads)
        for file, worst in report.worst.items():
            print(f"{file}: largest difference from the weights {worst:.2g}")
        bundle = out or bundle
    if engine == "tensorrt":
        from trivet.serve.engine_export import export_tensorrt

        rows = []
        if data is not None:
            with _extra("train"):
                from trivet.data.sources import load_source
            rows = [row.example for row in load_source(data, split)[0]]
        built = export_tensorrt(bundle, precision or "bf16", rows)
        print(f"engine for {built.target.gpu}: largest difference from fp32 {built.difference:.2g}")
    print(bundle)


@app.command()
def info(bundle: BundleOption = None) -> None:
    """Show what a bundle is, and how it scored. Checks its files, loads no engine."""
    from trivet.model.bundle import read_bundle
    from trivet.serve import console
    from trivet.serve.loading import DEFAULT_BUNDLE
    from trivet.serve.terminal import render_info

    found = read_bundle(bundle or DEFAULT_BUNDLE)
    console.show(render_info(found.info, str(found.folder)))


def _command() -> str:
    """Return what was typed, for whoever wants to type it again."""
    return shlex.join(["trivet", *sys.argv[1:]])


def _parse_mapping(pairs: list[str]) -> dict[str, str]:
    mapping = {}
    for pair in pairs:
        ours, separator, theirs = pair.partition("=")
        if not separator or not ours or not theirs:
            raise typer.BadParameter(f"--map {pair} must be OURS=THEIRS, such as question=prompt")
        mapping[ours] = theirs
    return mapping


@contextlib.contextmanager
def _extra(name: str) -> Iterator[None]:
    """Turn a missing library into the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "trivet").partition(".")[0] == "trivet":
            raise
        _fail(f"{error.name} is not installed; pip install 'trivet[{name}]'", USAGE)


if __name__ == "__main__":
    main()
