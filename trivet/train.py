"""Training: ``train(config)`` reads the data, runs Lightning and ends in a bundle."""

from __future__ import annotations

import ctypes
import logging
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger

import trivet
from trivet.configs.schema import (
    Init,
    Precision,
    SourceConfig,
    TrainConfig,
    dump_config,
)
from trivet.data.module import Item, RagData, collate_items, prepare
from trivet.data.sources import load_source
from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.model.aggregate import Outputs
from trivet.model.bundle import (
    BundleInfo,
    DataInfo,
    EncoderInfo,
    SpecialTokenIds,
    Thresholds,
    TrainingInfo,
    WindowInfo,
    read_bundle,
    write_bundle,
)
from trivet.model.initial import initial_model
from trivet.model.rag_model import RagModel
from trivet.objective import RagTraining
from trivet.records import ConfigError, LabelledExample
from trivet.thresholds import DevScores, choose_thresholds

logger = logging.getLogger(__name__)


def train(config: TrainConfig, resume: bool = False, command: str = "trivet train") -> Path:
    """Train, choose the best checkpoint and the thresholds on dev, and write a bundle.

    Args:
        config: Everything that can be told.
        resume: Go on from the folder's last checkpoint, if there is one.
        command: What was typed; stands in the bundle, so that it can be typed again.

    Returns:
        The bundle's folder.

    Raises:
        ConfigError: Something asked for cannot be had; the message names the key.
        DataError: A source cannot be read.
    """
    keep_freed_memory()
    lightning.seed_everything(config.run.seed, workers=True)
    folder = Path(config.run.folder)
    newest = _newest(folder / "checkpoints")
    if newest is not None and not resume:
        raise ConfigError(
            f"run.folder: {folder} holds the checkpoints of a run; resume it or give another folder"
        )
    model, tokenizer = initial_model(
        config.encoder.name,
        config.encoder.init.value,
        config.faithfulness.value,
        config.encoder.head_dropout,
        config.encoder.attention_dropout,
    )
    model.trunk.check_window(config.window.size)
    settings = WindowSettings(config.window.size, config.window.overlap)
    use_evidence = config.data.use_evidence
    taught, used = _load(config.data.train, config.run.seed)
    items = prepare(taught, tokenizer, settings, use_evidence)
    dev = prepare(_load(config.data.dev, config.run.seed)[0], tokenizer, settings, use_evidence)
    _refuse_shared_groups(items, dev)
    choosing = _chosen_sources(dev, config.data.thresholds_from)
    logger.info("training on %d examples, choosing on %d", len(items), len(dev))

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(dump_config(config), encoding="utf-8")

    training = RagTraining(
        model,
        config.loss,
        config.optim.encoder_lr,
        config.optim.head_lr,
        config.optim.weight_decay,
        config.optim.warmup_share,
    )
    data = RagData(items, dev, tokenizer.special.pad, config.optim.batch_windows, config.run.seed)
    best = ModelCheckpoint(
        folder / "checkpoints",
        filename="best",
        monitor="dev/score",
        mode="max",
        save_last=True,
        enable_version_counter=False,
    )
    often = ModelCheckpoint(
        folder / "checkpoints",
        filename="latest",
        train_time_interval=timedelta(minutes=config.run.checkpoint_minutes),
        enable_version_counter=False,
    )
    trainer = lightning.Trainer(
        default_root_dir=folder,
        accelerator=config.run.accelerator,
        devices=1,
        precision="bf16-mixed" if config.run.precision is Precision.bf16 else "32-true",
        max_epochs=config.optim.epochs,
        max_steps=config.optim.max_steps,
        gradient_clip_val=config.optim.clip,
        val_check_interval=1.0 / config.run.checks_per_epoch,
        num_sanity_val_steps=0,
        log_every_n_steps=config.run.log_steps,
        logger=CSVLogger(folder, name="log", version="" if resume else None),
        callbacks=[best, often, RichProgressBar(console_kwargs={"stderr": True})],
        enable_model_summary=False,
    )
    training.train()
    trainer.fit(training, data, ckpt_path=newest)
    if best.best_model_path:
        state = torch.load(best.best_model_path, map_location="cpu", weights_only=True)
        training.load_state_dict(state["state_dict"])
    else:
        logger.warning("the run ended before dev was judged once; the last weights are kept")
    model.eval()
    model.to(trainer.strategy.root_device)  # the trainer leaves it on the CPU
    thresholds = _choose(model, choosing, tokenizer.special.pad)
    model.cpu()
    bundle = folder / "bundle"
    _write(bundle, model, tokenizer, config, thresholds, _provenance(config, used, command))
    return bundle


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory instead of asking the kernel for every large tensor anew.

    Its default costs torch on a CPU much of its speed. Other C libraries need nothing.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    trim_threshold, mmap_threshold, most = -1, -3, 2**31 - 1  # names of glibc's malloc.h
    if not (mallopt(mmap_threshold, most) and mallopt(trim_threshold, most)):
        logger.warning("glibc refused the malloc thresholds; training on a CPU will be slower")


