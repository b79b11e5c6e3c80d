"""Verdicts of a run on each test row."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from trivet.ablation.grid import MeasuredRows
from trivet.ablation.judged_rows import JudgedRow
from trivet.backends.backend import POSITIONS
from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.configs.schema import Precision, TrainConfig
from trivet.data.windows import Windows
from trivet.errors import BackendError, ConfigError
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.augmentation.augment import lengthen
from trivet.labelled.grouping import shares_text
from trivet.labelled.sources import choose_rows, load_source
from trivet.measures.predictions import Prediction
from trivet.model.aggregate import Outputs
from trivet.model.rag_model import RagModel, as_tensors, to_numpy
from trivet.records import LabelledExample

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class ScoredRows:
    """The test rows of one run in order, with its verdicts, and the cost of inference."""

    rows: list[JudgedRow]
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
        self.max_windows = call_windows
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
                outputs = self._model.join(logits, *tensors[1:])
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
    by_label = {}
    for test in tests:
        rows = choose_rows(load_source(test.spec, test.split)[0], test.only, test.limit, seed=0)
        if not rows:
            raise ConfigError(f"test: {test.spec} has no rows in split {test.split!r} to measure")
        by_label[test.label] = lengthen(rows, test.foreign, seed=0)
    return by_label


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
        optim.call_windows,
        run.precision,
        torch.device("cuda" if run.accelerator != "cpu" and torch.cuda.is_available() else "cpu"),
    )
    evaluator = Evaluator(folder, backend=backend)
    evaluator.evaluate("Warm?", ["The first call of a device is slow."], "It is.")
    backend.seconds, backend.windows = 0.0, 0
    trained = bundle.training_texts()
    judged = []
    for label, examples in rows.items():
        results = evaluator.evaluate_many(example.example for example in examples)
        for example, result in zip(examples, results, strict=True):
            leaked = None if trained is None else shares_text(example, trained)
            judged.append(JudgedRow(label, Prediction(example, result), leaked))
    return ScoredRows(
        rows=judged,
        seconds=backend.seconds,
        windows=backend.windows,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        device=backend.name,
    )
