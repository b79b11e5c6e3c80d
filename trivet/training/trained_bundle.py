"""The bundle of a finished run: thresholds that the dev rows choose, weights, and its record."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import trivet
from trivet.bundle.bundle import TEXTS_NAME, read_bundle, write_bundle
from trivet.bundle.info import (
    LABELS,
    BundleInfo,
    DataInfo,
    EncoderInfo,
    EvidenceInfo,
    LeftOutInfo,
    SpecialTokenIds,
    Thresholds,
    TrainingInfo,
    outputs_of,
)
from trivet.configs.schema import TrainConfig
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import Windows, WindowSettings
from trivet.errors import ConfigError
from trivet.heads import HEADS
from trivet.labelled.datamodule import Item, collate_items
from trivet.labelled.grouping import Leaks
from trivet.model.aggregate import output_names
from trivet.model.rag_model import RagModel, to_numpy
from trivet.thresholds.choose import choose_thresholds
from trivet.thresholds.columns import DevScores
from trivet.training.initialization import kept_heads, window_layout
from trivet.training.lightning_module import RagTraining

logger = logging.getLogger(__name__)


def provenance(
    config: TrainConfig,
    used: Sequence[DataInfo],
    leaks: Leaks | None,
    command: str,
    steps: int,
) -> TrainingInfo:
    """Return the training record, including the data of its first bundle and of its teacher."""
    teacher = config.distill.teacher and read_bundle(config.distill.teacher).info
    if teacher:
        used = [*teacher.training.data, *used]
    if config.encoder.init == "bundle":
        before = read_bundle(config.encoder.name).info.training
        command = f"{before.command} && {command}"
        used = [*before.data, *used]
    return TrainingInfo(
        command=command,
        date=date.today().isoformat(),
        data=merge_data(used),
        settings={
            "seed": config.run.seed,
            "epochs": config.optim.epochs,
            "steps": steps,
            "encoder_lr": config.optim.encoder_lr,
            "head_lr": config.optim.head_lr,
            "batch_windows": config.optim.batch_windows,
            "call_windows": config.optim.call_windows,
            "precision": config.run.precision,
            **({"teacher": teacher.name} if teacher else {}),
        },
        left_out=None
        if leaks is None
        else LeftOutInfo(
            tests=tuple(f"{test.spec} {test.split}" for test in config.data.test), **vars(leaks)
        ),
    )


def training_texts(config: TrainConfig, digests: Set[str]) -> str | None:
    """Return the record of all texts that a model learnt from.

    These include the texts of its first bundle and of its teacher; ``None`` if one of them has no
    record: then the whole is not known.
    """
    named = [config.encoder.name] if config.encoder.init == "bundle" else []
    for name in (*named, *filter(None, [config.distill.teacher])):
        before = read_bundle(name).training_texts()
        if before is None:
            logger.info("%s has no record of its training texts, so the new bundle has none", name)
            return None
        digests = digests | before
    return "".join(f"{digest}\n" for digest in sorted(digests))


def merge_data(used: Iterable[DataInfo]) -> tuple[DataInfo, ...]:
    """Return each data set once: steps repeat its rows, so the largest number counts."""
    data: dict[str, DataInfo] = {}
    for info in used:
        data[info.name] = max(data.get(info.name, info), info, key=lambda data_info: data_info.rows)
    return tuple(data.values())


def keeps_verdicts(config: TrainConfig) -> bool:
    """Return whether a bundle gets further heads while its own weights stay as they are."""
    if config.encoder.init != "bundle" or config.optim.encoder_lr:
        return False
    bundle_heads = read_bundle(config.encoder.name).info.heads
    taught = [head for head in config.heads if head != "evidence"]
    return not any(config.loss.of_head(name) for name in taught if name in bundle_heads)


def keep_own_heads(config: TrainConfig) -> TrainConfig:
    """Return a configuration without losses of the heads that a bundle keeps next to new ones.

    Raises:
        ConfigError: The encoder below these heads would change.
    """
    if config.encoder.init != "bundle":
        return config
    info = read_bundle(config.encoder.name).info
    kept = kept_heads(info.heads, config.heads)
    if not kept:
        return config
    if rate := config.optim.encoder_lr:
        raise ConfigError(
            f"heads: {config.encoder.name} keeps its own ({', '.join(kept)}) next to the new ones, "
            f"which optim.encoder_lr ({rate:g}) would change: set it to 0; once the new ones are "
            "there, all heads can be trained together"
        )
    if config.window.size != info.window.size:
        logger.warning(
            "the new heads learn from windows of %d tokens, and %s reads windows of %d",
            *(config.window.size, config.encoder.name, info.window.size),
        )
    off = {weight for name in kept for weight in HEADS[name].weights}
    return replace(config, loss=replace(config.loss, **cast(Any, dict.fromkeys(off, 0.0))))


def _rearranged(old: WindowSettings, new: WindowSettings, name: str) -> WindowSettings:
    """Return a bundle's windows, of which a new setting lets others count for a sentence."""
    settings = ("evidence_sentences", "sort_contexts")
    window = replace(old, **{key: getattr(new, key) for key in settings})
    if window != old:
        logger.warning(
            "other windows are read than by %s, for which its calibration and its thresholds were "
            "fitted; run `trivet calibrate` on the new bundle",
            name,
        )
    return window


