"""Engines are kept only if they answer like fp32, and loaded only where they were built."""

from __future__ import annotations

import functools
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from trivet.backends.opening import load_engine
from trivet.backends.profiles import make_profiles
from trivet.backends.tensorrt_build import EngineCache
from trivet.bundle.backend_info import EngineTarget
from trivet.bundle.bundle import read_bundle
from trivet.errors import BackendError, BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.exporting.tensorrt_export import export_tensorrt
from trivet.records import Evaluation, LabelledExample, RagExample

pytestmark = pytest.mark.usefixtures("fake_tensorrt")


Rows = tuple[LabelledExample, ...]


def test_an_engine_is_built_compared_kept_and_noted(
    engine_bundle: Path, own_cache: Path, dev_rows: Rows
) -> None:
    steps: list[tuple[str, int, int]] = []
    info = export_tensorrt(
        engine_bundle, dev_rows, "tiny", progress=lambda *step: steps.append(step)
    )
    assert 0 < info.difference <= 0.02
    assert (info.rows, info.flipped, info.precision) == (3, 0, "fp16")
    assert info.auroc_loss == 0 and abs(info.rmse_loss or 0) < 0.003
    assert info.target == EngineTarget(tensorrt="11.1.0.106", gpu="GPU", compute_capability="8.9")
    bundle = read_bundle(engine_bundle)
    assert bundle.info.engines == (info,)
    assert info.graph_sha256 == bundle.manifest.files["model.fp16.onnx"].sha256
    files = {path.name for path in own_cache.iterdir()}
    assert files == {f"{info.key}.engine", f"{info.key}.json", "timing.cache"}
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in own_cache.iterdir()} == {0o600}
    expected = [("build", 2, 2), ("rows, engine", 3, 3), ("rows, reference", 3, 3)]
    assert sorted({step for step in steps if step[1] == step[2]}) == expected
    # A second one takes the place of the first.
    export_tensorrt(engine_bundle, dev_rows, "tiny")
    assert len(read_bundle(engine_bundle).info.engines) == 1


def test_the_evaluator_runs_it(
    engine_bundle: Path, dev_rows: Rows, rag_examples: tuple[RagExample, ...]
) -> None:
    export_tensorrt(engine_bundle, dev_rows, "tiny")
    on_gpu = Evaluator(engine_bundle, backend="tensorrt")
    on_cpu = Evaluator(engine_bundle, precision="fp32")
    assert (on_gpu.backend_name, on_gpu.precision) == ("tensorrt fp16 on GPU", "fp16")
    results = zip(
        on_cpu.evaluate_many(rag_examples), on_gpu.evaluate_many(rag_examples), strict=True
    )
    for verdict, other in results:
        assert isinstance(verdict, Evaluation) and isinstance(other, Evaluation)
        want, have = verdict.to_dict(), other.to_dict()
        for name in ("faithfulness", "relevance", "utilization", "completeness"):
            assert have.get(name) == pytest.approx(want.get(name), abs=0.02), name


@pytest.mark.parametrize(
    ("fault", "message"),
    [(0.03, r"differs from fp32 by 0\.03\d? in the mean on"), (0.015, r"loses .* of RMSE on 3")],
)
def test_an_engine_that_is_off_is_not_kept(
    engine_bundle: Path,
    own_cache: Path,
    fake_tensorrt: Any,
    dev_rows: Rows,
    fault: float,
    message: str,
) -> None:
    fake_tensorrt.fault = fault
    with pytest.raises(BackendError, match=rf"{message}.* not kept\. .*bf16"):
        export_tensorrt(engine_bundle, dev_rows, "tiny")
    assert read_bundle(engine_bundle).info.engines == ()
    assert not list(own_cache.glob("*.engine"))


def test_the_exported_graph_is_built_and_attention_may_be_split(
    fused_bundle: Path, fake_tensorrt: Any, dev_rows: Rows
) -> None:
    info = export_tensorrt(fused_bundle, dev_rows, "tiny")
    assert fake_tensorrt.parsed == [info.graph] == ["model.fp16.onnx"]


