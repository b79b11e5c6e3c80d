"""Supported responses with small errors in known places, made by a language model or by rules.

A perturbed row is the twin of a natural one, with its group; its source is ``perturbed/...``. It
is made for training. Measure on natural rows: a model can learn what an edit looks like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from trivet.annotation.asking import OTHER_TEMPERATURE, Prompt, ask_checked, read_object
from trivet.annotation.edits import KINDS, LONGEST, SHORTEST, Edits, Perturbation, apply_edits
from trivet.annotation.jobs import MOST_TOKENS, Made, Row
from trivet.errors import DataError
from trivet.labelled.augmentation.twins import TWINS, draw_kinds
from trivet.labelled.labelled_jsonl import read_pairs, to_row
from trivet.llm.chat import ChatRequest
from trivet.llm.client import ChatClient
from trivet.records import LabelledExample

_SOURCE = "perturbed/"


@dataclass(frozen=True)
class Original:
    """A labelled row: to be copied as it was read, or to get a twin, drawn by a seed."""

    raw: Row
    labelled: LabelledExample
    twin_seed: tuple[int, int] | None = None


def originals_of(path: Path, share: float, seed: int) -> Iterator[tuple[Row, Original]]:
    """Yield the rows of a labelled JSONL file with their places, and some again for a twin.

    A twin gets a share of the rows whose whole response is supported, if they are natural and not
    of the publisher's test split.

    Raises:
        DataError: The file cannot be read, or no response in it can be perturbed.
    """
    pairs, report = read_pairs(path)
    report.log()
    fit = [_can_perturb(labelled) for _, labelled in pairs]
    if not any(fit):
        raise DataError(f"{path}: none of {report.rows} rows has a response that is all supported")
    for number, (raw, labelled) in enumerate(pairs):
        place = {"row": number + 1, "id": labelled.example.id}
        yield place, Original(raw, labelled)
        twin_seed = seed, number
        if fit[number] and np.random.default_rng(twin_seed).random() < share:
            yield place, Original(raw, labelled, twin_seed)


def _can_perturb(labelled: LabelledExample) -> bool:
    is_natural = not labelled.source.startswith(_SOURCE) and labelled.split != "test"
    return (
        is_natural and labelled.labels.adherent is True and bool(labelled.example.response.strip())
    )


class RuleTwins:
    """The job of making twins by rules."""

    def plan(self, item: Original) -> list[tuple[ChatClient, ChatRequest]]:
        """Return nothing: no model is asked."""
        return []

    def make(self, item: Original) -> Made:
        """Return the row, or its twin if there is a kind of twin for it."""
        if item.twin_seed is None:
            return Made([_copy(item)])
        random = np.random.default_rng((*item.twin_seed, 1))
        for kind in draw_kinds(random):
            twin = TWINS[kind](item.labelled, random)
            if twin is not None and not twin.labels.unclear:
                return Made([_twin(item, twin, [kind], {"by": "rules"})], [kind])
        return Made([])


class Perturber:
    """The job of making twins with a language model."""

    def __init__(self, client: ChatClient, most_edits: int) -> None:
        """Choose the model, and the most edits of a response."""
        self._client = client
        self._most_edits = most_edits
        self._prompt = Prompt("perturb-1")

    def plan(self, item: Original) -> list[tuple[ChatClient, ChatRequest]]:
        """Return the request for edits, with a number and a preferred kind that are drawn."""
        if item.twin_seed is None:
            return []
        random, example = np.random.default_rng((*item.twin_seed, 1)), item.labelled.example
        values = {
            "question": example.question,
            "contexts": example.contexts,
            "response": example.response,
            "kinds": KINDS,
            "preferred": str(random.choice(list(KINDS))),
            "count": int(random.integers(1, self._most_edits + 1)),
            "shortest": SHORTEST,
            "longest": LONGEST,
        }
        request = ChatRequest(
            messages=self._prompt.messages(values),
            max_tokens=MOST_TOKENS,
            temperature=OTHER_TEMPERATURE,
            schema=Edits.model_json_schema(),
        )
        return [(self._client, request)]

    def make(self, item: Original) -> Made:
        """Return the row, or its twin."""
        if not (planned := self.plan(item)):
            return Made([_copy(item)])

        def read(text: str) -> Perturbation:
            edits = Edits.model_validate(read_object(text)).edits
            return apply_edits(item.labelled, edits[: self._most_edits])

        found, provenance = ask_checked(*planned[0], self._prompt.version, read)
        kinds = [edit.kind for edit in found.edits]
        edits = [edit.model_dump() for edit in found.edits]
        how = {"edits": edits, "refused": list(found.refused)} | asdict(provenance)
        return Made([_twin(item, found.row, kinds, how)], kinds)


def _copy(item: Original) -> Row:
    """Return the row as it was read, with the names that its twin refers to."""
    labelled = item.labelled
    names = {"id": labelled.example.id, "source": labelled.source, "group": labelled.group}
    return item.raw | names


def _twin(
    item: Original, twin: LabelledExample, kinds: Sequence[str], how: Mapping[str, object]
) -> Row:
    name = item.labelled.example.id
    example = replace(twin.example, id=f"{name}+{'+'.join(kinds)}")
    row = to_row(replace(twin, example=example, source=f"{_SOURCE}{item.labelled.source}"))
    return row | {"perturbation": {"of": name, "kinds": list(kinds), **how}}