def write_trained(
    folder: Path,
    model: RagModel,
    tokenizer: SegmentTokenizer,
    config: TrainConfig,
    thresholds: Thresholds | None,
    training: TrainingInfo,
    texts: str | None = None,
    evidence: EvidenceInfo | None = None,
) -> None:
    """Write the bundle of a finished run, with the record of its training texts."""
    encoder, special, described = model.trunk.config, tokenizer.special, model.architecture()
    heads = described.heads
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
        window=WindowSettings(
            size=config.window.size,
            stride_overlap=config.window.stride_overlap,
            evidence_sentences=config.window.evidence_sentences,
            sort_contexts=config.window.sort_contexts,
            layout=window_layout(config),
        ),
        faithfulness=described.faithfulness,
        heads=heads,
        outputs=outputs_of(heads),
        labels={name: LABELS[name] for name in output_names(heads)},
        thresholds=thresholds,
        special_tokens=SpecialTokenIds(cls=special.cls, sep=special.sep, pad=special.pad),
        training=training,
        trunk=described.trunk,
        shared_layers=described.shared_layers,
        granularity=described.granularity,
        prefix_attention=described.prefix_attention,
        evidence=evidence,
    )
    if keeps_verdicts(config):
        new = ("heads", "outputs", "labels", "training", "evidence", "package_version")
        changed = {name: getattr(info, name) for name in new}
        changed |= {"graphs": (), "engines": (), "openvino": None}
        old = read_bundle(config.encoder.name).info
        changed["window"] = _rearranged(old.window, info.window, config.encoder.name)
        if changed["window"] != old.window:
            changed["scores"] = ()  # measured with the old windows
        info = old.model_copy(update=changed)
    write_bundle(
        folder,
        info,
        tokenizer.to_json(),
        weights=model.state_dict(),
        architecture=described,
        extra=None if texts is None else {TEXTS_NAME: texts.encode()},
    )


def threshold_rows(dev: Sequence[Item], prefixes: Sequence[str]) -> list[Item]:
    """Return the dev rows whose source begins with one of the prefixes; all rows without any.

    Raises:
        ConfigError: There is no such row.
    """
    wanted = tuple(prefixes) or ("",)  # every name begins with ""
    chosen = [item for item in dev if item.labelled.source.startswith(wanted)]
    if not chosen:
        raise ConfigError(f"data.thresholds_from {list(prefixes)}: no dev row has such a source")
    return chosen


def choose_on_dev(training: RagTraining, items: Sequence[Item], pad: int) -> Thresholds | None:
    """Return the thresholds that the rows choose; None without a support head."""
    if "support" not in training.model.heads:
        return None
    chosen = choose_thresholds(list(dev_scores(training, items, pad)))
    logger.info("thresholds chosen on %d dev examples: %s", len(items), chosen)
    return chosen


def dev_scores(training: RagTraining, items: Sequence[Item], pad: int) -> Iterator[DevScores]:
    """Yield the scores of each row, read alone."""
    device = next(training.model.parameters()).device
    for item in items:
        batch = collate_items([item], pad)
        windows = Windows(*(array.to(device) for array in batch.windows))
        _, predicted = training.predict(windows, batch.is_evidence.to(device))
        outputs = to_numpy(predicted)
        support = outputs.sentence_support[0], outputs.support_probs[0]
        yield DevScores.of(item.labelled, item.tokenized, *support)