def _load(
    sources: Sequence[SourceConfig], seed: int
) -> tuple[list[LabelledExample], list[DataInfo]]:
    """Return the rows of all sources, and what the bundle will say of each data set."""
    examples: list[LabelledExample] = []
    used: list[DataInfo] = []
    for source in sources:
        rows, _ = load_source(source.spec, source.split)
        if source.only:
            rows = [row for row in rows if row.source.startswith(tuple(source.only))]
        if not rows:
            raise ConfigError(
                f"data: {source.spec} has no rows in split {source.split!r}"
                + (f" from {', '.join(source.only)}" if source.only else "")
            )
        if source.limit is not None and source.limit < len(rows):
            chosen = np.random.default_rng(seed).permutation(len(rows))[: source.limit]
            rows = [rows[index] for index in sorted(chosen)]
        examples += [replace(row, weight=row.weight * source.weight) for row in rows]
        counts = Counter(row.source for row in rows)
        used += [
            DataInfo(name=name, licence=source.licence, rows=count)
            for name, count in sorted(counts.items())
        ]
    return examples, used


def _refuse_shared_groups(train_items: Sequence[Item], dev: Sequence[Item]) -> None:
    def groups(items: Sequence[Item]) -> set[tuple[str, str]]:
        return {(item.labelled.source, item.labelled.group) for item in items}

    shared = sorted(groups(train_items) & groups(dev))
    if shared:
        source, group = shared[0]
        raise ConfigError(
            f"data: {len(shared)} groups stand in both train and dev, first {group!r} of {source}; "
            "give them different splits, such as fit and dev"
        )


def _newest(folder: Path) -> Path | None:
    found = sorted(folder.glob("*.ckpt"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def _chosen_sources(dev: Sequence[Item], prefixes: Sequence[str]) -> list[Item]:
    chosen = [
        item for item in dev if not prefixes or item.labelled.source.startswith(tuple(prefixes))
    ]
    if not chosen:
        raise ConfigError(f"data.thresholds_from {list(prefixes)}: no dev row has such a source")
    return chosen


def _choose(model: RagModel, items: Sequence[Item], pad: int) -> Thresholds:
    chosen = choose_thresholds(_dev_scores(model, items, pad))
    logger.info("thresholds chosen on %d dev examples: %s", len(items), chosen)
    return Thresholds(adherence=chosen.adherence, sentence=chosen.sentence, span=chosen.span)


def _dev_scores(model: RagModel, items: Sequence[Item], pad: int) -> Iterator[DevScores]:
    device = next(model.parameters()).device
    for item in items:
        windows = (tensor.to(device) for tensor in collate_items([item], pad).windows)
        with torch.inference_mode():
            outputs = Outputs(*(value[0].cpu().numpy() for value in model(*windows)))
        read, length = item.read, len(item.read.response)
        yield DevScores(
            example=item.labelled,
            faithfulness=float(outputs.faithfulness) if length else None,
            sentence_spans=read.response_sentence_spans,
            sentence_support=outputs.sentence_support[: len(read.response_sentence_spans)],
            token_offsets=read.response.offsets,
            token_support=outputs.support_probs[:length],
        )


def _provenance(config: TrainConfig, used: Sequence[DataInfo], command: str) -> TrainingInfo:
    """Say where the weights come from, with all that the bundle they started from was taught."""
    taught = list(used)
    if config.encoder.init is Init.bundle:
        before = read_bundle(Path(config.encoder.name)).info.training
        command = f"{before.command} && {command}"
        taught = [*before.data, *used]
    data: dict[str, DataInfo] = {}
    for info in taught:  # steps repeat rows of one set: the most of them says how much was seen
        if info.name not in data or info.rows > data[info.name].rows:
            data[info.name] = info
    return TrainingInfo(
        command=command,
        date=date.today().isoformat(),
        data=tuple(data.values()),
        settings={
            "seed": config.run.seed,
            "epochs": config.optim.epochs,
            "encoder_lr": config.optim.encoder_lr,
            "head_lr": config.optim.head_lr,
            "batch_windows": config.optim.batch_windows,
            "precision": config.run.precision.value,
        },
    )


def _write(
    folder: Path,
    model: RagModel,
    tokenizer: SegmentTokenizer,
    config: TrainConfig,
    thresholds: Thresholds,
    training: TrainingInfo,
) -> None:
    encoder = model.trunk.encoder.config
    info = BundleInfo(
        package_version=trivet.__version__,
        name=config.run.name,
        encoder=EncoderInfo(
            model_type=encoder.model_type,
            hidden_size=int(encoder.hidden_size),
            layers=int(encoder.num_hidden_layers),
            source=config.encoder.source or Path(config.encoder.name).name,
            licence=config.encoder.licence,
        ),
        window=WindowInfo(size=config.window.size, overlap=config.window.overlap),
        faithfulness=config.faithfulness.value,
        heads=tuple(cast(Any, list(model.heads))),
        thresholds=thresholds,
        special_tokens=SpecialTokenIds(
            cls=tokenizer.special.cls, sep=tokenizer.special.sep, pad=tokenizer.special.pad
        ),
        training=training,
    )
    write_bundle(
        folder,
        info,
        tokenizer.to_json(),
        weights=model.state_dict(),
        encoder_config=model.architecture(),
    )
