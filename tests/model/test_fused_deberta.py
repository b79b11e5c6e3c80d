"""``optim.fused_attention``: the kernels compute what the library does; refusals say what to do.

Without a GPU, where flashdeberta is installed: TRITON_INTERPRET=1 python -m pytest FILE
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

from tests.training.conftest import PAIRS, row
from trivet.configs.loading import load_config
from trivet.configs.schema import TrainConfig
from trivet.errors import ConfigError
from trivet.model import fused_deberta
from trivet.model.trunk import Trunk
from trivet.train import plan, train


def trunk_of(attention_dropout: float = 0.0) -> Trunk:
    """Return a random DeBERTa-v3 of two layers, whose heads are as wide as the kernels need."""
    torch.manual_seed(0)
    config = transformers.DebertaV2Config(  # type: ignore[call-arg]
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        relative_attention=True,
        position_buckets=8,
        max_relative_positions=-1,
        max_position_embeddings=64,
        pos_att_type=["p2c", "c2p"],
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        type_vocab_size=0,
        attention_probs_dropout_prob=attention_dropout,
        hidden_dropout_prob=0.0,
    )
    return Trunk(transformers.DebertaV2Model(config))


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the device of the kernels; on a CPU they run in Triton's interpreter."""
    if request.param == "cpu":
        if os.environ.get("TRITON_INTERPRET") != "1":  # read when Triton is imported
            pytest.skip("TRITON_INTERPRET is not 1")
        monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    pytest.importorskip("flashdeberta")
    return str(request.param)


@pytest.mark.filterwarnings("ignore")  # of the interpreter, on a row without tokens
def test_answers_and_gradients_are_the_librarys(device: str) -> None:
    library = trunk_of().to(device)
    fused = copy.deepcopy(library)
    assert fused_deberta.fuse_deberta_attention(fused) == 2
    assert list(fused.state_dict()) == list(library.state_dict())
    mask = (torch.arange(32) < torch.tensor([32, 20, 0])[:, None]).long().to(device)
    ids = (torch.arange(96).view(3, 32).to(device) * 7 % 95 + 5) * mask
    found: list[Tensor] = []
    for trunk in (library, fused):
        hidden = trunk.encode(ids, mask, torch.zeros_like(ids)) * mask[..., None]
        hidden.sin().sum().backward()
        found.append(hidden)
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-5)
    for one, other in zip(library.parameters(), fused.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad, atol=1e-4, rtol=1e-4)


def test_other_encoders_dropout_and_long_windows_are_refused(
    tiny_bert: transformers.BertModel,
) -> None:
    for trunk, size, why in (
        (Trunk(tiny_bert), 64, "the encoder is not a DeBERTa"),
        (trunk_of(attention_dropout=0.1), 64, r"encoder\.attention_dropout=0"),
        (trunk_of(), 1024, r"window\.size is 1024"),
    ):
        with pytest.raises(ConfigError, match=rf"^optim\.fused_attention: .*{why}"):
            fused_deberta.check_fusable(trunk, size)
    fused_deberta.check_fusable(trunk_of(), 64)


def test_a_machine_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"^optim\.fused_attention: there is no GPU"):
        fused_deberta.fuse_deberta_attention(trunk_of())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "flashdeberta", None)
    with pytest.raises(ConfigError, match=r"pip install -c constraints.txt '\.\[flash\]'"):
        fused_deberta.fuse_deberta_attention(trunk_of())


class Fused(DisentangledSelfAttention):
    """Stands in for the package's class, and counts its calls."""

    calls = 0

    def forward(self, *given: Any, **named: Any) -> Any:
        """Attend as the library does."""
        Fused.calls += 1
        return super().forward(*given, **named)  # type: ignore[no-untyped-call]


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> type[Fused]:
    """Let the package and a GPU seem to be there, the GPU for the check alone."""
    fake = SimpleNamespace(FlashDisentangledSelfAttention=Fused)
    monkeypatch.setitem(sys.modules, "flashdeberta", fake)
    cuda = SimpleNamespace(is_available=lambda: True)
    monkeypatch.setattr(fused_deberta, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(Fused, "calls", 0)
    return Fused


def config_of(folder: Path, encoder: Path, *overrides: str) -> TrainConfig:
    """Return the configuration of a fused run on the rows of ``train.jsonl`` and ``dev.jsonl``."""
    given = [f"encoder.name={encoder}", f"run.folder={folder / 'run'}", "optim.epochs=1"]
    for part in ("train", "dev"):
        spec = f"jsonl:{folder / part}.jsonl"
        given.append(f"data.{part}=[{{spec: '{spec}', split: all}}]")
    given += ["optim.fused_attention=true", "encoder.attention_dropout=0", "run.accelerator=auto"]
    return load_config([Path("tiny.yaml")], [*given, *overrides])


def test_a_run_trains_with_the_kernels(
    tmp_path: Path, nli_checkpoint: Path, kernels: type[Fused]
) -> None:
    for part in ("train", "dev"):
        lines = [json.dumps(row(n, *PAIRS[n], part)) for n in range(4)]
        (tmp_path / f"{part}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    config = config_of(tmp_path, nli_checkpoint)
    assert "train: 4 rows" in plan(config)
    assert kernels.calls == 0
    train(config)
    assert kernels.calls > 0


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (["run.accelerator=cpu"], r"run\.accelerator is cpu"),
        (["encoder.attention_dropout=0.1"], r"set encoder\.attention_dropout=0"),
    ],
)
@pytest.mark.parametrize("ask", [train, plan])
@pytest.mark.usefixtures("kernels")
def test_a_run_that_cannot_be_fused_is_refused_before_its_data_are_read(
    tmp_path: Path,
    nli_checkpoint: Path,
    overrides: list[str],
    why: str,
    ask: Callable[[TrainConfig], object],
) -> None:
    for part in ("train", "dev"):
        (tmp_path / f"{part}.jsonl").touch()  # without rows, which reading refuses
    config = config_of(tmp_path, nli_checkpoint, *overrides)
    with pytest.raises(ConfigError, match=rf"^optim\.fused_attention: .*{why}"):
        ask(config)
    assert not (tmp_path / "run").exists()
