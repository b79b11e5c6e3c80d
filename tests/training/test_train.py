"""Training, end to end on a tiny encoder and a few rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import trivet.train
from tests.training.conftest import MILL, PAIRS, ConfigOf, log_of
from trivet.bundle.bundle import WEIGHTS_NAME, WindowInfo, read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import WindowSettings, collate, lay_out
from trivet.model.rag_model import as_tensors
from trivet.records import ConfigError, RagExample
from trivet.train import train
from trivet.training.progress import BarProgress

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_run_ends_in_a_bundle_that_has_learnt_its_four_examples(
    tmp_path: Path, config_of: ConfigOf
) -> None:
    rates = ("optim.encoder_lr=5e-3", "optim.head_lr=5e-3", "optim.epochs=10")
    folder = train(config_of(tmp_path, *rates))

    bundle = read_bundle(folder)
    info = bundle.info
    assert (info.window.size, info.window.stride_overlap) == (64, 0)
    assert info.heads == ("support", "relevance", "utilization")
    assert vars(info.thresholds).keys() == {"sentence", "span"}
    assert all(0 < value < 1 for value in vars(info.thresholds).values())
    assert [(item.name, item.rows) for item in info.training.data] == [("tiny", 24)]
    assert str(tmp_path) not in (folder / "encoder.json").read_text(encoding="utf-8")

    model = load_rag_model(bundle)
    tokenizer = SegmentTokenizer.from_file(bundle.path("tokenizer.json"))
    examples = [RagExample("What of the mill?", tuple(MILL), response) for response, _ in PAIRS]
    layouts = [
        lay_out(read, WindowSettings(64), tokenizer.special)
        for read in tokenize_examples(examples, tokenizer)
    ]
    with torch.inference_mode():
        outputs = model(*as_tensors(collate(layouts, tokenizer.special.pad)))
    adherent = (outputs.faithfulness >= info.thresholds.sentence).tolist()
    assert adherent == [supported for _, supported in PAIRS]
    assert outputs.relevance.tolist() == pytest.approx([1 / 3] * 4, abs=0.1)

    logged = log_of(tmp_path)
    totals = [float(line["loss/total"]) for line in logged if line["loss/total"]]
    assert totals[-1] < 0.5 * totals[0]


def test_the_same_seed_gives_the_same_weights_and_a_bundle_names_every_step(
    data: tuple[Path, Path],
    tmp_path: Path,
    config_of: ConfigOf,
    write_rows: Callable[[str, int, str], Path],
) -> None:
    short = ("optim.batch_windows=8", "optim.epochs=1")
    first = train(config_of(tmp_path / "first", *short), command="trivet train a")
    again = train(config_of(tmp_path / "again", *short))
    weights = (load_file(bundle / WEIGHTS_NAME) for bundle in (first, again))
    torch.testing.assert_close(*weights, atol=1e-6, rtol=1e-5)

    fewer = (write_rows("fewer.jsonl", 8, "train"), data[1])
    start = ("encoder.init=bundle", f"encoder.name={first}")
    config = config_of(tmp_path / "b", *start, *short, data=fewer)
    info = read_bundle(train(config, command="trivet train b")).info.training
    assert info.command == "trivet train a && trivet train b"
    # The second step saw eight of the rows of the first: no new data.
    assert [(each.name, each.rows) for each in info.data] == [("tiny", 24)]


def test_everything_that_can_be_switched_on_works_together(
    tmp_path: Path, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trivet.train, "progress_callback", BarProgress)  # as on a terminal
    settings = (
        "run.precision=bf16",
        "run.gradient_cosine_steps=2",
        "loss={learned: true, share: 1.0, verdict_always: true}",
        "optim={batch_windows: 8, call_windows: 3, encoder_lr: 1e-3, head_lr: 1e-3, epochs: 2}",
        "encoder={trunk: partial, shared_layers: 1}",
        "window={size: 64, sizes: [32, 64], evidence_sentences: 1, evidence_for: all}",
        "data.augment={insert_contexts: 0.5, cut_response: 0.2, empty_response: 0.2}",
    )
    info = read_bundle(train(config_of(tmp_path, *settings))).info
    assert info.trunk == "partial"
    assert info.window == WindowInfo(
        size=64,
        sizes=(32, 64),
        break_even=2 * 16 + 32,
        evidence_sentences=1,
        evidence_for="all",
    )
    assert info.window.settings() == WindowSettings(64, 0, (32, 64), 64, 1, "all")
    logged = log_of(tmp_path)
    assert {line["learned_weight/support"] for line in logged} - {"", "1.0"}, "it has moved"
    cosine = "gradient_cosine/relevance_utilization"
    assert [line["step"] for line in logged if line[cosine]] == ["0", "2", "4", "6", "8", "10"]
    assert all(-1.001 <= float(line[cosine]) <= 1.001 for line in logged if line[cosine])
    for head in ("support", "relevance", "utilization"):
        assert all(float(line[f"head/{head}"]) >= 0 for line in logged if line[f"head/{head}"])


@pytest.fixture(scope="module")
def few(write_rows: Callable[[str, int, str], Path]) -> tuple[Path, Path]:
    return write_rows("train.jsonl", 2, "train"), write_rows("dev.jsonl", 2, "dev")


@pytest.mark.parametrize(
    ("overrides", "trunk", "layers", "granularity"),
    [
        (["encoder.trunk=separate"], "separate", None, "token"),
        (["encoder.trunk=partial", "encoder.shared_layers=1"], "partial", 1, "token"),
        (["granularity=example", "encoder.shared_layers=1"], "shared", None, "example"),
    ],
)
def test_every_kind_of_trunk_ends_in_its_own_kind_of_bundle(
    few: tuple[Path, Path],
    tmp_path: Path,
    config_of: ConfigOf,
    overrides: list[str],
    trunk: str,
    layers: int | None,
    granularity: str,
) -> None:
    bundle = read_bundle(train(config_of(tmp_path, "optim.epochs=1", *overrides, data=few)))
    info = bundle.info
    assert (info.trunk, info.shared_layers, info.granularity) == (trunk, layers, granularity)
    model = load_rag_model(bundle)
    assert model.trunk.kind == trunk and model.granularity == granularity


def test_a_group_on_both_sides_is_refused_by_name(
    data: tuple[Path, Path], tmp_path: Path, config_of: ConfigOf
) -> None:
    with pytest.raises(ConfigError, match=r"1 groups? .*in both train and dev, .*'train' of tiny"):
        train(config_of(tmp_path, data=(data[0], data[0])))
    assert not (tmp_path / "bundle").exists()


def test_a_split_without_rows_is_refused_by_name(
    data: tuple[Path, Path], tmp_path: Path, config_of: ConfigOf
) -> None:
    train_on = f"data.train=[{{spec: 'jsonl:{data[0]}', split: all, only: [other]}}]"
    with pytest.raises(ConfigError, match=r"train\.jsonl has no rows in split 'all' from other"):
        train(config_of(tmp_path, train_on))


def test_a_new_run_refuses_the_checkpoints_of_another(tmp_path: Path, config_of: ConfigOf) -> None:
    stale = tmp_path / "checkpoints" / "last.ckpt"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of another run")
    with pytest.raises(ConfigError, match=r"run\.folder: .* holds the checkpoints of a run"):
        train(config_of(tmp_path))
