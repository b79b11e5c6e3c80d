"""The command line: one thin function a command. The only place that prints.

Results go to stdout or to files, progress and errors to stderr. Exit codes: 0 fine, 1 some rows
could not be judged, 2 usage or input error, 3 bundle refused.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

import trivet
from trivet.records import (
    BundleError,
    ConfigError,
    DataError,
    EngineError,
    ExampleError,
    WindowError,
)

SOME_FAILED, USAGE, REFUSED = 1, 2, 3

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
Precision = Literal["int8", "fp32"]
PrecisionOption = Annotated[
    Precision | None, typer.Option(help="Which graph; the fastest if not given.")
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
) -> None:
    """Judge a file of answers, or one answer given as options.

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

    evaluator = Evaluator(bundle, threads, precision=precision)
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
    data: Annotated[str, typer.Option(help="ragbench:DIR_OR_NAME, ragtruth:DIR or jsonl:FILE.")],
    split: Annotated[str, typer.Option(help="all, fit, dev, or the publisher's name.")] = "all",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every figure here too.")
    ] = None,
    into_card: Annotated[
        bool, typer.Option(help="Write the main figures into the bundle and its card.")
    ] = False,
    bundle: BundleOption = None,
    threads: ThreadsOption = None,
    precision: PrecisionOption = None,
) -> None:
    """Measure a bundle on labelled data; every figure with its interval."""
    from trivet.data.sources import load_source
    from trivet.metrics import Judged, measure, to_json, to_markdown
    from trivet.records import FailedEvaluation
    from trivet.serve import console
    from trivet.serve.evaluator import Evaluator

    if json_file is not None and not json_file.parent.is_dir():
        raise DataError(f"{json_file}: there is no folder {json_file.parent} to write it into")
    with _extra("train"):
        examples, report = load_source(data, split)
    if not examples:
        raise DataError(f"{data}: no row in split {split!r} is left to judge")
    evaluator = Evaluator(bundle, threads, precision=precision)
    rows = []
    with console.progress("test", total=len(examples)) as advance:
        results = evaluator.evaluate_many(example.example for example in examples)
        for example, result in zip(examples, results, strict=True):
            rows.append(Judged(example, result))
            advance()
    with _extra("train"):
        figures = measure(rows)
    print(to_markdown(figures))
    failed = sum(isinstance(row.evaluation, FailedEvaluation) for row in rows)
    print(f"{len(rows) - failed} judged, {failed} failed", file=sys.stderr)
    if json_file is not None:
        about = {"bundle": evaluator.bundle.info.name, "engine": evaluator.engine}
        text = to_json(figures, data=data, split=split, report=report.to_dict(), **about)
        with console.output(json_file) as sink:
            sink.write(text.encode() + b"\n")
    if into_card:
        from trivet.model.scores import keep_scores

        keep_scores(
            evaluator.bundle,
            figures,
            split=split,
            command=_command(),
            precision=evaluator.precision,
        )
    if failed:
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
    print(run_training(config, resume=resume, command=_command()))


@app.command()
def calibrate(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle with weights.")],
    data: Annotated[list[str], typer.Option(help="Labelled rows no weight was trained on.")],
    split: Annotated[str, typer.Option(help="Their split.")] = "dev",
) -> None:
    """Fit the context heads' probabilities on dev rows; export again afterwards."""
    with _extra("train"):
        from trivet.calibrate import calibrate as fit_heads
    for name, head in fit_heads(bundle, data, split).heads.items():
        print(f"{name}: scale {head.scale:.3f}, shift {head.shift:.3f}")


@app.command()
def export(
    bundle: Annotated[Path, typer.Argument(help="Folder of a bundle with weights.")],
    out: Annotated[
        Path | None, typer.Option(help="Write a serving bundle here; without it, add to BUNDLE.")
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option(help="Write this graph alone.", show_default=False)
    ] = None,
    threads: ThreadsOption = None,
) -> None:
    """Write a bundle's ONNX graphs, compared with its weights over a grid of shapes."""
    with _extra("export"):
        from trivet.export import export_onnx
    report = export_onnx(bundle, out, keep=(precision,) if precision else None, threads=threads)
    for file, worst in report.worst.items():
        print(f"{file}: largest difference from the weights {worst:.2g}")
    print(out or bundle)


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
