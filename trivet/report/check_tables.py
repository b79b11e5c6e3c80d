"""Verdicts compared with labels, for a terminal: counts, thresholds, and errors with their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivet.measures.cascade import CascadeStep, Decided
from trivet.measures.figures import Figure
from trivet.measures.label_check import AtThreshold, LabelCheck, LabelError
from trivet.records import Evaluation
from trivet.report.shown_sources import find_sources
from trivet.report.terminal import mark_unsupported, shortened, visible
from trivet.settings import THRESHOLD_NAMES

_ERRORS = 5
_MANY = 12  # ways of writing a label that are shown
_SAID = {True: "supported", False: "unsupported"}


def render_label_check(
    check: LabelCheck,
    auroc: Figure | None,
    counting: Figure | None,
    column: str,
    readings: Mapping[tuple[str, bool], int],
) -> RenderableType:
    """Return the confusion table, AUROC, thresholds and the five worst errors.

    Args:
        check: Verdicts compared with labels.
        auroc: AUROC of unsupported answers; ``None`` if it was not measured.
        counting: That of counting words, likewise.
        column: Column of the labels.
        readings: Rows by label as written, and whether it was read as supported.
    """
    used, named = check.used, list(readings.items())[:_MANY]
    # How each label was read, so that a wrong reading is seen.
    read = ", ".join(f"{value} = {_SAID[supported]} ({n})" for (value, supported), n in named)
    right, wrong = used.finds + used.passed, used.missed + used.false_alarms
    parts: list[RenderableType] = [
        Text(visible(f"labels in column {column}: {read}")),
        Text(),
        _confusion(used),
        Text(f"{right} of {right + wrong} verdicts agree with the labels"),
        Text(),
        *_auroc("AUROC", auroc),
        *_auroc("that of counting words", counting),
        Text(),
        _thresholds(check, _beats_chance(auroc)),
        *_remarks(check, auroc),
    ]
    if check.errors:
        shown = check.errors[:_ERRORS]
        title = f"worst errors: {len(shown)} of {len(check.errors)}"
        parts += [Text(), Text(title, style="bold")]
        parts += [part for number, error in enumerate(shown, 1) for part in _error(number, error)]
    return Group(*parts)


CASCADE_HEADER = ("precision", "passed", "wrong", "flagged", "right", "left", "wrong")
CASCADE_NOTE = (
    "An answer passes from the upper threshold on, is flagged below the lower one, and is left to "
    "people or a larger judge between them. Each threshold decides as many answers as the "
    "precision allows if one more of them were an error; shares are of all answers, with 95 % "
    "intervals over source documents."
)


def render_cascade(steps: Sequence[CascadeStep], auroc: Figure | None) -> RenderableType:
    """Return what two thresholds decide, and the thresholds if the AUROC is better than chance."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in CASCADE_HEADER:
        table.add_column(name, justify="right", no_wrap=True)
    for cells in cascade_cells(steps):
        table.add_row(*cells)
    parts: list[RenderableType] = [Text(), Text("left to Trivet", style="bold"), table]
    for step in steps if _beats_chance(auroc) else ():
        sides = (("flagged", step.flagged.threshold), ("passed", step.passed.threshold))
        parts += [
            Text(f"{100 * step.precision:.3g} % {word}: trivet evaluate LOG --threshold {at:.15g}")
            for word, at in sides
            if at is not None
        ]
    if not any(step.passed.count + step.flagged.count for step in steps):
        parts.append(Text("too few answers, or too many errors, to decide any", style="yellow"))
    return Group(*parts)


def cascade_cells(steps: Sequence[CascadeStep]) -> list[tuple[str, ...]]:
    """Return the cells of the table of a cascade, whose columns are ``CASCADE_HEADER``."""
    return [
        (
            f"{100 * step.precision:.3g} %",
            *(_of_all(step.passed), str(step.passed.wrong)),
            *(_of_all(step.flagged), str(step.flagged.count - step.flagged.wrong)),
            *(_of_all(step.left), str(step.left.wrong)),
        )
        for step in steps
    ]


def _of_all(decided: Decided) -> str:
    shown = f"{decided.count} ({100 * decided.share:.0f} %"
    if decided.interval is None:
        return f"{shown})"
    low, high = decided.interval
    return f"{shown} [{100 * low:.0f}, {100 * high:.0f}])"


