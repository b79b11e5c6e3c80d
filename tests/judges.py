"""Evaluators for the tests: with a backend that is a formula, and on a real exported graph."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.models import initial_model
from tests.once import once
from trivet.backends.backend import Backend, LoadedBackend
from trivet.bundle.backend_info import Method, OpenVinoCandidate, OpenVinoInfo
from trivet.bundle.bundle import write_bundle
from trivet.bundle.info import BundleInfo, GraphInfo, SpecialTokenIds, Thresholds
from trivet.bundle.info import outputs_of as outputs_with
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows
from trivet.errors import BackendError
from trivet.evaluation import evaluator
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs, gather_tokens, join, supported_anywhere
from trivet.model.architecture import Reduction
from trivet.model.rag_model import RagModel

TinyInfo = Callable[[SegmentTokenizer], BundleInfo]


class FormulaBackend:
    """Answers by a formula on the ids of each window.

    Attributes:
        calls: Shape [N, L] of every call.
        raises_on: Token id; a call with it raises.
        nan_on: Token id; a window with it answers NaN.
    """

    name = "formula"

    def __init__(self, faithfulness: Reduction = "weakest_sentence") -> None:
        self.faithfulness: Reduction = faithfulness
        self.calls: list[tuple[int, ...]] = []
        self.raises_on = -1
        self.nan_on = -1

    def run(self, windows: Windows) -> Outputs:
        ids = windows.input_ids * windows.attention_mask
        self.calls.append(ids.shape)
        if (ids == self.raises_on).any():
            raise BackendError("the formula was told to fail")
        # A window's numbers depend on all that it shows, not on padding nor on its neighbours.
        key = (ids.astype(np.float64) ** 1.5).sum(axis=1, keepdims=True)
        broken = np.where((ids == self.nan_on).any(axis=1, keepdims=True), np.nan, 0.0)
        support, relevance, utilization = (
            np.mod(np.sin(ids * factor + key * 0.37) * 437.58, 1.0) + broken
            for factor in (12.9, 7.1, 3.3)
        )
        return outputs_of(windows, support, relevance, utilization, self.faithfulness)


def outputs_of(
    windows: Windows, support: Any, relevance: Any, utilization: Any, faithfulness: Reduction
) -> Outputs:
    """Return the outputs of a graph that finds these probabilities [N, L] for each head."""
    support, relevance, utilization = (
        values.astype(np.float32).reshape(-1) for values in (support, relevance, utilization)
    )
    return join(
        support_probs=supported_anywhere(support, windows.response_at),
        relevance_probs=gather_tokens(relevance, windows.context_at),
        utilization_probs=gather_tokens(utilization, windows.context_at),
        response_mask=windows.response_at.max(axis=-1) >= 0,
        context_weight=windows.context_weight,
        sentence_pool=windows.sentence_pool,
        sentence_features=windows.sentence_features,
        faithfulness=faithfulness,
    )


class GatedBackend:
    """Answers as another backend does, once the test lets a call through.

    Attributes:
        calls: Token ids of each window of every call, in the order in which they began.
        workers: Number of calls that run at once.
    """

    name = "gated"

    def __init__(self, inner: Backend, workers: int = 1) -> None:
        self.workers = workers
        self.calls: list[list[set[int]]] = []
        self._inner = inner
        self._let = threading.Semaphore(0)

    def run(self, windows: Windows) -> Outputs:
        self.calls.append([set(row) for row in windows.input_ids.tolist()])
        if not self._let.acquire(timeout=30):
            raise AssertionError("nobody let this call through")
        return self._inner.run(windows)

    def let(self, calls: int = 1) -> None:
        """Let some calls through."""
        self._let.release(calls)

    def windows_with(self, token: int) -> list[int]:
        """Count the windows of every call that show a token."""
        return [sum(token in ids for ids in call) for call in self.calls]

    async def begun(self, calls: int) -> None:
        """Wait until as many calls have begun."""
        await until(lambda: len(self.calls) >= calls)


class ManyThreads:
    """Answers as another backend does, and notes for every call whether it got all threads."""

    name = "many threads"

    def __init__(self, inner: Backend, workers: int) -> None:
        self.workers = workers
        self.all_threads: list[bool] = []
        self._inner = inner

    def run(self, windows: Windows) -> Outputs:
        self.all_threads.append(False)
        return self._inner.run(windows)

    def run_all_threads(self, windows: Windows) -> Outputs:
        self.all_threads.append(True)
        return self._inner.run(windows)


class Panic(BaseException):
    """An error that is not an Exception, as libraries written in Rust raise."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for what another thread does."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def approximately(value: Any, tolerance: float) -> Any:
    """Return plain data whose floats compare approximately."""
    if isinstance(value, float):
        return pytest.approx(value, abs=tolerance)
    if isinstance(value, dict):
        return {key: approximately(item, tolerance) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(approximately(item, tolerance) for item in value)
    return value


@pytest.fixture(scope="session")
def tokenizer(wordpiece_file: Path) -> SegmentTokenizer:
    """Return the tiny BERT tokenizer; not to be changed."""
    return SegmentTokenizer.from_file(wordpiece_file)


@pytest.fixture
def formula() -> FormulaBackend:
    return FormulaBackend()


@pytest.fixture
def gated(formula: FormulaBackend) -> GatedBackend:
    return GatedBackend(formula)


@pytest.fixture
def gated_judge(judge: Evaluator, gated: GatedBackend) -> Evaluator:
    """Return an evaluator whose backend is ``gated``: four windows of 48 a call."""
    return Evaluator(judge.bundle.folder, backend=gated, positions=192)


def formula_judge(
    formula: FormulaBackend,
    folder: Path,
    tokenizer_file: Path,
    tiny_info: TinyInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> Evaluator:
    tokenizer = SegmentTokenizer.from_file(tokenizer_file)
    graph = GraphInfo(file="model.onnx", precision="fp32", opset=17, portable=True)
    info = tiny_info(tokenizer).model_copy(update={"graphs": (graph,)})
    write_bundle(folder, info, tokenizer.to_json(), extra={"model.onnx": b"never opened"})
    monkeypatch.setattr(evaluator, "load_backend", lambda *_: LoadedBackend(formula, "fp32"))
    return Evaluator(folder)


@pytest.fixture
def judge(
    formula: FormulaBackend,
    tmp_path: Path,
    wordpiece_file: Path,
    tiny_info: TinyInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> Evaluator:
    """Return an evaluator whose backend is ``formula``, on the tiny BERT tokenizer."""
    return formula_judge(formula, tmp_path / "bundle", wordpiece_file, tiny_info, monkeypatch)


@pytest.fixture
def judge_without_support(
    formula: FormulaBackend,
    tmp_path: Path,
    wordpiece_file: Path,
    tiny_info: TinyInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> Evaluator:
    """Return an evaluator like ``judge`` whose bundle has no support head."""
    run, heads = formula.run, ("relevance", "utilization")
    changes = {"heads": heads, "outputs": outputs_with(heads), "thresholds": None}

    def run_heads(windows: Windows) -> Outputs:
        lacking = {"support_probs": None, "sentence_support": None, "faithfulness": None}
        return run(windows)._replace(**lacking)

    def describe(tokenizer: SegmentTokenizer) -> BundleInfo:
        return tiny_info(tokenizer).model_copy(update=changes)

    monkeypatch.setattr(formula, "run", run_heads)
    return formula_judge(formula, tmp_path / "other", wordpiece_file, describe, monkeypatch)


@pytest.fixture(params=["wordpiece_file", "unigram_file"])
def each_judge(
    request: pytest.FixtureRequest,
    formula: FormulaBackend,
    tmp_path: Path,
    tiny_info: TinyInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> Evaluator:
    """Return evaluators whose backend is ``formula``, on either tiny tokenizer in turn."""
    file: Path = request.getfixturevalue(request.param)
    return formula_judge(formula, tmp_path / "bundle", file, tiny_info, monkeypatch)


def write_model(folder: Path, info: BundleInfo, tokenizer: str, model: RagModel) -> Path:
    """Write a bundle of a model with its weights."""
    state = model.state_dict()
    info = info.model_copy(update={"prefix_attention": model.prefix_attention})
    write_bundle(folder, info, tokenizer, weights=state, architecture=model.architecture())
    return folder


@pytest.fixture(scope="session")
def tiny_info() -> TinyInfo:
    """Return a function from a tokenizer to the description of a tiny bundle."""
    from tests.conftest import bundle_info

    def describe(tokenizer: SegmentTokenizer) -> BundleInfo:
        special = tokenizer.special
        ids = SpecialTokenIds(cls=special.cls, sep=special.sep, pad=special.pad)
        return bundle_info(special_tokens=ids)

    return describe


@pytest.fixture(scope="session")
def tiny_bundle(bert_checkpoint: Path, wordpiece_file: Path, tiny_info: TinyInfo) -> Path:
    """Write a bundle of a two-layer model, weights by formula, with both graphs."""
    from trivet.export import export_onnx
    from trivet.model.trunk import Trunk

    def write(folder: Path) -> None:
        model = RagModel(Trunk.from_pretrained(str(bert_checkpoint)))
        fill_heads(model)
        tokenizer = SegmentTokenizer.from_file(wordpiece_file)
        # Thresholds between the numbers of the golden example, so that each verdict occurs in it.
        thresholds = Thresholds(sentence=0.7, span=0.5)
        info = tiny_info(tokenizer).model_copy(update={"thresholds": thresholds})
        write_model(folder, info, tokenizer.to_json(), model)
        export_onnx(folder, threads=1)

    return once("tiny_bundle", write)


@pytest.fixture
def copied(tiny_bundle: Path, tmp_path: Path) -> Path:
    """Return a copy of ``tiny_bundle`` that a test may change."""
    return Path(shutil.copytree(tiny_bundle, tmp_path / "copied"))


def fill_heads(model: RagModel) -> None:
    """Set the heads by a formula, steep enough for probabilities far from one half."""
    with torch.no_grad():
        for number, parameter in enumerate(model.heads.parameters(), start=1):
            steps = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((2.0 * torch.sin(steps * 1.7 + number)).reshape(parameter.shape))


def kept_for_openvino(method: Method, file: str, weights: str | None = None) -> OpenVinoInfo:
    """Say that export chose a model for OpenVINO, as ``bundle.json`` does."""
    measured = OpenVinoCandidate(method=method, milliseconds=1.0, auroc_loss=0.0, rmse_loss=0.0)
    return OpenVinoInfo(
        file=file,
        weights=weights,
        method=method,
        difference=0.0,
        data="tiny",
        split="dev",
        rows=3,
        openvino="0",
        date="2026-01-31",
        candidates=(measured,),
    )


@pytest.fixture
def weights_bundle(bert_checkpoint: Path, tmp_path: Path, tiny_info: TinyInfo) -> Path:
    """Write a bundle with the weights of ``bert_checkpoint`` and random heads."""
    torch.manual_seed(0)
    model, tokenizer = initial_model(str(bert_checkpoint), "plain", "weakest_sentence")
    return write_model(tmp_path / "bundle", tiny_info(tokenizer), tokenizer.to_json(), model)