def test_weights_beside_the_graph_are_built_and_make_another_engine(
    engine_bundle: Path, apart_bundle: Path, dev_rows: Rows
) -> None:
    whole, apart = (
        export_tensorrt(folder, dev_rows, "tiny") for folder in (engine_bundle, apart_bundle)
    )
    assert whole.graph == apart.graph and whole.key != apart.key
    assert len(read_bundle(apart_bundle).graph_files(apart.graph)) == 2
    assert Evaluator(apart_bundle, backend="tensorrt").precision == "fp16"


def test_the_portable_graph_is_built_where_attention_is_not(
    fused_bundle: Path, fake_tensorrt: Any, dev_rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    fake_tensorrt.reads_attention = False
    info = export_tensorrt(fused_bundle, dev_rows, "tiny")
    assert fake_tensorrt.parsed == ["model.fp16.onnx", info.graph]
    assert info.graph == "model.fp16.portable.onnx"
    assert "building the portable graph instead" in caplog.text
    assert load_engine(read_bundle(fused_bundle)).precision == "fp16"
    # Again, with the portable graph already there.
    export_tensorrt(fused_bundle, dev_rows, "tiny")
    assert len(read_bundle(fused_bundle).info.engines) == 1


def test_no_engine_of_another_version_graph_or_shape_is_loaded(
    engine_bundle: Path, fake_tensorrt: Any, dev_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = read_bundle(engine_bundle)
    with pytest.raises(BackendError, match=r"no engine of .*model\.fp16\.onnx for GPU.*: none\)"):
        load_engine(bundle)
    export_tensorrt(engine_bundle, dev_rows, "tiny")
    bundle = read_bundle(engine_bundle)
    load_engine(bundle)
    with monkeypatch.context() as patch:
        fewer = functools.partial(make_profiles, max_windows=8)
        patch.setattr("trivet.backends.opening.make_profiles", fewer)
        with pytest.raises(BackendError, match="no engine"):
            load_engine(bundle)
    with pytest.raises(BackendError, match="no engine"):
        load_engine(bundle, "fp32")
    fake_tensorrt.__version__ = "11.4.0"
    with pytest.raises(
        BackendError, match=r"TensorRT 11\.4\.0 \(built so far: GPU and TensorRT 11\.1"
    ):
        load_engine(bundle)
    with pytest.raises(BackendError, match="no device cuda:1"):
        load_engine(bundle, device="cuda:1")


def test_an_engine_whose_answers_changed_is_refused(
    engine_bundle: Path, fake_tensorrt: Any, dev_rows: Rows
) -> None:
    export_tensorrt(engine_bundle, dev_rows, "tiny")
    fake_tensorrt.fault = 0.05
    with pytest.raises(BundleError, match=r"model\.fp16\.onnx: self-test: answers differ by 0\.05"):
        load_engine(read_bundle(engine_bundle))


# The cache ------------------------------------------------------------------------------------


def test_a_folder_that_others_can_change_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(BackendError, match=r"open to other users \(mode 0755\).*chmod 700"):
        EngineCache(folder)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(BackendError, match="not a folder"):
        EngineCache(link)
    file = tmp_path / "file"
    file.write_text("")
    for target in (file, file / "engines"):
        with pytest.raises(BackendError, match="not a folder that can be created"):
            EngineCache(target)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(BackendError, match="belongs to user"):
        EngineCache(tmp_path / "engines")


def test_a_damaged_engine_is_refused(engine_bundle: Path, own_cache: Path, dev_rows: Rows) -> None:
    info = export_tensorrt(engine_bundle, dev_rows, "tiny")
    (plan,) = own_cache.glob("*.engine")
    plan.write_bytes(plan.read_bytes() + b"x")
    with pytest.raises(BackendError, match=r"not the engine that .* describes; remove it"):
        EngineCache().get(info.key)
    plan.with_suffix(".json").write_text("{}")
    with pytest.raises(BackendError, match="damaged, remove it"):
        EngineCache().get(info.key)
