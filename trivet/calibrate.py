"""Calibration: fit maps of a bundle's logits on a dev split, and choose its thresholds again.

A model trained for several epochs on few rows is overconfident, and relevance and utilization are
means of probabilities. The maps are folded into the last layer of their head, so that the graph
stays the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from trivet.backends.device import find_gpu
from trivet.backends.torch import check_gpu
from trivet.bundle.bundle import TEXTS_NAME, TOKENIZER_NAME, check_folder, read_bundle, write_bundle
from trivet.bundle.info import BundleInfo, CalibrationInfo, CompletenessInfo
from trivet.bundle.weights import load_rag_model
from trivet.data.tokenization import BoolArray, SegmentTokenizer
from trivet.errors import BundleError, DataError
from trivet.heads import CONTEXT_HEADS, DEFAULT_HEADS, HEAD_NAMES, HEADS, HeadName
from trivet.heads.token_head import TokenHead
from trivet.labelled.datamodule import Item, prepare
from trivet.labelled.grouping import document
from trivet.model.architecture import NO_LAYER
from trivet.model.rag_model import RagModel
from trivet.thresholds.apply import load_rows
from trivet.thresholds.choices import Choices
from trivet.thresholds.choose import ChosenThresholds, choose_or_keep, dev_scores
from trivet.thresholds.completeness import expected_completeness, fit_completeness
from trivet.thresholds.cross_fitting import HeadReport, cross_fitted, halves, head_report, parts
from trivet.thresholds.fit import (
    LinearMap,
    choose_sources,
    fit,
    fit_sentence_layer,
    layer_under,
    probabilities,
    rescale_layer,
)
from trivet.thresholds.head_logits import read_heads, tokens_read
from trivet.thresholds.joining import HeadLogits, Probabilities
from trivet.thresholds.report import describe
from trivet.training.native_precision import has_bf16

logger = logging.getLogger(__name__)

_CALL_WINDOWS = 16  # windows per call of the encoder for a bundle that does not record them


@dataclass(frozen=True)
class Calibrated:
    """The result of a calibration."""

    info: CalibrationInfo  # record in the bundle
    reports: tuple[HeadReport, ...]  # of the heads and of whole responses
    chosen: ChosenThresholds


def calibrate(
    folder: Path,
    specs: Sequence[str],
    split: str = "dev",
    choices: Choices | None = None,
    out: Path | None = None,
    device: str | None = None,
) -> Calibrated:
    """Fit the heads and choose the thresholds on labelled rows, and write the bundle.

    Graphs and figures of the old weights are removed; export again afterwards. A threshold that the
    rows do not justify is kept, or moved with a new support so that it flags as many rows.

    Args:
        folder: Bundle with weights, or with an int8 graph that they are read back from.
        specs: Labelled sources.
        split: Split of rows that no weight was trained on.
        choices: Options.
        out: Folder of the calibrated bundle; ``None`` changes ``folder`` in place.
        device: Device that computes the logits: ``cpu``, ``cuda`` or ``cuda:N``; ``None`` takes a
            GPU if torch can use one.

    Raises:
        BundleError: The bundle is refused or has no weights, or no layer to keep, or it is read
            only and there is no ``out``, or ``out`` holds other files.
        BackendError: There is no such device, or torch cannot use it.
        DataError: There are no rows, or no labels for a requested head, or for any head.
    """
    choices = choices or Choices()
    bundle = read_bundle(folder)
    needed: tuple[str, ...] = ("support",) if choices.keep_layer else choices.heads
    needed += ("evidence",) if choices.similarity else ()
    missing = [name for name in needed if name not in bundle.info.heads]
    if missing:
        raise BundleError(
            f"{folder}: has no {' and no '.join(missing)} head to calibrate, only "
            f"{', '.join(bundle.info.heads)}"
        )
    if out is None:
        bundle.check_writable()
    else:
        check_folder(out)
    where = _torch_device(device)
    model = load_rag_model(bundle).to(where)
    if choices.keep_layer and not model.sentence_layer.weights:
        raise BundleError(f"{folder}: has no layer over sentences to keep; calibrate support first")
    tokenizer = SegmentTokenizer.from_file(bundle.path(TOKENIZER_NAME))
    settings = bundle.info.window
    items = prepare(load_rows(specs, split, choices), tokenizer, settings)
    trained = bundle.info.training.settings
    call_windows = int(trained.get("call_windows") or _CALL_WINDOWS)
    bf16 = trained.get("precision") == "bf16" and has_bf16(where)
    with torch.autocast(where.type, torch.bfloat16, bf16):
        # A choice of heads leaves the sources as they are, a kept layer what concerns contexts.
        heads = DEFAULT_HEADS if choices.heads else HEAD_NAMES
        heads = ("support", "evidence") if choices.keep_layer else heads
        logits = read_heads(model, items, tokenizer.special.pad, call_windows, heads)
    pairs, evidence = logits.pop("evidence", None), bundle.info.evidence
    if pairs is not None:
        evidence = choose_sources(pairs, evidence)

    old = {name: _map_in(model, name) for name in logits}
    fitted, reports = _fit_heads(items, logits, old, bundle.info, choices)
    maps = old | fitted
    for name, linear_map in fitted.items():
        _put(model, name, linear_map)
    info = describe(bundle.info.calibration, fitted, reports, choices.keep_layer, specs, split)
    if fitted.keys() & set(CONTEXT_HEADS):
        info = info.model_copy(update={"completeness": _completeness(items, logits, maps)})
    changed: dict[str, Any] = {"calibration": info, "scores": (), "alarms": ()}
    changed |= {"evidence": evidence}
    changed |= {"graphs": (), "engines": (), "openvino": None}

    chosen = ChosenThresholds(None)
    if (old_thresholds := bundle.info.thresholds) is not None:
        before, after = (
            list(dev_scores(items, logits["support"], by_head["support"], bundle.info.faithfulness))
            for by_head in (old, maps)
        )
        chosen = choose_or_keep(
            old_thresholds, before, after, choices.thresholds_from, choices.false_alarms
        )

    write_bundle(
        out or bundle.folder,
        bundle.info.model_copy(update=changed | {"thresholds": chosen.thresholds}),
        tokenizer.to_json(),
        weights=model.state_dict(),
        architecture=model.architecture(),
        extra=bundle.contents(TEXTS_NAME),
    )
    return Calibrated(info, reports, chosen)


def _completeness(
    items: Sequence[Item],
    logits: Mapping[HeadName, HeadLogits],
    maps: Mapping[HeadName, LinearMap],
) -> CompletenessInfo | None:
    """Return the map of completeness for the new maps; None without its heads or its scores."""
    if not set(CONTEXT_HEADS) <= logits.keys():
        return None
    relevance, utilization = CONTEXT_HEADS
    predicted = expected_completeness(
        logits[relevance], logits[utilization], (maps[relevance], maps[utilization])
    )
    return fit_completeness(predicted, [item.labelled.labels.completeness for item in items])


def fold(head: TokenHead, scale: float, shift: float) -> None:
    """Change a head to return scale * logits, plus shift for the first of them."""
    with torch.no_grad():
        head.classifier.weight.mul_(scale)
        head.classifier.bias.mul_(scale)
        head.classifier.bias[0] += shift


def _torch_device(device: str | None) -> torch.device:
    """Return the device of torch that an option names; errors as in ``calibrate``."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gpu = find_gpu(device)
    if gpu is None:
        return torch.device("cpu")
    check_gpu()
    return torch.device("cuda", gpu)


