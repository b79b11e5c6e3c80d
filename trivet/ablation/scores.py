"""What one run said of each test row, without any text: enough for every measure, kept as JSONL."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from trivet.ablation.grid import MeasuredRows
from trivet.backends.backend import POSITIONS
from trivet.backends.loading import load_tokenizer
from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.data.labelled.augmentation.context_padding import lengthen
from trivet.data.labelled.sources import choose_rows, load_source
from trivet.data.spans import mark_tokens
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.measures.curves import BINS, bin_indices
from trivet.measures.intervals import BoolArray, FloatArray
from trivet.measures.predictions import marked_sentences
from trivet.model.aggregate import Outputs
from trivet.model.rag_model import RagModel, as_tensors
from trivet.records import (
    BackendError,
    ConfigError,
    DataError,
    Evaluation,
    FailedEvaluation,
    LabelledExample,
    Labels,
    Span,
    to_json_text,
)

logger = logging.getLogger(__name__)

_GPU_POSITIONS = 16_384
# bin, units in it, sum over them of (1 where positive, else 0) minus probability
Bins = list[tuple[int, int, float]]


@dataclass(frozen=True)
class RowScore:
    """One row's truths and scores; ``None`` where unknown or not judged.

    Attributes:
        test: Which entry of the grid's ``test``.
        row: Its place in that entry's rows.
        id: The example's own id.
        source: Its data set.
        group: Its source document.
        generator: Who wrote the response.
        tokens: Of question, contexts and response together, before any cutting.
        windows: How many the encoder read.
        failed: Why there is no verdict.
        adherent: Truth: the whole response is supported.
        faithfulness: In [0, 1].
        flagged: Whether it lies below the bundle's own threshold.
        relevance: In [0, 1].
        relevance_true: The annotators' own, else the share of sentences marked.
        utilization: Likewise.
        utilization_true: Likewise.
        completeness: Likewise.
        completeness_true: Likewise.
        span_hits: Characters both flagged and truly unsupported.
        span_flagged: Characters flagged.
        span_gold: Characters truly unsupported.
        support_bins: Calibration of the response sentences; positive = unsupported.
        relevance_bins: Calibration of the context sentences; positive = relevant.
        utilization_bins: Likewise; positive = utilized.
    """

    test: str
    row: int
    id: str | None
    source: str
    group: str
    generator: str | None
    tokens: int
    windows: int | None = None
    failed: str | None = None
    adherent: bool | None = None
    faithfulness: float | None = None
    flagged: bool | None = None
    relevance: float | None = None
    relevance_true: float | None = None
    utilization: float | None = None
    utilization_true: float | None = None
    completeness: float | None = None
    completeness_true: float | None = None
    span_hits: int | None = None
    span_flagged: int | None = None
    span_gold: int | None = None
    support_bins: Bins | None = None
    relevance_bins: Bins | None = None
    utilization_bins: Bins | None = None


@dataclass(frozen=True)
class Judging:
    """All row scores of one run, and what the encoder took for them.

    Attributes:
        rows: In order of test and row.
        seconds: In the model alone, copies to and from its device included.
        windows: How many it read in that time.
        parameters: Of the whole model.
        device: Where it ran.
    """

    rows: list[RowScore]
    seconds: float
    windows: int
    parameters: int
    device: str


class WeightsBackend:
    """An engine that is the trained model itself, in fp32.

    Attributes:
        seconds: Spent in the model so far.
        windows: Read so far.
    """

    def __init__(self, model: RagModel, device: torch.device) -> None:
        self._model = model.to(device).eval()
        self._device = device
        self.seconds = 0.0
        self.windows = 0

    @property
    def name(self) -> str:
        """What runs and on what."""
        return f"torch fp32 on {self._device.type}"

    def run(self, windows: Windows) -> Outputs:
        """Run the model once; see ``trivet.backends.backend.Backend``."""
        start = time.perf_counter()
        try:
            with torch.inference_mode():
                tensors = [tensor.to(self._device) for tensor in as_tensors(windows)]
                outputs = self._model(*tensors)
            answer = Outputs(*(value.float().cpu().numpy() for value in outputs))
        except RuntimeError as error:
            raise BackendError(f"{self.name} failed: {error}") from error
        self.seconds += time.perf_counter() - start
        self.windows += len(windows.input_ids)
        return answer


def load_rows(tests: Sequence[MeasuredRows]) -> dict[str, list[LabelledExample]]:
    """Read the test rows of every entry, by its label.

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


