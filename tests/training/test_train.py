"""Training, end to end on a tiny encoder and a few rows."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import trivet.train
from tests.training.conftest import MILL, PAIRS, ConfigOf, log_of
from trivet.bundle.bundle import TEXTS_NAME, WEIGHTS_NAME, add_files, read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.data.collating import collate
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import WindowSettings, lay_out
from trivet.errors import ConfigError
from trivet.labelled.grouping import shares_text
from trivet.labelled.sources import load_source
from trivet.model.rag_model import as_tensors
from trivet.records import RagExample
from trivet.train import finish, plan, train
from trivet.training.run_progress import BarProgress
from trivet.training.training_rows import load_training_rows


def test_a_run_ends_in_a_bundle_that_has_learnt_its_four_examples(
    tmp_path: Path, config_of: ConfigOf
) -> None:
    rates = ("optim.encoder_lr=5e-3", "optim.head_lr=5e-3", "optim.epochs=10")
    folder = train(config_of(tmp_path, *rates))

    bundle = read_bundle(folder)
    info = bundle.info
    assert (info.window.size, info.window.stride_overlap) == (64, 0)
    assert info.heads == ("support", "relevance", "utilization")
    assert info.thresholds is not None
    assert 0 < info.thresholds.sentence < 1 and 0 < info.thresholds.span < 1
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
    assert info.thresholds is not None
    adherent = (outputs.faithfulness >= info.thresholds.sentence).tolist()
    assert adherent == [supported for _, supported in PAIRS]
    assert outputs.relevance.tolist() == pytest.approx([1 / 3] * 4, abs=0.1)

    checkpoints = tmp_path / "checkpoints"
    saved = {path.stem: torch.load(path, weights_only=True) for path in checkpoints.iterdir()}
    assert "optimizer_states" in saved["last"] and "optimizer_states" not in saved["best"]
    assert saved["last"]["state_dict"].keys() == saved["best"]["state_dict"].keys()

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
    assert [(info.name, info.rows) for info in info.data] == [("tiny", 24)]


def test_a_run_is_finished_from_its_weights_alone(tmp_path: Path, config_of: ConfigOf) -> None:
    short = ("optim.batch_windows=8", "optim.epochs=1", "optim.max_steps=3")
    whole = train(config_of(tmp_path / "whole", *short))
    last = torch.load(tmp_path / "whole/checkpoints/last.ckpt", weights_only=True)["state_dict"]
    weights = tmp_path / "weights.safetensors"
    save_file({name: tensor.half() for name, tensor in last.items()}, weights)
    cache = tmp_path / "cache"
    config = config_of(tmp_path / "finished", *short, f"data.cache={cache}")
    finished = read_bundle(finish(config, weights, "trivet train --finish"))
    assert finished.info.training.settings["steps"] == 3
    assert finished.info.thresholds is not None
    assert len([*cache.glob("*.arrow")]) == 1, "only the rows of dev are prepared"
    assert finished.training_texts() == read_bundle(whole).training_texts()
    states = load_file(finished.folder / WEIGHTS_NAME), load_file(whole / WEIGHTS_NAME)
    torch.testing.assert_close(*states, atol=1e-3, rtol=1e-2)
    other = config_of(tmp_path / "other", *short, "heads=[support]")
    with pytest.raises(ConfigError, match=r"weights\.safetensors: not the weights of this"):
        finish(other, weights)


def test_pairs_and_the_plain_encoders_similarity_are_learnt(
    tmp_path: Path, config_of: ConfigOf, encoder: Path
) -> None:
    settings = (
        "heads=[support, relevance, utilization, evidence]",
        "loss={opposites: 1.0, similarity: 10.0, window: 0, token: 0, verdict: 0, evidence: 0}",
        "optim={encoder_lr: 5e-3, head_lr: 5e-3, epochs: 20, batch_windows: 8}",
    )
    bundle = train(config_of(tmp_path, *settings))
    logged = [line for line in log_of(tmp_path) if line["loss/similarity"]]
    for name in ("loss/opposites", "loss/similarity"):
        assert float(logged[-1][name]) < 0.6 * float(logged[0][name])
    more = (*settings, "encoder.init=bundle", f"encoder.name={bundle}", "optim.epochs=1")
    with pytest.raises(ConfigError, match=r"distill\.retriever"):
        config_of(tmp_path / "more", *more)
    with pytest.raises(ConfigError, match=r"distill\.retriever: cannot load '.*/none'"):
        train(config_of(tmp_path / "more", *more, f"distill.retriever={tmp_path}/none"))
    train(config_of(tmp_path / "more", *more, f"distill.retriever={encoder}"))
    again = next(line for line in log_of(tmp_path / "more") if line["loss/similarity"])
    assert float(again["loss/similarity"]) < 0.6 * float(logged[0]["loss/similarity"])


def test_everything_that_can_be_switched_on_works_together(
    tmp_path: Path, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trivet.train, "progress_callback", BarProgress)  # as on a terminal
    settings = (
        "run.precision=bf16",
        "run.gradient_cosine_steps=2",
        "loss={share: 1.0, verdict_always: true}",
        "optim={batch_windows: 8, call_windows: 3, encoder_lr: 1e-3, head_lr: 1e-3, epochs: 2}",
        "encoder={trunk: partial, shared_layers: 1}",
        "window={size: 64, evidence_sentences: 1, sort_contexts: true}",
        "data.augment={insert_contexts: 0.5, cut_response: 0.2, empty_response: 0.2}",
    )
    info = read_bundle(train(config_of(tmp_path, *settings))).info
    assert info.trunk == "partial"
    assert info.window == WindowSettings(64, 0, 1, sort_contexts=True)
    logged = log_of(tmp_path)
    cosine = "gradient_cosine/relevance_utilization"
    assert [line["step"] for line in logged if line[cosine]] == ["0", "2", "4"]
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


def test_groups_with_texts_of_the_test_rows_are_left_out_and_counted(
    data: tuple[Path, Path],
    tmp_path: Path,
    config_of: ConfigOf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines = [json.loads(line) for line in data[0].read_text(encoding="utf-8").splitlines()]
    for number, line in enumerate(lines):
        mill = f"Mill {number // 8} stands alone on the river."
        line |= {"group": f"g{number // 8}", "question": f"{number}?", "contexts": [*MILL, mill]}
        line["contexts"] = line["contexts"] if number // 8 else line["contexts"][:2]
    written = tmp_path / "given.jsonl"
    written.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    tested = tmp_path / "tested.jsonl"
    test = {**lines[-1], "group": "t", "contexts": [lines[-1]["contexts"][2]], "labels": {}}
    test["labels"] = {"adherent": True}
    tested.write_text(json.dumps(test), encoding="utf-8")
    overrides = ("optim.epochs=1", f"data.test=[{{spec: 'jsonl:{tested}', split: all}}]")
    config = config_of(tmp_path / "run", *overrides, data=(written, data[1]))
    with caplog.at_level(logging.INFO, logger="trivet"):
        bundle = read_bundle(train(config))
    assert "because of 1 rows in data.test: 8 rows of 1 groups" in caplog.text
    assert "because of data.test: 8 rows of 1 groups" in plan(config)
    assert [info.rows for info in bundle.info.training.data] == [16]
    left = bundle.info.training.left_out
    assert left is not None and (left.rows, left.same_groups, left.passage_groups) == (8, 0, 1)
    assert left.tests == (f"jsonl:{tested} all",)
    assert "8 rows; 0 groups of these rows, 1 that share a passage" in bundle.path(
        "README.md"
    ).read_text(encoding="utf-8")

    texts = bundle.training_texts()
    assert texts is not None
    kept, _ = load_source(f"jsonl:{written}")
    assert [shares_text(row, texts) for row in kept] == [True] * 24  # MILL is in all of them
    (row,), _ = load_source(f"jsonl:{tested}")
    assert not shares_text(row, texts)


def test_a_part_of_the_groups_is_read_each_with_all_its_rows(
    tmp_path: Path, config_of: ConfigOf
) -> None:
    statements = Path("training_data/statements.jsonl.xz").resolve()

    def groups(part: float) -> Counter[str]:
        source = f"data.train=[{{spec: 'jsonl:{statements}', split: all}}]"
        rows, *_ = load_training_rows(config_of(tmp_path, source, f"data.part={part}"))
        return Counter(row.group for row in rows)

    everything, some = groups(1.0), groups(0.4)
    assert 0.35 < len(some) / len(everything) < 0.45
    assert some == Counter({group: everything[group] for group in some})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "data.test=[{{spec: 'jsonl:{}', split: all}}]",
            r"data\.test: each of the 24 training rows shares a group, a passage or a question",
        ),
        (
            "data.dev=[{{spec: 'jsonl:{}', split: all}}]",
            r"1 groups? .*in both train and dev, .*'train' of tiny",
        ),
        (
            "data.train=[{{spec: 'jsonl:{}', split: all, only: [other]}}]",
            r"train\.jsonl has no rows in split 'all' from other",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    data: tuple[Path, Path], tmp_path: Path, config_of: ConfigOf, setting: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        train(config_of(tmp_path, setting.format(data[0])))
    assert not list(tmp_path.iterdir())


def test_a_bundle_keeps_the_training_texts_of_the_one_it_began_from(
    few: tuple[Path, Path], data: tuple[Path, Path], tmp_path: Path, config_of: ConfigOf
) -> None:
    first = train(config_of(tmp_path / "first", "optim.epochs=1", data=few))
    other = json.loads(few[0].read_text(encoding="utf-8").splitlines()[0])
    other |= {"question": "Which ferry?", "contexts": [MILL[0] + " So it is.", MILL[1]]}
    file = tmp_path / "other.jsonl"
    file.write_text(json.dumps(other), encoding="utf-8")
    start = ("encoder.init=bundle", f"encoder.name={first}", "optim.epochs=1")
    second = train(config_of(tmp_path / "second", *start, data=(file, few[1])))
    before, now = read_bundle(first).training_texts(), read_bundle(second).training_texts()
    assert before and now and before < now
    add_files(first, {}, without={TEXTS_NAME})
    third = train(config_of(tmp_path / "third", *start, data=(file, few[1])))
    assert read_bundle(third).training_texts() is None  # what it began from is not known


def test_a_new_run_refuses_the_checkpoints_of_another(tmp_path: Path, config_of: ConfigOf) -> None:
    stale = tmp_path / "checkpoints" / "last.ckpt"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of another run")
    with pytest.raises(ConfigError, match=r"run\.folder: .* holds the checkpoints of a run"):
        train(config_of(tmp_path))


def test_bf16_that_the_cpu_would_emulate_becomes_fp32(
    tmp_path: Path, config_of: ConfigOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = "run.precision=bf16", "run.accelerator=cpu", "optim.max_steps=1"
    for native, precision in ((False, "fp32"), (True, "bf16")):
        found = {"avx512_bf16": native}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=found: found, raising=False)
        info = read_bundle(train(config_of(tmp_path / precision, *settings))).info
        assert info.training.settings["precision"] == precision
