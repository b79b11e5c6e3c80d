"""Labelled answers read sentence by sentence by a model's weights, under a new map of support."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.calibration.fit import Map
from trivet.calibration.halts import Streamed
from trivet.calibration.head_logits import read_heads
from trivet.calibration.streams import in_blocks, stream_sentences
from trivet.calibration.thresholds import dev_scores
from trivet.data.labelled.datamodule import Item
from trivet.data.labelled.labels import align_labels
from trivet.evaluation.preprocessing import PreprocessedExample, Preprocessor
from trivet.model.architecture import HeadName, Reduction
from trivet.model.rag_model import RagModel
from trivet.records import LabelledExample, Labels

_SUPPORT: tuple[HeadName, ...] = ("support",)


def read_model_streams(
    model: RagModel,
    found: Map,
    examples: Sequence[LabelledExample],
    preprocessor: Preprocessor,
    call_windows: int,
    faithfulness: Reduction,
) -> list[Streamed]:
    """Return the least support of each answer's sentences, by a model in eval mode.

    Args:
        model: Model.
        found: Map of the logits of its support head.
        examples: Labelled answers.
        preprocessor: Preprocessing of the bundle.
        call_windows: Most windows of one call of the encoder.
        faithfulness: Part of a response that decides; single sentences do not depend on it.
    """
    weakest = [1.0] * len(examples)
    pad = preprocessor.tokenizer.special.pad
    for block in in_blocks(stream_sentences(examples, preprocessor)):
        items = [_item(each) for _, each in block]
        logits = read_heads(model, items, pad, call_windows, _SUPPORT)["support"]
        for (place, _), one in zip(
            block, dev_scores(items, logits, found, faithfulness), strict=True
        ):
            weakest[place] = min(weakest[place], float(one.sentence_support[-1]))
    return [Streamed(*pair) for pair in zip(examples, weakest, strict=True)]


def _item(one: PreprocessedExample) -> Item:
    """Return a sentence without labels."""
    labelled = LabelledExample(one.example, Labels(), "", "")
    return Item(labelled, one.tokens, one.layout, align_labels(labelled, one.tokens, one.layout))
