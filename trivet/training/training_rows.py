"""The rows of a run: read, without those of its tests, tokenized, cut and labelled."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from trivet.bundle.bundle import read_bundle
from trivet.bundle.info import DataInfo
from trivet.configs.schema import SourceConfig, TrainConfig
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.windows import WindowSettings
from trivet.errors import ConfigError
from trivet.heads import HEADS
from trivet.labelled.datamodule import Item, prepare
from trivet.labelled.grouping import Leaks, document, drop_leaks, in_part
from trivet.labelled.prepared_rows import prepare_cached
from trivet.labelled.similarity import Retriever
from trivet.labelled.source_report import SourceReport
from trivet.labelled.sources import choose_rows, load_source
from trivet.records import LabelledExample
from trivet.training.initialization import window_layout
from trivet.training.native_precision import has_bf16

logger = logging.getLogger(__name__)

Load = Callable[..., tuple[list[LabelledExample], SourceReport]]
"""``load_source``, or a form of it that remembers what it has read."""


def row_preparation(config: TrainConfig, tokenizer: SegmentTokenizer) -> partial[list[Item]]:
    """Return the function that prepares rows, each time anew."""
    window = config.window
    settings = WindowSettings(
        window.size,
        window.stride_overlap,
        window.evidence_sentences,
        window.sort_contexts,
        window_layout(config),
    )
    return partial(
        prepare, tokenizer=tokenizer, settings=settings, use_evidence=config.data.use_evidence
    )


def prepared_rows(
    config: TrainConfig, lay_out: partial[list[Item]]
) -> tuple[Sequence[Item], Sequence[Item], list[DataInfo], Leaks | None]:
    """Return items of train and dev, the record of the data, and the leaks (``read_rows``)."""
    compares = config.loss.similarity > 0 and "evidence" in config.heads
    name = config.distill.retriever or config.encoder.name
    retriever = Retriever(name, has_bf16("cpu")) if compares else None
    taught, dev, used, leaks = read_rows(config)
    items = prepare_rows(config, lay_out, taught, retriever)
    return items, prepare_rows(config, lay_out, dev), used, leaks


def prepare_rows(
    config: TrainConfig,
    lay_out: partial[list[Item]],
    rows: Sequence[LabelledExample],
    retriever: Retriever | None = None,
) -> Sequence[Item]:
    """Return the items of some rows, from ``data.cache`` if there is one."""
    if config.data.cache is None:
        return lay_out(rows, retriever=retriever)
    folder, workers = Path(config.data.cache).expanduser(), config.run.workers
    return prepare_cached(
        rows, retriever=retriever, folder=folder, workers=workers, **lay_out.keywords
    )


def read_rows(
    config: TrainConfig,
) -> tuple[list[LabelledExample], list[LabelledExample], list[DataInfo], Leaks | None]:
    """Return the rows of train and dev, the record of the data, and what was left out.

    Raises:
        ConfigError: A source has no rows, train and dev share a group, or no row teaches a head
            that a bundle gets.
        DataError: A source cannot be read.
    """
    taught, used, leaks = load_training_rows(config)
    dev, _ = _load(config.data.dev, config.run.seed)
    _refuse_shared_groups(taught, dev)
    _refuse_unlabelled(config, taught)
    return taught, dev, used, leaks


def load_training_rows(
    config: TrainConfig, load: Load = load_source
) -> tuple[list[LabelledExample], list[DataInfo], Leaks | None]:
    """Return the rows to train on, the bundle's record of each data set, and what was left out.

    Args:
        config: Configuration; groups that share texts with the rows of ``data.test`` are left out.
        load: Reads a split of a source.

    Raises:
        ConfigError: A source has no rows, or none is left.
        DataError: A source cannot be read.
    """
    labelled = config.distill.teacher is None
    sources = config.data.train
    rows, licences = _load(sources, config.run.seed, load, labelled, config.data.part)
    leaks = None
    if config.data.test:
        test, _ = _load(config.data.test, config.run.seed, load, labelled=False)
        kept, leaks = drop_leaks(rows, test)
        logger.info("left out of train, because of %d rows in data.test: %s", len(test), leaks)
        if not kept:
            raise ConfigError(
                f"data.test: each of the {len(rows)} training rows shares a group, a passage or a "
                "question with these rows; train on other sources"
            )
        rows = kept
    counts = sorted(Counter(row.source for row in rows).items())
    return rows, [DataInfo(name=name, licence=licences[name], rows=n) for name, n in counts], leaks


def _load(
    sources: Sequence[SourceConfig],
    seed: int,
    load: Load = load_source,
    labelled: bool = True,
    part: float = 1.0,
) -> tuple[list[LabelledExample], dict[str, str]]:
    """Return the rows of a part of the groups of all sources, and the licence of each data set."""
    read: list[list[LabelledExample]] = []
    licences: dict[str, str] = {}
    for source in sources:
        loaded, _ = load(source.spec, source.split, labelled=labelled)
        some = [row for row in loaded if in_part(document(row), part)]
        rows = choose_rows(some, source.only, source.limit, seed)
        if not rows:
            only = f" from {', '.join(source.only)}" if source.only else ""
            raise ConfigError(f"data: {source.spec} has no rows in split {source.split!r}{only}")
        read.append([replace(row, weight=row.weight * source.weight) for row in rows])
        licences |= {row.source: source.licence for row in rows}
    total = sum(map(len, read))
    return [
        row if source.share is None else replace(row, draws=source.share * total / len(rows))
        for source, rows in zip(sources, read, strict=True)
        for row in rows
    ], licences


def _refuse_shared_groups(
    taught: Sequence[LabelledExample], dev: Sequence[LabelledExample]
) -> None:
    def groups(rows: Sequence[LabelledExample]) -> set[tuple[str, str]]:
        return {(row.source, row.group) for row in rows}

    shared = sorted(groups(taught) & groups(dev))
    if shared:
        source, group = shared[0]
        raise ConfigError(
            f"data: {len(shared)} groups are in both train and dev, first {group!r} of {source}; "
            "give them different splits, such as fit and dev"
        )


def _refuse_unlabelled(config: TrainConfig, taught: Sequence[LabelledExample]) -> None:
    """Refuse to add a head that no row would teach: what it says would be random."""
    if config.encoder.init != "bundle" or config.distill.teacher is not None:
        return
    bundle_heads = read_bundle(config.encoder.name).info.heads
    for name in (head for head in config.heads if head not in bundle_heads):
        row_labels = (getattr(row.labels, HEADS[name].labels[0]) for row in taught)
        # No evidence of any sentence is an empty list.
        if not any(labels if name == "evidence" else labels is not None for labels in row_labels):
            raise ConfigError(
                f"heads: {config.encoder.name} has no {name} head, and none of the {len(taught)} "
                f"training rows names {HEADS[name].taught_by}, which would teach one; leave "
                f"{name} out"
            )