def judge(folder: Path, rows: dict[str, list[LabelledExample]], accelerator: str) -> Judging:
    """Judge every test row with a bundle's weights, on the way that ``trivet test`` takes.

    Args:
        folder: The bundle.
        rows: By the label of their test entry.
        accelerator: ``cpu``, or anything else for a GPU where there is one.

    Raises:
        BundleError: The bundle is refused.
    """
    bundle = read_bundle(folder)
    model, tokenizer = load_rag_model(bundle), load_tokenizer(bundle)
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    backend = WeightsBackend(model, torch.device("cuda" if on_gpu else "cpu"))
    positions = _GPU_POSITIONS if on_gpu else POSITIONS
    evaluator = Evaluator(folder, backend=backend, positions=positions)
    evaluator.evaluate("Warm?", ["The first call of a device is slow."], "It is.")
    backend.seconds, backend.windows = 0.0, 0
    scores = []
    for label, examples in rows.items():
        results = evaluator.evaluate_many(one.example for one in examples)
        for number, (one, result) in enumerate(zip(examples, results, strict=True)):
            example = one.example
            texts = (example.question, example.response, *example.contexts)
            tokens = sum(len(segment) for segment in tokenizer.encode(texts))
            scores.append(score_row(label, number, one, result, tokens))
    return Judging(
        rows=scores,
        seconds=backend.seconds,
        windows=backend.windows,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        device=backend.name,
    )


def score_row(
    test: str,
    number: int,
    labelled: LabelledExample,
    result: Evaluation | FailedEvaluation,
    tokens: int,
) -> RowScore:
    """Return what is kept of one row."""
    labels = labelled.labels
    row = RowScore(
        test=test,
        row=number,
        id=labelled.example.id,
        source=labelled.source,
        group=labelled.group,
        generator=labelled.generator,
        tokens=tokens,
        adherent=labels.adherent,
    )
    if isinstance(result, FailedEvaluation):
        return dataclasses.replace(row, failed=result.code)
    relevant = None if labels.relevant is None else marked_sentences(result, labels.relevant)
    utilized = None if labels.utilized is None else marked_sentences(result, labels.utilized)
    row = dataclasses.replace(
        row,
        windows=result.windows,
        faithfulness=result.faithfulness,
        flagged=None if result.adherent is None else not result.adherent,
        relevance=result.relevance,
        relevance_true=_share(labels.relevance, relevant),
        utilization=result.utilization,
        utilization_true=_share(labels.utilization, utilized),
        completeness=result.completeness,
        completeness_true=_completeness(labels, relevant, utilized),
    )
    sentences = [one for context in result.contexts for one in context.sentences]
    if relevant is not None and result.relevance is not None:
        probs = [one.relevance for one in sentences]
        row = dataclasses.replace(row, relevance_bins=_bins(probs, relevant))
    if utilized is not None and result.utilization is not None:
        probs = [one.utilization or 0.0 for one in sentences]
        row = dataclasses.replace(row, utilization_bins=_bins(probs, utilized))
    if labels.unsupported is None or result.faithfulness is None:
        return row
    length = len(labelled.example.response)
    gold = _characters(length, labels.unsupported)
    flagged = _characters(length, [Span(span.start, span.end) for span in result.unsupported])
    spans = [Span(sentence.start, sentence.end) for sentence in result.sentences]
    return dataclasses.replace(
        row,
        span_hits=int((gold & flagged).sum()),
        span_flagged=int(flagged.sum()),
        span_gold=int(gold.sum()),
        support_bins=_bins(
            [1 - sentence.support for sentence in result.sentences],
            _touched(spans, labels.unsupported),
        ),
    )


def write_scores(path: Path, rows: Iterable[RowScore]) -> None:
    """Write one JSON object a line; never NaN."""
    lines = [to_json_text(dataclasses.asdict(row)) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_scores(path: Path) -> list[RowScore]:
    """Read what ``write_scores`` wrote.

    Raises:
        DataError: The file cannot be read, or a line is no row score.
    """
    rows = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    rows.append(RowScore(**json.loads(line)))
                except (TypeError, ValueError) as error:
                    raise DataError(f"{path}, line {number}: no row score: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    return rows


def _share(given: float | None, marks: BoolArray | None) -> float | None:
    if given is not None or marks is None:
        return given
    return float(marks.mean()) if len(marks) else 0.0


def _completeness(
    labels: Labels, relevant: BoolArray | None, utilized: BoolArray | None
) -> float | None:
    if labels.completeness is not None:
        return labels.completeness
    if relevant is None or utilized is None or not labels.relevant:  # of nothing there is no share
        return None
    return float((relevant & utilized).sum() / max(int(relevant.sum()), 1))


def _touched(sentences: Sequence[Span], spans: Sequence[Span]) -> BoolArray:
    offsets = np.array([(one.start, one.end) for one in sentences], dtype=np.int64)
    return mark_tokens(offsets.reshape(-1, 2), spans)


def _characters(length: int, spans: Sequence[Span]) -> BoolArray:
    marks = np.zeros(length, dtype=np.bool_)
    for span in spans:
        marks[span.start : span.end] = True
    return marks


def _bins(probs: Sequence[float], positive: BoolArray) -> Bins:
    values: FloatArray = np.asarray(probs, dtype=np.float64)
    bins = bin_indices(values)
    counts = np.bincount(bins, minlength=BINS)
    gaps = np.bincount(bins, positive - values, minlength=BINS)
    return [(int(b), int(counts[b]), float(gaps[b])) for b in np.flatnonzero(counts)]
