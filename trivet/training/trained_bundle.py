"""The bundle of a finished run and the record of its training."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, cast

import trivet
from trivet.bundle.bundle import (
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
from trivet.configs.schema import Init, TrainConfig
from trivet.data.tokenization import SegmentTokenizer
from trivet.model.rag_model import RagModel
from trivet.model.trunk import break_even


def provenance(
    config: TrainConfig, used: Sequence[DataInfo], command: str, steps: int
) -> TrainingInfo:
    """Return the training record, including the data of the bundle that training started from."""
    data: dict[str, DataInfo] = {}
    if config.encoder.init is Init.bundle:
        before = read_bundle(config.encoder.name).info.training
        command = f"{before.command} && {command}"
        used = [*before.data, *used]
    for info in used:  # steps repeat the rows of a set: keep the largest number
        data[info.name] = max(data.get(info.name, info), info, key=lambda one: one.rows)
    return TrainingInfo(
        command=command,
        date=date.today().isoformat(),
        data=tuple(data.values()),
        settings={
            "seed": config.run.seed,
            "epochs": config.optim.epochs,
            "steps": steps,
            "encoder_lr": config.optim.encoder_lr,
            "head_lr": config.optim.head_lr,
            "batch_windows": config.optim.batch_windows,
            "call_windows": config.optim.call_windows or config.optim.batch_windows,
            "precision": config.run.precision.value,
        },
    )


def write_trained(
    folder: Path,
    model: RagModel,
    tokenizer: SegmentTokenizer,
    config: TrainConfig,
    thresholds: Thresholds,
    training: TrainingInfo,
) -> None:
    """Write the bundle of a finished run."""
    encoder, special = model.trunk.config, tokenizer.special
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
        window=WindowInfo(
            size=config.window.size,
            stride_overlap=config.window.stride_overlap,
            sizes=tuple(config.window.sizes),
            break_even=break_even(encoder) if config.window.sizes else None,
            evidence_sentences=config.window.evidence_sentences,
            evidence_for=config.window.evidence_for.value,
        ),
        faithfulness=config.faithfulness.value,
        heads=tuple(cast(Any, list(model.heads))),
        thresholds=thresholds,
        special_tokens=SpecialTokenIds(cls=special.cls, sep=special.sep, pad=special.pad),
        training=training,
        trunk=model.trunk.kind,
        shared_layers=model.trunk.shared_layers,
        granularity=model.granularity,
    )
    write_bundle(
        folder,
        info,
        tokenizer.to_json(),
        weights=model.state_dict(),
        encoder_config=model.architecture(),
    )
