"""Verdicts of a bundle that are kept in a file, so that the same texts are judged once.

The file belongs to a bundle, not to a run: runs over any rows read it and add to it, without locks
or records. So it is not a ``ResumableJsonl``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from trivet.bundle.manifest import MANIFEST_NAME
from trivet.errors import DataError
from trivet.evaluation.evaluator import Evaluator
from trivet.labelled.grouping import digest
from trivet.measures.predictions import Prediction
from trivet.records import Evaluation, FailedEvaluation, LabelledExample, RagExample, to_json_text
from trivet.verdict_json import read_evaluation


def predict_sets(
    evaluator: Evaluator, sets: Mapping[str, Sequence[LabelledExample]], folder: Path | None
) -> dict[str, list[Prediction]]:
    """Judge the rows of several sets, each text once, with a progress bar on stderr.

    Args:
        evaluator: Evaluator with the bundle.
        sets: Rows by the name of their set.
        folder: Folder of kept verdicts. It has a file for each bundle, named by its manifest; a
            text that it holds is not judged again, whatever version of the package judged it. A
            stopped run is resumed by the same call. ``None`` keeps nothing.

    Raises:
        DataError: The folder cannot be written, or its file holds something else.
    """
    texts = {_key(row.example): row.example for rows in sets.values() for row in rows}
    verdicts = _judge(evaluator, texts, None if folder is None else _file(evaluator, folder))
    return {
        name: [Prediction(row, verdicts[_key(row.example)]) for row in rows]
        for name, rows in sets.items()
    }


def _judge(
    evaluator: Evaluator, texts: Mapping[str, RagExample], file: Path | None
) -> dict[str, Evaluation | FailedEvaluation]:
    """Return the verdict on each text: kept ones from the file, the others appended to it."""
    verdicts: dict[str, Evaluation | FailedEvaluation] = {}
    if file is not None:
        verdicts |= _read(file, texts)
    missing = [key for key in texts if key not in verdicts]
    console = Console(stderr=True)
    judged = track(
        zip(missing, evaluator.evaluate_many(texts[key] for key in missing), strict=True),
        evaluator.bundle.info.name,
        total=len(missing),
        console=console,
        disable=not console.is_terminal,
    )
    for key, verdict in judged:
        verdicts[key] = verdict
        if file is not None and isinstance(verdict, Evaluation):  # a failure is tried again
            line = to_json_text({"key": key, **verdict.to_dict()})
            with file.open("a", encoding="utf-8") as out:
                out.write(f"{line}\n")
    return verdicts


def _file(evaluator: Evaluator, folder: Path) -> Path:
    """Return the bundle's file in the folder, which is made."""
    manifest = (evaluator.bundle.folder / MANIFEST_NAME).read_bytes()
    name = f"{evaluator.precision}-{hashlib.sha256(manifest).hexdigest()[:16]}.jsonl"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    except OSError as error:
        raise DataError(f"{folder}: verdicts cannot be kept there: {error.strerror}") from error
    return folder / name


def _read(file: Path, texts: Mapping[str, RagExample]) -> dict[str, Evaluation]:
    """Read the kept verdicts on some texts; the rest of a line that was cut off is removed."""
    verdicts = {}
    with file.open("r+b") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                lines.seek(-len(line), 2)
                lines.truncate()
                break
            try:
                record = json.loads(line)
                key = record["key"]
                if key in texts:
                    verdicts[key] = read_evaluation(record)
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(
                    f"{file} line {number} is not a kept verdict ({error}); remove the file, or "
                    "choose another folder"
                ) from error
    return verdicts


def _key(example: RagExample) -> str:
    return digest(example.question, *example.contexts, "\n", example.response)