def _fit_heads(
    items: Sequence[Item],
    logits: Mapping[HeadName, HeadLogits],
    old: Mapping[HeadName, LinearMap],
    info: BundleInfo,
    choices: Choices,
) -> tuple[dict[HeadName, LinearMap], tuple[HeadReport, ...]]:
    """Fit each head on all rows, and measure it by cross-fitting on two halves."""
    split = halves([document(item.labelled) for item in items])
    masks = parts([item.labelled.source for item in items], [tokens_read(item) for item in items])
    fitted: dict[HeadName, LinearMap] = {}
    reports: list[HeadReport] = []
    for name in choices.heads or logits:
        head = logits[name]

        def fit_rows(
            rows: BoolArray | None, name: HeadName = name, head: HeadLogits = head
        ) -> LinearMap:
            map_ = fit(
                head,
                what=name,
                rows=rows,
                faithfulness=info.faithfulness,
                weighing=choices.weighing,
                weighed=() if choices.keep_layer else choices.weighed,
            )
            if name != "support":
                return map_
            if choices.keep_layer:
                map_ = replace(map_, layer=layer_under(map_, old[name].layer))
                return replace(map_, layer=rescale_layer(head, map_, choices.weighing, rows))
            return replace(map_, layer=fit_sentence_layer(head, map_, choices.weighing, rows))

        after: Probabilities | None = None
        note = ""
        try:
            fitted[name] = fit_rows(None)
        except DataError as error:
            if choices.heads:
                raise
            note = str(error)
            logger.warning("%s; this head is unchanged", error)
        else:
            after = cross_fitted(head, split, fit_rows, info.faithfulness)
            if after is None:
                note = "not cross-fitted: one half of the groups cannot be fitted by itself"
        before = probabilities(head, old[name], info.faithfulness)
        map_ = fitted.get(name)
        reports.append(head_report(name, head, before, after, masks, map_, note))
        logger.info("%s: %s, %s", name, map_, reports[-1].errors[0])
        if name == "support":
            note = "follows from support"
            reports.append(head_report("faithfulness", head, before, after, masks, note=note))
    if not fitted:
        notes = "; ".join(report.note for report in reports if report.name in HEADS)
        raise DataError(f"no head could be calibrated: {notes}")
    return fitted, tuple(reports)


def _map_in(model: RagModel, name: str) -> LinearMap:
    """Return the map and the layer in the model's graph; folded maps are in the logits."""
    return LinearMap(layer=model.sentence_layer if name == "support" else NO_LAYER)


def _put(model: RagModel, name: str, linear_map: LinearMap) -> None:
    """Replace the map of a head."""
    fold(cast(TokenHead, model.heads[name]), linear_map.scale, linear_map.shift)
    if name in model.lexical_overlap:
        weight = linear_map.scale * model.lexical_overlap[name] + linear_map.lexical_overlap
        model.lexical_overlap[name] = weight
    if name == "relevance":
        model.similarity = linear_map.scale * model.similarity + linear_map.similarity
    if name == "support":
        model.sentence_layer = linear_map.layer
