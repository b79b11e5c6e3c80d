"""A teacher's logits on the same windows are targets, also where rows have no labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.training.conftest import MILL, PAIRS, ConfigOf, log_of
from trivet.bundle.bundle import TOKENIZER_NAME, WEIGHTS_NAME, read_bundle, write_bundle
from trivet.bundle.weights import load_rag_model
from trivet.data.evidence_pairs import window_sentences
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.errors import ConfigError
from trivet.labelled.datamodule import Batch, collate_items, prepare
from trivet.model.aggregate import evidence_logits
from trivet.model.rag_model import RagModel
from trivet.records import LabelledExample, Labels, RagExample
from trivet.train import plan, train
from trivet.training.teacher import Teacher, load_teacher

ROWS = [
    LabelledExample(RagExample("What of the mill?", tuple(MILL), response), Labels(), "tiny", "g")
    for response, _ in PAIRS
]


@pytest.fixture(scope="module")
def bundle(config_of: ConfigOf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a bundle with all four heads."""
    heads = "heads=[support,relevance,utilization,evidence]"
    folder = tmp_path_factory.mktemp("teacher")
    return train(config_of(folder, heads, "optim.head_lr=0.05", "optim.encoder_lr=0.01"))


def read(bundle: Path) -> tuple[RagModel, SegmentTokenizer, Batch]:
    loaded = read_bundle(bundle)
    tokenizer = SegmentTokenizer.from_file(loaded.path(TOKENIZER_NAME))
    items = prepare(ROWS, tokenizer, WindowSettings(32))
    return load_rag_model(loaded), tokenizer, collate_items(items, tokenizer.special.pad)


def renumbered(bundle: Path, folder: Path) -> Path:
    """Write a bundle that differs from another in the numbers of its words alone."""
    loaded = read_bundle(bundle)
    tokenizer = json.loads(loaded.path(TOKENIZER_NAME).read_text(encoding="utf-8"))
    words = tokenizer["model"]["vocab"]
    special = {token["id"] for token in tokenizer["added_tokens"]}
    free = [number for number in words.values() if number not in special]
    new = dict(zip(free, free[::-1], strict=True))
    tokenizer["model"]["vocab"] = {word: new.get(n, n) for word, n in words.items()}
    model = load_rag_model(loaded)
    (table,) = (weight for name, weight in model.named_parameters() if "word_embeddings" in name)
    table.data[[new[n] for n in free]] = table.data[free].clone()
    write_bundle(
        folder,
        loaded.info,
        json.dumps(tokenizer),
        weights=model.state_dict(),
        architecture=model.architecture(),
    )
    return folder


def test_a_model_has_nothing_to_learn_from_itself(bundle: Path) -> None:
    model, tokenizer, batch = read(bundle)
    teacher = load_teacher(str(bundle), tokenizer, 32, weight=1.0, max_windows=2)
    losses = teacher.losses(batch, model.read(*batch.windows[:3]))
    assert set(losses) == {"support", "relevance", "utilization", "evidence"}
    for head, loss in losses.items():
        slopes = torch.autograd.grad(
            loss, list(model.parameters()), retain_graph=True, allow_unused=True
        )
        assert max(float(slope.abs().max()) for slope in slopes if slope is not None) < 1e-5, head


def test_ids_may_differ(bundle: Path, tmp_path: Path) -> None:
    model, tokenizer, batch = read(bundle)
    logits = {head: torch.randn_like(raw) for head, raw in model.read(*batch.windows[:3]).items()}
    teacher, other = (
        load_teacher(str(folder), tokenizer, 32, weight=1.0, max_windows=2)
        for folder in (bundle, renumbered(bundle, tmp_path / "renumbered"))
    )
    assert not torch.equal(teacher.ids, other.ids)
    expected = teacher.losses(batch, logits)
    for head, loss in other.losses(batch, logits).items():
        torch.testing.assert_close(loss, expected[head])
    misread = Teacher(other.model, teacher.ids, 1.0, 2).losses(batch, logits)
    assert all(abs(float(misread[head] - expected[head])) > 1e-4 for head in expected)


