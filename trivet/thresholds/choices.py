"""Choices of a calibration; options of ``trivet calibrate`` are made from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Literal, get_args

from trivet.heads import HeadName
from trivet.settings import FALSE_ALARMS, Setting

Weighing = Literal["example", "sentence"]
Weighed = Literal["lexical_overlap", "similarity"]  # of a context sentence
WEIGHED: tuple[Weighed, ...] = get_args(Weighed)


class CalibratedHead(StrEnum):
    """Heads that can be named; evidence is always fitted."""

    support = "support"
    relevance = "relevance"
    utilization = "utilization"


_prefixes = partial(Setting, metavar="PREFIX", typed=list[str], read=tuple)


@dataclass(frozen=True)
class Choices:
    """Choices of a calibration."""

    heads: Annotated[
        tuple[HeadName, ...],
        Setting(
            "support, relevance or utilization; default: all with labels. Repeatable.",
            "--head",
            metavar="HEAD",
            typed=list[CalibratedHead],
            read=lambda heads: tuple(head.value for head in heads),
        ),
    ] = ()
    weighing: Annotated[
        Weighing, Setting("Give each example, or each sentence, the same weight.", "--weigh")
    ] = "example"
    keep_layer: Annotated[
        bool,
        Setting(
            "Keep the maps of contexts, and the proportions of the weights of the layer over "
            "sentences; fit support's map, the layer's scale and shift, and the sources."
        ),
    ] = False
    only: Annotated[tuple[str, ...], _prefixes("Use these sources; default: all. Repeatable.")] = ()
    thresholds_from: Annotated[
        tuple[str, ...], _prefixes("Choose thresholds on these sources; default: all. Repeatable.")
    ] = ()
    label: str | None = None  # column of the labels of sheets
    # rate that chooses the sentence threshold; None: the best F1
    false_alarms: float | None = FALSE_ALARMS
    lexical_overlap: Annotated[
        bool,
        Setting(
            "Also weigh the words that a sentence of the contexts shares with the question "
            "(relevance) or the response (utilization)."
        ),
    ] = False
    similarity: Annotated[
        bool,
        Setting(
            "Also weigh the similarity of question and context sentence, by the states of the "
            "evidence head, in relevance."
        ),
    ] = False

    @property
    def weighed(self) -> tuple[Weighed, ...]:
        """Features with a weight of their own in the maps."""
        return tuple(name for name in WEIGHED if getattr(self, name))
