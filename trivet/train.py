"""Training: ``train(config)`` reads the data, runs Lightning and writes a bundle."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.utilities.exceptions import SIGTERMException
from safetensors import SafetensorError
from safetensors.torch import load_file

from trivet.bundle.bundle import read_bundle
from trivet.bundle.info import TrainingInfo
from trivet.configs.loading import dump_config
from trivet.configs.schema import TrainConfig
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import ConfigError, DataError
from trivet.labelled.augmentation.augment import Augmentation
from trivet.labelled.batching import WindowBatches
from trivet.labelled.datamodule import Item, RagData
from trivet.labelled.grouping import text_digests
from trivet.labelled.sources import check_source
from trivet.model.rag_model import RagModel
from trivet.model.trunk import check_window, checkpoint_layers, compile_layers
from trivet.records import LabelledExample
from trivet.thresholds.fit import choose_sources
from trivet.thresholds.head_logits import read_heads
from trivet.training import trained_bundle
from trivet.training.checkpoints import (
    BackgroundCheckpoints,
    checkpoint_callbacks,
    damage_of,
    newest_whole,
    refuse_another_architecture,
)
from trivet.training.initialization import initial_model, window_layout
from trivet.training.lightning_module import RagTraining, trained_heads
from trivet.training.memory import keep_freed_memory, refuse_too_many_windows
from trivet.training.native_precision import native_precision
from trivet.training.run_progress import BarProgress, make_loggers, progress_callback
from trivet.training.teacher import Teacher, load_teacher
from trivet.training.trained_bundle import (
    choose_on_dev,
    provenance,
    threshold_rows,
    training_texts,
    write_trained,
)
from trivet.training.training_rows import (
    prepare_rows,
    prepared_rows,
    read_rows,
    row_preparation,
)

logger = logging.getLogger(__name__)


# Warnings of Lightning without meaning here: items need no workers, and resumed runs find files.
_EXPECTED = (
    ".*does not have many workers",
    "Checkpoint directory .* exists and is not empty",
    "Experiment logs directory .* exists and is not empty",
    ".isinstance.treespec, LeafSpec",
    "The number of training batches .* is smaller than the logging interval",
)


def train(config: TrainConfig, resume: bool = False, command: str = "trivet train") -> Path:
    """Train, choose checkpoint and thresholds on dev, and return the folder of the written bundle.

    Args:
        config: Configuration.
        resume: Whether to continue from the folder's last checkpoint, if there is one.
        command: Command line, recorded in the bundle.

    Raises:
        ConfigError: The configuration cannot be met; the message names the key.
        DataError: A source cannot be read.
        DivergedError: A loss is NaN or infinite; ``diverged.json`` in the folder names the batch.
    """
    config = native_precision(trained_bundle.keep_own_heads(config))
    keep_freed_memory()
    lightning.seed_everything(config.run.seed, workers=True)
    folder = Path(config.run.folder)
    checkpoints = folder / "checkpoints"
    if not resume and any(checkpoints.glob("*.ckpt")):
        raise ConfigError(
            f"run.folder: {folder} holds the checkpoints of a run; resume it or give another folder"
        )
    newest = newest_whole(checkpoints) if resume else None
    loggers = make_loggers(folder, config.run.loggers, config.run.name)
    _check_sources(config)
    model, tokenizer = configured_model(config)
    seed, cosine_steps = config.run.seed, config.run.gradient_cosine_steps
    teacher = configured_teacher(config, model, tokenizer)
    training = RagTraining(model, config.loss, config.optim, seed, cosine_steps, folder, teacher)
    if newest is not None:
        refuse_another_architecture(newest, training.architecture(), training.state_dict())
    lay_out = row_preparation(config, tokenizer)
    items, dev, used, leaks = prepared_rows(config, lay_out)
    threshold_rows(dev, config.data.thresholds_from)  # refused before training, not after it
    logger.info("training on %d examples, choosing on %d", len(items), len(dev))

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(dump_config(config), encoding="utf-8")

    data = RagData(
        items,
        dev,
        tokenizer.special.pad,
        config.optim.batch_windows,
        config.run.seed,
        Augmentation(**vars(config.data.augment)),
        lay_out,
        workers=config.run.workers,
    )
    decay = config.optim.ema_decay
    savers = checkpoint_callbacks(checkpoints, config.run.checkpoint_minutes, averaged=decay > 0)
    averaging = [EMAWeightAveraging(decay=decay)] if decay else []
    progress = progress_callback()
    trainer = lightning.Trainer(
        default_root_dir=folder,
        accelerator=config.run.accelerator,
        devices=config.run.devices,
        # Buffers never change; gradients live in the buckets that are sent.
        strategy=DDPStrategy(broadcast_buffers=False, gradient_as_bucket_view=True)
        if config.run.devices > 1
        else "auto",
        use_distributed_sampler=False,
        precision="bf16-mixed" if config.run.precision == "bf16" else "32-true",
        max_epochs=config.optim.epochs,
        max_steps=config.optim.max_steps,
        val_check_interval=1.0 / config.run.checks_per_epoch,
        num_sanity_val_steps=0,
        log_every_n_steps=config.run.log_steps,
        logger=loggers,
        callbacks=[*averaging, *savers, progress],
        plugins=[BackgroundCheckpoints()],
        enable_progress_bar=isinstance(progress, BarProgress),
        enable_model_summary=False,
    )
    if config.optim.compile:
        compile_layers(model.trunk)
    training.train()
    with warnings.catch_warnings():
        for message in _EXPECTED:
            warnings.filterwarnings("ignore", message)
        try:
            with refuse_too_many_windows(config.optim.batch_windows):
                trainer.fit(training, data, ckpt_path=newest)
        except SIGTERMException:  # would end the process as if it had finished
            raise SystemExit(128 + signal.SIGTERM) from None
    bundle = folder / "bundle"
    if not trainer.is_global_zero:
        return bundle  # written by the first device
    _load_best(training, savers[0])
    training.to(trainer.strategy.root_device)  # the trainer leaves it on the CPU
    record = provenance(config, used, leaks, command, trainer.global_step)
    with trainer.precision_plugin.forward_context():
        rows = [item.labelled for item in items]
        _write_bundle(bundle, config, training, tokenizer, rows, dev, record)
    return bundle


def finish(config: TrainConfig, weights: Path, command: str = "trivet train") -> Path:
    """Write the bundle of a run from its weights alone, and return its folder.

    Args:
        config: Configuration of the run; ``optim.max_steps`` is recorded as its steps.
        weights: State of the training as a safetensors file, in any floating-point precision.
        command: Command line, recorded in the bundle.

    Raises:
        ConfigError: The configuration cannot be met, or the weights are those of another model.
        DataError: A source cannot be read.
    """
    config = native_precision(trained_bundle.keep_own_heads(config))
    _check_sources(config)
    model, tokenizer = configured_model(config)
    training = RagTraining(model, config.loss, config.optim)
    try:
        training.load_state_dict(load_file(weights))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ConfigError(f"{weights}: not the weights of this configuration: {error}") from error
    taught, rows, used, leaks = read_rows(config)
    dev = prepare_rows(config, row_preparation(config, tokenizer), rows)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bundle = Path(config.run.folder) / "bundle"
    record = provenance(config, used, leaks, command, max(0, config.optim.max_steps))
    with torch.autocast(device, torch.bfloat16, enabled=config.run.precision == "bf16"):
        _write_bundle(bundle, config, training.to(device), tokenizer, taught, dev, record)
    return bundle


def _write_bundle(
    folder: Path,
    config: TrainConfig,
    training: RagTraining,
    tokenizer: SegmentTokenizer,
    taught: Sequence[LabelledExample],
    dev: Sequence[Item],
    record: TrainingInfo,
) -> None:
    """Choose thresholds and sources on dev, and write the bundle of a trained model."""
    model, pad = training.model.eval(), tokenizer.special.pad
    with torch.inference_mode():
        thresholds = choose_on_dev(training, threshold_rows(dev, config.data.thresholds_from), pad)
    begun = config.encoder.init == "bundle"
    old = read_bundle(config.encoder.name).info.evidence if begun else None
    read = read_heads(model, dev, pad, config.optim.call_windows, ["evidence"])
    evidence = choose_sources(read["evidence"], old) if read else None
    model.cpu()
    texts = training_texts(config, text_digests(taught))
    write_trained(folder, model, tokenizer, config, thresholds, record, texts, evidence)


def plan(config: TrainConfig) -> str:
    """Return what training would do, as text: parameters, rows, windows and steps.

    Raises:
        ConfigError: The configuration cannot be met; the message names the key.
        DataError: A source cannot be read.
    """
    config = trained_bundle.keep_own_heads(config)
    _check_sources(config)
    model, tokenizer = configured_model(config)
    configured_teacher(config, model, tokenizer)
    uncached = replace(config, data=replace(config.data, cache=None))  # nothing is written
    items, dev, _, leaks = prepared_rows(uncached, row_preparation(config, tokenizer))
    epoch = _epoch_steps(config, items)
    windows = [sum(len(item.layout.rows) for item in rows) for rows in (items, dev)]
    steps = epoch * config.optim.epochs
    if config.optim.max_steps > 0:
        steps = min(steps, config.optim.max_steps)
    parameters = list(model.parameters())
    trained = sum(weight.numel() for weight in parameters if weight.requires_grad)
    return "\n".join(
        (
            f"parameters: {sum(weight.numel() for weight in parameters):,} ({trained:,} trained)",
            f"train: {len(items):,} rows, {windows[0]:,} windows an epoch, before augmentation",
            f"dev: {len(dev):,} rows, {windows[1]:,} windows",
            *([] if leaks is None else [f"left out of train, because of data.test: {leaks}"]),
            f"steps: {epoch:,} an epoch, {steps:,} in all",
        )
    )


def _check_sources(config: TrainConfig) -> None:
    """Refuse data that are certainly not there, before weights are downloaded."""
    for part in ("train", "dev", "test"):
        for index, source in enumerate(getattr(config.data, part)):
            try:
                check_source(source.spec)
            except DataError as error:
                raise DataError(
                    f"data.{part}[{index}].spec: {error}; put the rows there, or give your own: "
                    f"'data.{part}=[{{spec: \"jsonl:FILE\"}}]'"
                ) from error


def _epoch_steps(config: TrainConfig, items: Sequence[Item]) -> int:
    layouts, budget = [item.layout for item in items], config.optim.batch_windows
    examples = [item.labelled for item in items]
    batches = WindowBatches(layouts, budget, config.run.seed, examples)
    batches.share(0, config.run.devices)
    return len(batches)


def configured_model(config: TrainConfig) -> tuple[RagModel, SegmentTokenizer]:
    """Return the initial model and its tokenizer; ``ConfigError`` if they cannot be made."""
    model, tokenizer = initial_model(config, trained_bundle.keeps_verdicts(config))
    check_window(model.trunk.config, config.window.size)
    if config.optim.checkpoint_layers:
        checkpoint_layers(model.trunk)
    return model, tokenizer


def configured_teacher(
    config: TrainConfig, model: RagModel, tokenizer: SegmentTokenizer
) -> Teacher | None:
    """Return the teacher, if there is one.

    Raises:
        ConfigError: It cannot teach the model.
        BundleError: Its bundle is refused.
    """
    distill, optim = config.distill, config.optim
    if distill.teacher is None:
        return None
    teacher = load_teacher(
        distill.teacher,
        tokenizer,
        config.window.size,
        distill.weight,
        optim.call_windows,
    )
    theirs, ours = teacher.model, trained_heads(model, config.loss)
    if missing := [head for head in distill.heads if head not in theirs.heads]:
        raise ConfigError(
            f"distill.heads: {distill.teacher} has no head {', '.join(missing)}, only "
            f"{', '.join(theirs.heads)}"
        )
    if distill.heads:
        theirs.keep_heads(distill.heads)
    if not set(ours) & set(theirs.heads):
        raise ConfigError(
            f"distill.teacher: {distill.teacher} teaches {', '.join(theirs.heads)}, and the heads "
            f"that are trained are {', '.join(ours)}; one must be in both"
        )
    layout = read_bundle(distill.teacher).info.window.layout
    if layout != window_layout(config):
        raise ConfigError(
            f"distill.teacher: {distill.teacher} reads windows of another layout than the model"
        )
    classes = theirs.support_classes, model.support_classes
    if "support" in {*ours} & {*theirs.heads} and classes[0] != classes[1]:
        raise ConfigError(
            f"distill.teacher: the support head of {distill.teacher} has {classes[0]} classes, and "
            f"that of the model {classes[1]}; name the heads that it teaches (distill.heads)"
        )
    if theirs.granularity != model.granularity:
        raise ConfigError(
            f"distill.teacher: the granularity of {distill.teacher} is {theirs.granularity}, and "
            f"that of the model {model.granularity}; they must be the same"
        )
    return teacher


def _load_best(training: RagTraining, best: ModelCheckpoint) -> None:
    path = best.best_model_path
    if not path:
        logger.warning("the run ended before the first validation; the last weights are kept")
    elif damage := damage_of(Path(path)):
        logger.warning("%s is damaged (%s); the last weights are kept", path, damage)
    else:
        state = torch.load(path, map_location="cpu", weights_only=True)
        training.load_state_dict(state["state_dict"])