def test_each_loss_is_the_mean_cross_entropy_of_the_places_of_its_head(bundle: Path) -> None:
    model, tokenizer, _ = read(bundle)
    contexts = tuple(" ".join([text] * times) for times in range(1, 5) for text in MILL)
    longer = [replace(row, example=replace(row.example, contexts=contexts)) for row in ROWS]
    items = prepare(longer, tokenizer, WindowSettings(32))
    batch = collate_items(items, tokenizer.special.pad)
    assert len(batch.windows.input_ids) > 2 * len(items), "rows of several windows"
    taught = {head: tensor.detach() for head, tensor in model.read(*batch.windows[:3]).items()}
    ours = {head: torch.randn_like(tensor) for head, tensor in taught.items()}
    terms = load_teacher(str(bundle), tokenizer, 32, weight=3.0, max_windows=2).losses(batch, ours)

    def entropy(probs: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        both = torch.stack([-nn.functional.logsigmoid(-logits), -nn.functional.logsigmoid(logits)])
        return (torch.stack([1 - probs, probs]) * both).sum(0)

    expected = dict.fromkeys(terms, torch.tensor(0.0))
    first = 0  # window of the example
    for b, item in enumerate(items):
        layout = item.layout
        token, copy = (layout.response_row >= 0).nonzero()
        at = first + layout.response_row[token, copy], layout.response_column[token, copy]
        losses = -(taught["support"][at].softmax(-1) * ours["support"][at].log_softmax(-1)).sum(-1)
        expected["support"] = expected["support"] + losses.mean()
        for head in ("relevance", "utilization"):
            rows = range(len(layout.rows))
            context = torch.cat([torch.from_numpy(layout.row_context[row]) for row in rows])
            places = [(first + row, c) for row in rows for c in layout.row_columns[row]]
            where = tuple(torch.tensor(index) for index in zip(*places, strict=True))
            losses = entropy(taught[head][where].sigmoid(), ours[head][where])
            shares = batch.windows.context_weight[b][context]
            counts = torch.bincount(context)[context]
            expected[head] = expected[head] + (losses * shares / counts).sum()
        pairs = []
        for row in range(len(layout.rows)):
            shown = window_sentences(layout, row, batch.windows.input_ids.shape[1])
            pools = [torch.from_numpy(shown[part])[None] for part in (1, 3)]
            logits, truth = (
                evidence_logits(by_head["evidence"][first + row][None], *pools)
                for by_head in (ours, taught)
            )
            pairs.append(entropy(truth.sigmoid(), logits).flatten())
        expected["evidence"] = expected["evidence"] + torch.cat(pairs).mean()
        first += len(layout.rows)
    for head, loss in terms.items():
        torch.testing.assert_close(loss, 3 * expected[head], msg=head)


def test_rows_without_labels_teach(bundle: Path, config_of: ConfigOf, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    lines = [
        {"question": "What of the mill?", "contexts": MILL, "response": response, "labels": {}}
        for response, _ in PAIRS * 6
    ]
    rows.write_text(
        "".join(
            json.dumps(line | {"group": "g", "id": str(n)}) + "\n" for n, line in enumerate(lines)
        )
    )
    settings = [f"data.train=[{{spec: 'jsonl:{rows}', split: all}}]", "run.seed=1"]
    settings += ["optim.head_lr=0.05", "optim.encoder_lr=0.01", f"distill.teacher={bundle}"]
    student = train(config_of(tmp_path / "run", *settings))
    logged = log_of(tmp_path / "run")
    assert any(float(line.get("loss/teacher_support") or 0) > 0 for line in logged)

    _, _, batch = read(bundle)
    before = config_of(tmp_path / "before", *settings, "optim.max_steps=1", "optim.head_lr=1e-9")
    models = [load_rag_model(read_bundle(folder)) for folder in (bundle, student, train(before))]
    with torch.inference_mode():
        taught, learned, untaught = (model(*batch.windows).support_probs for model in models)
    assert float((learned - taught).abs().mean()) < 0.5 * float((untaught - taught).abs().mean())
    # The teacher's weights are not in the bundle, but what it learnt from is.
    loaded = read_bundle(student)
    assert set(load_file(student / WEIGHTS_NAME)) == set(load_rag_model(loaded).state_dict())
    texts = read_bundle(bundle).training_texts()
    assert texts is not None and texts <= (loaded.training_texts() or set())
    assert loaded.info.training.settings["teacher"] == read_bundle(bundle).info.name


def test_a_teacher_may_teach_some_heads(bundle: Path, config_of: ConfigOf, tmp_path: Path) -> None:
    settings = [f"distill.teacher={bundle}", "distill.heads=[relevance]", "optim.max_steps=1"]
    train(config_of(tmp_path, *settings, "run.log_steps=1"))
    names = {name for line in log_of(tmp_path) for name in line if name.startswith("loss/teacher_")}
    assert names == {"loss/teacher_relevance"}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "granularity=example",
            r"\.teacher: .*the granularity of .* is token, and that of the model example",
        ),
        ("heads=[evidence]", r"\.teacher: .*teaches support, .*, and the heads that are trained"),
        ("distill.heads=[evidence]", r"\.heads: .* has no head evidence, only supp"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(
    config_of: ConfigOf, trained: Path, tmp_path: Path, setting: str, message: str
) -> None:
    config = config_of(tmp_path / "run", setting, f"distill.teacher={trained}")
    for refused in (train, plan):
        with pytest.raises(ConfigError, match=f"distill{message}"):
            refused(config)
