"""Thresholds chosen by a bundle's own graph, without torch."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trivet.bundle.bundle import add_files
from trivet.errors import BundleError, DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.labelled.sources import load_source
from trivet.model.aggregate import Outputs
from trivet.records import LabelledExample, Labels
from trivet.settings import BackendName
from trivet.thresholds.choices import Choices
from trivet.thresholds.choose import ChosenThresholds, choose_or_keep
from trivet.thresholds.columns import DevScores
from trivet.thresholds.streams import choosing, read_outcomes, read_streams

_BLOCK = 64  # examples that are evaluated together
_AT_THRESHOLDS = ("hallucination_f1", "span_f1")  # scores in the card that depend on thresholds


def choose_thresholds(
    folder: Path,
    specs: Sequence[str],
    split: str = "dev",
    choices: Choices | None = None,
    out: Path | None = None,
    *,
    backend: BackendName | None = None,
    device: str | None = None,
) -> ChosenThresholds:
    """Choose the thresholds of a bundle again by its fastest graph, and change nothing else.

    Figures at the old thresholds are removed. ``out`` must be a new folder; ``backend`` and
    ``device`` are those of ``Evaluator``, the other arguments and the errors as in ``calibrate``.
    """
    choices = choices or Choices()
    if out is not None and out.exists():
        raise BundleError(f"{out}: exists; give a new folder for the changed copy")
    evaluator = Evaluator(folder, backend=backend, device=device)
    if out is None:
        evaluator.bundle.check_writable()
    examples = load_rows(specs, split, choices.only)
    found = read_outcomes(evaluator, (one.example for one in examples), _read_support, _BLOCK)
    scores = [
        replace(each, example=one)
        for one, each in zip(examples, found, strict=True)
        if isinstance(each, DevScores)
    ]
    info = evaluator.bundle.info
    old, rate = info.thresholds, choices.false_alarms
    if old is None:
        raise BundleError(f"{folder}: has no support head, which thresholds are for")
    streams = read_streams(evaluator, choosing(examples, choices.thresholds_from))
    chosen = choose_or_keep(old, scores, scores, choices.thresholds_from, rate, streams)
    if out is not None:
        folder = shutil.copytree(evaluator.bundle.folder, out)
    if chosen.thresholds != old:
        kept = tuple(one for one in info.scores if one.measure not in _AT_THRESHOLDS)
        changed = {"thresholds": chosen.thresholds, "scores": kept}
        add_files(folder, {}, info.model_copy(update=changed))
    return chosen


def _read_support(one: PreprocessedExample, outputs: Outputs, _: object) -> DevScores:
    """Return the support of an example's sentences and tokens, without its labels."""
    unlabelled = LabelledExample(one.example, Labels(), "", "")
    support = np.asarray(outputs.sentence_support)[0], np.asarray(outputs.support_probs)[0]
    whole = float(np.asarray(outputs.faithfulness)[0])
    return DevScores.of(unlabelled, one.tokens, *support, whole)


def load_rows(specs: Sequence[str], split: str, only: Sequence[str]) -> list[LabelledExample]:
    """Return the rows of all sources; each source weighs the same."""
    loaded = [load_source(spec, split)[0] for spec in specs]
    examples = [one for each in loaded for one in each]
    prefixes = tuple(only) or ("",)
    kept = [[one for one in each if one.source.startswith(prefixes)] for each in loaded]
    kept = [each for each in kept if each]
    whole = sum(map(len, kept))
    chosen = [
        replace(one, weight=one.weight * whole / (len(kept) * len(each)))
        for each in kept
        for one in each
    ]
    if not chosen:
        raise DataError(
            f"{', '.join(specs)}: no row in split {split!r}"
            + (f" from {', '.join(only)}" if only and examples else "")
            + " to calibrate on; name another, such as --split all"
        )
    return chosen
