"""Scores of a run for each test row, without texts; stored as JSONL."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trivet.ablation.grid import MeasuredRows
from trivet.backends.backend import POSITIONS
from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.configs.schema import Precision, TrainConfig
from trivet.data.files.json_rows import parse_plain_line, read_lines
from trivet.data.windows import Windows
from trivet.errors import BackendError, ConfigError, DataError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.augmentation.augment import lengthen
from trivet.labelled.grouping import shares_text
from trivet.labelled.sources import choose_rows, load_source
from trivet.measures.curves import BINS, bin_indices
from trivet.measures.intervals import BoolArray, FloatArray
from trivet.measures.predictions import marked_characters, marked_sentences, touched_sentences
from trivet.measures.samples import true_score
from trivet.model.aggregate import Outputs
from trivet.model.rag_model import RagModel, as_tensors, to_numpy
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, to_json_text

_CPU = torch.device("cpu")
# bin, number of units, sum over units of label minus probability
Bins = list[tuple[int, int, float]]


@dataclass(frozen=True)
class RowScore:
    """Truths and scores of one row; ``None`` where unknown or failed."""

    test: str  # label of the test entry
    row: int  # index in that entry's rows
    id: str | None
    source: str
    group: str
    generator: str | None
    windows: int | None = None
    failed: str | None = None  # code of the failure
    leaked: bool | None = None  # whether it shares a text with training rows; None: not known
    adherent: bool | None = None
    faithfulness: float | None = None
    flagged: bool | None = None  # whether the verdict is not adherent
    relevance: float | None = None
    relevance_true: float | None = None  # annotators' score, or the share of marked sentences
    utilization: float | None = None
    utilization_true: float | None = None
    completeness: float | None = None
    completeness_true: float | None = None
    span_hits: int | None = None  # flagged and truly unsupported characters
    span_flagged: int | None = None
    span_gold: int | None = None
    support_bins: Bins | None = None  # response sentences; positive = unsupported
    relevance_bins: Bins | None = None  # context sentences; positive = relevant
    utilization_bins: Bins | None = None  # context sentences; positive = utilized


@dataclass(frozen=True)
class ScoredRows:
    """All row scores of one run in order of test and row, and the cost of inference."""

    rows: list[RowScore]
    seconds: float  # in the model, with copies to and from its device
    windows: int
    parameters: int
    device: str


class WeightsBackend:
    """Backend that runs a trained model as training did, and counts windows and seconds.

    Args:
        model: Model.
        window: Most tokens of a window.
        call_windows: Most windows of a call.
        precision: Precision of the encoder.
        device: Device to run on.
    """

    step = 1  # windows are padded to the longest

    def __init__(
        self,
        model: RagModel,
        window: int,
        call_windows: int,
        precision: Precision = "fp32",
        device: torch.device = _CPU,
    ) -> None:
        self._model = model.to(device).eval()
        self._device = device
        self._bf16 = precision == "bf16"
        self.most_windows = call_windows
        self.positions = POSITIONS if device.type == "cpu" else call_windows * window
        self.seconds = 0.0
        self.windows = 0

    @property
    def name(self) -> str:
        """Name, precision and device."""
        return f"torch {'bf16' if self._bf16 else 'fp32'} on {self._device.type}"

    def run(self, windows: Windows) -> Outputs:
        """Run the model; see ``trivet.backends.backend.Backend``."""
        start = time.perf_counter()
        try:
            with torch.inference_mode():
                tensors = as_tensors(windows, self._device)
                with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16):
                    logits = self._model.read(*tensors[:3])
                outputs = self._model.join(logits, *tensors[3:])
            answer = to_numpy(outputs)
        except RuntimeError as error:
            raise BackendError(f"{self.name} failed: {error}") from error
        self.seconds += time.perf_counter() - start
        self.windows += len(windows.input_ids)
        return answer


def load_rows(tests: Sequence[MeasuredRows]) -> dict[str, list[LabelledExample]]:
    """Read the rows of all test entries, by label.

    Raises:
        DataError: A source cannot be read.
        ConfigError: An entry has no rows.
    """
    found = {}
    for test in tests:
        rows = choose_rows(load_source(test.spec, test.split)[0], test.only, test.limit, seed=0)
        if not rows:
            raise ConfigError(f"test: {test.spec} has no rows in split {test.split!r} to measure")
        found[test.label] = lengthen(rows, test.foreign, seed=0)
    return found


def score_rows(
    folder: Path, rows: dict[str, list[LabelledExample]], config: TrainConfig
) -> ScoredRows:
    """Evaluate all test rows with a bundle's weights, in the precision and calls of its training.

    ``run.accelerator`` other than ``cpu`` means a GPU if there is one.
    """
    bundle = read_bundle(folder)
    model = load_rag_model(bundle)
    optim, run = config.optim, config.run
    backend = WeightsBackend(
        model,
        bundle.info.window.size,
        optim.most_windows,
        run.precision,
        torch.device("cuda" if run.accelerator != "cpu" and torch.cuda.is_available() else "cpu"),
    )
    evaluator = Evaluator(folder, backend=backend)
    evaluator.evaluate("Warm?", ["The first call of a device is slow."], "It is.")
    backend.seconds, backend.windows = 0.0, 0
    trained = bundle.training_texts()
    scores = []
    for label, examples in rows.items():
        results = evaluator.evaluate_many(one.example for one in examples)
        for number, (one, result) in enumerate(zip(examples, results, strict=True)):
            leaked = None if trained is None else shares_text(one, trained)
            score = score_row(label, number, one, result)
            scores.append(dataclasses.replace(score, leaked=leaked))
    return ScoredRows(
        rows=scores,
        seconds=backend.seconds,
        windows=backend.windows,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        device=backend.name,
    )


def score_row(
    test: str, number: int, labelled: LabelledExample, result: Evaluation | FailedEvaluation
) -> RowScore:
    """Return the stored scores of one row."""
    labels = labelled.labels
    row = RowScore(
        test=test,
        row=number,
        id=labelled.example.id,
        source=labelled.source,
        group=labelled.group,
        generator=labelled.generator,
        adherent=labels.adherent,
    )
    if isinstance(result, FailedEvaluation):
        return dataclasses.replace(row, failed=result.code)
    known: dict[str, Any] = {}
    for name, spans in (("relevance", labels.relevant), ("utilization", labels.utilized)):
        if spans is not None and getattr(result, name) is not None:
            probs = [
                getattr(one, name) or 0.0
                for context in result.contexts
                for one in context.sentences
            ]
            known[f"{name}_bins"] = _bins(probs, marked_sentences(result, spans))
    if labels.unsupported is not None and result.faithfulness is not None:
        length = len(labelled.example.response)
        gold = marked_characters(length, labels.unsupported)
        flagged = marked_characters(length, result.unsupported)
        known["span_hits"] = int((gold & flagged).sum())
        known["span_flagged"], known["span_gold"] = int(flagged.sum()), int(gold.sum())
        claims = [each for each in result.sentences if each.support is not None]
        probs = [1 - each.support for each in claims if each.support is not None]
        known["support_bins"] = _bins(probs, touched_sentences(claims, labels.unsupported))
    return dataclasses.replace(
        row,
        windows=result.windows,
        faithfulness=result.faithfulness,
        flagged=None if result.adherent is None else not result.adherent,
        relevance=result.relevance,
        relevance_true=true_score(labels, result, "relevance"),
        utilization=result.utilization,
        utilization_true=true_score(labels, result, "utilization"),
        completeness=result.completeness,
        completeness_true=true_score(labels, result, "completeness"),
        **known,
    )


def write_scores(path: Path, rows: Iterable[RowScore]) -> None:
    """Write one JSON object per line; never NaN."""
    lines = [to_json_text(dataclasses.asdict(row)) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_scores(path: Path) -> list[RowScore]:
    """Return the row scores of a file.

    Raises:
        DataError: The file cannot be read, or a line is no row score.
    """
    rows = []
    try:
        with path.open("rb") as file:
            for number, row in read_lines(file, parse_plain_line):
                try:
                    if isinstance(row, ExampleError):
                        raise row
                    rows.append(RowScore(**dict(row)))
                except (TypeError, ExampleError) as error:
                    raise DataError(f"{path}, line {number}: no row score: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    return rows


def _bins(probs: Sequence[float], positive: BoolArray) -> Bins:
    values: FloatArray = np.asarray(probs, dtype=np.float64)
    bins = bin_indices(values)
    counts = np.bincount(bins, minlength=BINS)
    gaps = np.bincount(bins, positive - values, minlength=BINS)
    return [(int(b), int(counts[b]), float(gaps[b])) for b in np.flatnonzero(counts)]
