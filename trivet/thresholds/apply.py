"""Thresholds chosen by a bundle's own graph, without torch."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trivet.bundle.bundle import Bundle, add_files
from trivet.bundle.info import UNBOUNDED, AlarmsInfo, BundleInfo, Thresholds
from trivet.errors import BundleError, DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.example_batch import Joined
from trivet.evaluation.postprocessing import with_support
from trivet.evaluation.streams import prefetch
from trivet.labelled.sources import load_source
from trivet.measures.label_check import JudgedAnswers, judge_answers
from trivet.measures.predictions import Prediction
from trivet.measures.rule_sets import ANSWERS
from trivet.records import LabelledExample
from trivet.settings import FALSE_ALARMS, THRESHOLD_NAMES, BackendName
from trivet.thresholds.choices import Choices
from trivet.thresholds.choose import ChosenThresholds, Judged, choose_or_keep, named_thresholds
from trivet.thresholds.columns import DevScores

_BLOCK = 64  # examples that are evaluated together
# scores in the card that depend on thresholds
_AT_THRESHOLDS = (
    *(f"hallucination_{name}" for name in ("f1", "precision", "recall")),
    "span_f1",
)


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
    examples = load_rows(specs, split, choices)
    starts = range(0, len(examples), _BLOCK)
    texts = ([row.example for row in examples[start : start + _BLOCK]] for start in starts)
    batches = prefetch(texts, evaluator.begin)
    answers = itertools.chain.from_iterable(batch.join() for batch in batches)
    scores = [
        _read_support(labelled, joined)
        for labelled, joined in zip(examples, answers, strict=True)
        if isinstance(joined, Joined)
    ]
    info = evaluator.bundle.info
    old, rate = info.thresholds, choices.false_alarms
    if old is None:
        raise BundleError(f"{folder}: has no support head, which thresholds are for")
    chosen = choose_or_keep(old, scores, scores, choices.thresholds_from, rate)
    if out is not None:
        folder = shutil.copytree(evaluator.bundle.folder, out)
    if chosen.thresholds != old:
        _keep(folder, info, chosen.thresholds, ())
    return chosen


def _keep(
    folder: Path, info: BundleInfo, thresholds: Thresholds | None, alarms: tuple[AlarmsInfo, ...]
) -> None:
    """Write thresholds and the answers that they flag; figures at the old ones are removed."""
    kept = tuple(score for score in info.scores if score.measure not in _AT_THRESHOLDS)
    changed = {"thresholds": thresholds, "alarms": alarms, "scores": kept}
    add_files(folder, {}, info.model_copy(update=changed))


def _read_support(labelled: LabelledExample, joined: Joined) -> DevScores:
    """Return the support of an example's sentences and tokens."""
    outputs = joined.outputs
    support = np.asarray(outputs.sentence_support)[0], np.asarray(outputs.support_probs)[0]
    return DevScores.of(labelled, joined.example.tokens, *support)


def choose_by_rule(bundle: Bundle, sets: Mapping[str, Sequence[Prediction]]) -> Thresholds:
    """Choose the named thresholds on the sets of the rule of choosing, and write them with counts.

    Raises:
        BundleError: The bundle is read only, or has no support head.
        DataError: No set has enough documents.
    """
    bundle.check_writable()
    info = bundle.info
    old = with_support(info.thresholds, "sentences")
    answers = {name: judge_answers(sets[name]) for name in ANSWERS if sets[name]}
    judged = {
        name: Judged([row.example for row in set_answers.rows], set_answers.support)
        for name, set_answers in answers.items()
    }
    bounded = [judged_set for name, judged_set in judged.items() if name not in UNBOUNDED]
    also = [judged_set for name, judged_set in judged.items() if name in UNBOUNDED]
    named = named_thresholds(bounded, FALSE_ALARMS, also)
    if not named:
        raise DataError(
            "no set has enough documents with a faithful answer to choose thresholds on"
        )
    others = named.get("careful"), named.get("strict")
    thresholds = Thresholds(named["balanced"], old.span, *others)
    limits = [thresholds.named(name) for name in THRESHOLD_NAMES]

    def flagged(set_answers: JudgedAnswers, wrong: bool) -> tuple[int, int, int]:
        support = set_answers.support[set_answers.wrong == wrong]
        careful, balanced, strict = (int((support < limit).sum()) for limit in limits)
        return careful, balanced, strict

    alarms = tuple(
        AlarmsInfo(
            data=name,
            faithful=int((~set_answers.wrong).sum()),
            false_alarms=flagged(set_answers, wrong=False),
            hallucinated=int(set_answers.wrong.sum()),
            found=flagged(set_answers, wrong=True),
        )
        for name, set_answers in answers.items()
    )
    _keep(bundle.folder, info, thresholds, alarms)
    return thresholds


def load_rows(specs: Sequence[str], split: str, choices: Choices) -> list[LabelledExample]:
    """Return the rows of all sources; each source weighs the same.

    Raises:
        DataError: A source cannot be read, there are no rows, or the column of labels is named and
            no source is a sheet.
    """
    only, label = choices.only, choices.label
    if label is not None and not any(spec.startswith("sheet:") for spec in specs):
        raise DataError(f"--label {label} names a column of sheet:FILE, and no --data is one")
    loaded = [load_source(spec, split, label=label)[0] for spec in specs]
    examples = [row for rows in loaded for row in rows]
    prefixes = only or ("",)
    kept = [[row for row in rows if row.source.startswith(prefixes)] for rows in loaded]
    kept = [rows for rows in kept if rows]
    whole = sum(map(len, kept))
    chosen = [
        replace(row, weight=row.weight * whole / (len(kept) * len(rows)))
        for rows in kept
        for row in rows
    ]
    if not chosen:
        raise DataError(
            f"{', '.join(specs)}: no row in split {split!r}"
            + (f" from {', '.join(only)}" if only and examples else "")
            + " to calibrate on; name another, such as --split all"
        )
    return chosen