def _confusion(used: AtThreshold) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    for name in ("judged supported", "judged unsupported"):
        table.add_column(name, justify="right")
    table.add_row("labelled supported", str(used.passed), str(used.false_alarms))
    table.add_row("labelled unsupported", str(used.missed), str(used.finds))
    return table


def _auroc(name: str, auroc: Figure | None) -> Iterator[Text]:
    if auroc is None or auroc.value is None:
        yield Text(f"{name} {'not measured' if auroc is None else auroc.note}")
        return
    interval = auroc.note or "no interval"
    if auroc.low is not None and auroc.high is not None:
        interval = f"95 % interval {auroc.low:.2f} to {auroc.high:.2f}"
    yield Text(f"{name} {auroc.value:.2f} ({interval}; {auroc.groups} source documents)")


def _beats_chance(auroc: Figure | None) -> bool:
    """Return whether the interval of an AUROC, rounded as it is shown, lies above .5."""
    return auroc is not None and auroc.low is not None and round(auroc.low, 2) > 0.5


def _thresholds(check: LabelCheck, advised: bool) -> Table:
    rate = f"at most {100 * check.false_alarms:.3g} % false alarms"
    names = {"used": "of these verdicts", "rate": rate, "best_f1": "best F1 on these rows"}
    names |= {name: f"{name}, of the bundle" for name in THRESHOLD_NAMES}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("threshold", "false alarms", "finds"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for threshold in check.thresholds:
        chosen = threshold.name in ("rate", "best_f1")
        if chosen and not advised:
            continue
        alarms = _share(threshold.false_alarms, threshold.false_alarms + threshold.passed)
        finds = _share(threshold.finds, threshold.finds + threshold.missed)
        # A chosen threshold is shown whole: rounded, it might flag other answers.
        number = f"{threshold.threshold:.15g}" if chosen else f"{threshold.threshold:.4g}"
        table.add_row(number, alarms, finds, names[threshold.name])
    return table


def _share(count: int, total: int) -> str:
    return f"{count} of {total}" + (f" ({100 * count / total:.0f} %)" if total else "")


def _remarks(check: LabelCheck, auroc: Figure | None) -> Iterator[Text]:
    if not _beats_chance(auroc):
        text = (
            "these labels do not show Trivet to be better than chance, so no threshold is advised"
        )
        if auroc is not None and auroc.value is not None and auroc.value < 0.5:
            text += "; are the labels the other way round?"
        yield Text(text, style="yellow")
        return
    if check.no_rate is not None:
        yield Text(check.no_rate, style="yellow")
    if check.rate is not None and check.rate.finds:
        limit = f"for at most {100 * check.false_alarms:.3g} % false alarms"
        yield Text(f"{limit}: trivet evaluate LOG --threshold {check.rate.threshold:.15g}")
    yield Text("measure a threshold on rows that it was not chosen on; here it looks too good")


def _error(number: int, error: LabelError) -> Iterator[RenderableType]:
    example, verdict = error.row.example, error.row.evaluation
    assert isinstance(verdict, Evaluation)
    supported = bool(example.labels.adherent)
    kind = "false alarm" if supported else "missed"
    kind += f": labelled {_SAID[supported]}, judged {_SAID[not supported]}"
    name = visible(example.example.id or "")
    yield Text.assemble(f"{number}. ", (name, "bold"), f"  {kind}, support {error.support:.2f}")
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("question", shortened(example.example.question))
    table.add_row("answer", mark_unsupported(example.example.response, verdict))
    nearest = _nearest(verdict)
    if nearest is not None:
        table.add_row("nearest", nearest)
    yield Padding(table, (0, 0, 0, 3))


def _nearest(verdict: Evaluation) -> Text | None:
    """Return the best source of the weakest sentence."""
    pairs = [
        (sentence.support, sources[0])
        for sentence, sources in zip(verdict.sentences, find_sources(verdict), strict=True)
        if sentence.support is not None and sources
    ]
    if not pairs:
        return None
    _, source = min(pairs, key=lambda pair: pair[0])
    return shortened(verdict.contexts[source.context].sentences[source.sentence].text)
