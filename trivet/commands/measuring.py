"""``trivet test`` and ``calibrate``: bundles on labelled rows."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.batch.run_settings import LogReading
from trivet.commands.options import (
    BackendOption,
    BundleArgument,
    DataOption,
    DeviceOption,
    LabelOption,
    Model,
    options,
)
from trivet.commands.shared import (
    NO_SEPARATION,
    SOME_FAILED,
    needs_extra,
    what_was_typed,
)
from trivet.settings import FALSE_ALARMS, Setting, SplitOption, ThresholdOption, check_rate
from trivet.thresholds.choices import Choices

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trivet.evaluation.measured_bundle import MeasuredBundle
    from trivet.labelled.plain_labels import PlainRows


_output = partial(Setting, panel="Output")
FalseAlarmsOption = Annotated[
    float | None,
    Setting(
        f"Share of the faithful answers that may be flagged; default: {FALSE_ALARMS}.",
        metavar="RATE",
        check=check_rate,
    ),
]
_FILE_OPTIONS = ("--label", "--false-alarms", "--map", "--format", "--encoding")


@options
def test(
    file: Annotated[
        str | None,
        Setting("Answers with a column of labels, in any file that `evaluate` reads.", "FILE"),
    ] = None,
    *,
    data: Annotated[
        list[str] | None,
        Setting(
            "ragbench:, ragtruth:, halubench:, finqa: or eli5:DIR_OR_NAME, or "
            "[jsonl:]FILE.jsonl with spans as labels; @all, @fit or @dev at its end replaces "
            "--split. Repeatable.",
            metavar="SPEC",
        ),
    ] = None,
    split: Annotated[
        str, Setting("all, fit, dev, or a split of the publisher (column split of FILE).")
    ] = "all",
    label: LabelOption = None,
    false_alarms: FalseAlarmsOption = None,
    cascade: Annotated[
        bool, Setting("For FILE, two thresholds: which share Trivet decides, and what is left.")
    ] = False,
    by_length: Annotated[bool, Setting("Also measure 0-5k, 5k-16k and over 16k tokens.")] = False,
    baseline: Annotated[
        Path | None,
        Setting(
            "Bundle to compare with on each --data, or on --rule, row by row.",
            metavar="FOLDER|NAME",
        ),
    ] = None,
    rule: Annotated[
        Path | None,
        Setting("Measure on this folder's sets, by which bundles are chosen.", metavar="FOLDER"),
    ] = None,
    every: Annotated[
        int, Setting("With --rule: one of so many source documents.", metavar="N", least=1)
    ] = 1,
    keep: Annotated[
        Path | None,
        Setting("With --rule: keep verdicts here, and do not judge again.", metavar="FOLDER"),
    ] = None,
    reading: LogReading,
    report: Annotated[Path | None, _output("HTML page with tables and curves to write.")] = None,
    json_file: Annotated[Path | None, _output("File of the figures, JSON.", "--json")] = None,
    markdown_file: Annotated[
        Path | None, _output("File of the figures, Markdown.", "--markdown")
    ] = None,
    into_card: Annotated[
        bool, _output("Add the main figures to the bundle and its model card.")
    ] = False,
    threshold: ThresholdOption = None,
    model: Model,
) -> None:
    """Measure a bundle on labelled answers, with intervals.

    FILE has answers of your own with one label each: it is compared with the verdicts in a table,
    with the worst errors and a threshold for `trivet evaluate --threshold`. --data has published
    data sets, or spans as labels.
    """
    if (file is not None) + bool(data) + (rule is not None) != 1:
        raise typer.BadParameter(
            "give a FILE with a column of labels, --data SPEC or --rule FOLDER"
        )
    if rule is not None:
        with needs_extra("train"):
            _measure_rule(rule, model, baseline, every, keep, json_file, into_card)
        return
    file_options = (label, false_alarms, reading.mapping, reading.format, reading.encoding)
    if file is None and any(file_options):
        used = [name for name, value in zip(_FILE_OPTIONS, file_options, strict=True) if value]
        raise typer.BadParameter(f"{', '.join(used)} is for FILE, not for --data")
    if cascade and file is None:
        raise typer.BadParameter("--cascade is for FILE, not for --data")
    if baseline is not None and not data:
        raise typer.BadParameter("--baseline compares on --data or --rule")
    if into_card and threshold is not None:
        raise typer.BadParameter("--into-card needs the bundle's own threshold: drop --threshold")
    with needs_extra("train"):
        from trivet.bundle.scores import keep_scores
        from trivet.evaluation import measured_bundle
        from trivet.report import terminal
        from trivet.report.bundle_tables import render_choice, render_figures

        measured_bundle.check_files(json_file, markdown_file, report)
        labelled = None
        if file is not None:
            from trivet.labelled.plain_labels import read_plain

            labelled = read_plain(
                file, label, split, reading.mapping, reading.format, reading.encoding
            )
        evaluator = model.load()
        if into_card:
            evaluator.bundle.check_writable()
        if labelled is None:
            measured = measured_bundle.measure_bundle(
                evaluator, data or [], split, by_length, threshold=threshold
            )
        else:
            measured = measured_bundle.measure_own(
                *(evaluator, labelled, split, by_length, threshold, false_alarms or FALSE_ALARMS),
                with_cascade=cascade,
            )
    terminal.show(
        render_figures(measured.figures) if labelled is None else _render_own(measured, labelled)
    )
    if baseline is not None:
        other = replace(model, bundle=baseline).load()
        terminal.show(render_choice(measured_bundle.compare_with(other, measured, threshold)))
    summary = [f"{len(measured.rows) - measured.failed} evaluated, {measured.failed} failed"]
    if labelled is not None:
        summary += measured.left_out()
    elif measured.report.outside_split:
        summary.append(f"{measured.report.outside_split} rows outside split {split!r}")
    print("\n".join([*summary, f"leaks: {measured.about['leaks']}"]), file=sys.stderr)
    measured_bundle.write_measures(measured, json_file, markdown_file, report)
    if into_card:
        keep_scores(
            evaluator.bundle,
            measured.figures,
            split=split,
            command=what_was_typed(),
            precision=evaluator.precision,
        )
    if measured.failed or (labelled is not None and labelled.unreadable):
        raise typer.Exit(SOME_FAILED)


def _measure_rule(
    folder: Path,
    model: Model,
    baseline: Path | None,
    every: int,
    keep: Path | None,
    json_file: Path | None,
    into_card: bool,
) -> None:
    """Print the figures of the rule of choosing, and write them as JSON.

    With ``into_card`` the bundle's named thresholds are chosen on its sets of answers.
    """
    from trivet.evaluation.kept_verdicts import predict_sets
    from trivet.evaluation.measured_bundle import check_files
    from trivet.measures.relevance_ranking import plain_methods
    from trivet.measures.rule_figures import measure_rule
    from trivet.measures.rule_sets import read_rule_sets
    from trivet.report import terminal
    from trivet.report.bundle_tables import render_rule
    from trivet.thresholds.apply import choose_by_rule

    check_files(json_file)
    rows = read_rule_sets(folder, every)
    evaluator = model.load()
    second = predict_sets(evaluator, rows, keep)
    first = second
    if baseline is not None:
        first = predict_sets(replace(model, bundle=baseline).load(), rows, keep)
    figures = measure_rule({name: (first[name], second[name]) for name in rows}, plain_methods())
    terminal.show(render_rule(figures, baseline is not None))
    if into_card:
        chosen = choose_by_rule(evaluator.bundle, second)
        print(f"chosen: {chosen}; each F1 above is at the threshold before")
    if json_file is not None:
        text = json.dumps(figures.to_dict(), indent=1, allow_nan=False)
        terminal.write_result(json_file, f"{text}\n".encode())


def _render_own(measured: MeasuredBundle, labelled: PlainRows) -> RenderableType:
    from rich.console import Group

    from trivet.report.check_tables import render_cascade, render_label_check

    assert measured.check is not None
    figures = {figure.measure: figure for figure in reversed(measured.figures)}
    auroc, counting = (figures.get(f"{name}_auroc") for name in ("hallucination", "word_counting"))
    check = render_label_check(measured.check, auroc, counting, labelled.column, labelled.readings)
    return Group(check, render_cascade(measured.cascade, auroc)) if measured.cascade else check


@options
def calibrate(
    bundle: BundleArgument,
    *,
    data: DataOption,
    split: SplitOption = "dev",
    label: LabelOption = None,
    choices: Choices,
    false_alarms: FalseAlarmsOption = None,
    thresholds_only: Annotated[
        bool, Setting("Keep probabilities and graphs; choose thresholds by the fastest graph.")
    ] = False,
    out: Annotated[
        Path | None, Setting("Change a copy of the bundle instead.", metavar="FOLDER")
    ] = None,
    report: Annotated[
        Path | None, Setting("Report of errors and curves to write: FILE.html or a folder.")
    ] = None,
    backend: BackendOption = None,
    device: DeviceOption = None,
) -> None:
    """Fit probabilities and thresholds of a bundle on dev rows.

    Graphs of the bundle are removed, unless --thresholds-only is given; run `trivet export onnx`
    afterwards. The sentence threshold is chosen by the rate of false alarms, and the span threshold
    by the F1 of spans. If the rows do not justify one of them, the old one is kept and the exit
    code is 4. Probabilities are fitted to logits of torch, so --backend is for --thresholds-only,
    which needs no torch.
    """
    if thresholds_only and report is not None:
        raise typer.BadParameter("--report needs fitted probabilities; drop --thresholds-only")
    maps = (choices.heads, choices.weighed)
    if choices.keep_layer and (thresholds_only or maps != ((), ())):
        raise typer.BadParameter(
            "--keep-layer fits support alone; drop --thresholds-only, --head, "
            "--lexical-overlap and --similarity"
        )
    if backend is not None and not thresholds_only:
        raise typer.BadParameter(
            "--backend needs --thresholds-only; logits for the fit come from torch"
        )
    from trivet.thresholds.apply import choose_thresholds
    from trivet.thresholds.report import check_path, lines, write_report

    if report is not None:
        check_path(report)
    choices = replace(choices, false_alarms=false_alarms or FALSE_ALARMS, label=label)
    if out is not None and out.exists():
        raise typer.BadParameter(f"--out {out} exists already; choose another folder")
    if thresholds_only:
        chosen = choose_thresholds(
            bundle, data, split, choices, out, backend=backend, device=device
        )
        print("\n".join(lines((), chosen)))
    else:
        with needs_extra("train"):
            from trivet.calibrate import calibrate as fit_heads
        fitted = fit_heads(bundle, data, split, choices, out, device)
        chosen = fitted.chosen
        print("\n".join(lines(fitted.reports, chosen)))
        if report is not None:
            print(write_report(report, fitted.info, fitted.reports, chosen))
    if any(use.threshold is None for use in chosen.uses):
        raise typer.Exit(NO_SEPARATION)
