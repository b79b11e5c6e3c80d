"""Labels for a log by a language model, or by two that must agree on what is supported."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trivet.annotation.annotator_answer import AnnotatorAnswer, KeyedExample, read_answer
from trivet.annotation.asking import Prompt, Provenance, RejectedError, ask_checked
from trivet.batch.output import RunChangedError
from trivet.batch.resumable_jsonl import ResumableJsonl, replace_file
from trivet.errors import ExampleError
from trivet.evaluation.streams import work_in_order
from trivet.labelled.grouping import digest
from trivet.labelled.labelled_jsonl import to_row
from trivet.llm.chat import Budget, ChatAnswer, ChatRequest, LlmError
from trivet.llm.chat_client import ChatClient
from trivet.logs.column_mapping import LogRow
from trivet.records import LabelledExample, RagExample, to_json_text

Row = dict[str, Any]

_TOKENS, _PER_SENTENCE, _PER_KEY = 2000, 150, 8  # maximum of an answer


class PaidAnswers:
    """Answers that were paid for: a stopped run asks for none of them again."""

    def __init__(self, file: ResumableJsonl, clients: Sequence[ChatClient], budget: Budget) -> None:
        """Read the answers of earlier runs, which count in the budget."""
        self._file, self._lock = file, threading.Lock()
        prices = {client.model: client.price for client in clients}
        self._known: dict[str, ChatAnswer] = {}
        self._written: set[str] = set()
        for row in file.rows():
            if "written" in row:
                self._written.add(row["written"])
                continue
            answer = self._known[row["key"]] = ChatAnswer(**row["answer"])
            budget.pay(prices[row["model"]].cost(answer.input_tokens, answer.output_tokens))

    def ask(self, client: ChatClient, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request, asked for once; it is on the disk when this returns."""
        content = json.dumps([client.model, asdict(request)], sort_keys=True)
        key = hashlib.sha256(content.encode()).hexdigest()
        if (answer := self._known.get(key)) is None:
            answer = client.ask(request)
            paid = asdict(answer) | {"logprobs": ()}
            with self._lock:
                self._file.append({"key": key, "model": client.model, "answer": paid})
        return answer

    def check(self, out: Path) -> None:
        """Refuse a file that is there and was not written here, such as one corrected by hand."""
        if out.exists() and hashlib.sha256(out.read_bytes()).hexdigest() not in self._written:
            raise RunChangedError(
                f"{out}: was changed, or is not of this run; choose another --out, or move it away"
            )

    def write(self, path: Path, rows: Sequence[Row]) -> None:
        """Replace a file by these rows; without rows it goes."""
        if not rows:
            path.unlink(missing_ok=True)
            return
        content = "".join(to_json_text(row) + "\n" for row in rows)
        self._file.append({"written": hashlib.sha256(content.encode()).hexdigest()})
        replace_file(path, content)


@dataclass(frozen=True)
class Labeller:
    """One annotator, or two to compare."""

    clients: Sequence[ChatClient]
    prompt: Prompt
    answers: PaidAnswers
    source: str  # of the labelled rows
    schema: Row = field(default_factory=AnnotatorAnswer.model_json_schema)

    def label(self, item: LogRow) -> Row:
        """Return a row of a log with the labels of the first annotator.

        A `RejectedError` says that a model refused, that its answers stay inconsistent, or that two
        disagree on the support of a sentence.
        """
        keyed = _keyed(item)
        # One after the other: a row without one answer needs no other.
        (answer, provenance), *others = [self._annotate(keyed, client) for client in self.clients]
        annotation = asdict(provenance)
        for other, its_provenance in others:
            annotation["other"] = asdict(its_provenance)
            if answer.supported() != other.supported():
                message = "the models disagree on the support of a sentence"
                raise RejectedError(message, "disputed", annotation)
        group, generator = item.metadata.get("group"), item.metadata.get("generator")
        labelled = LabelledExample(
            example=keyed.example,
            labels=answer.labels(keyed),
            source=self.source,
            group=digest(*keyed.example.contexts) if group is None else str(group),
            generator=None if generator is None else str(generator),
        )
        return to_row(labelled) | _metadata(item) | {"annotation": annotation}

    def _annotate(
        self, keyed: KeyedExample, client: ChatClient
    ) -> tuple[AnnotatorAnswer, Provenance]:
        sentences = _PER_SENTENCE * len(keyed.response) + _PER_KEY * len(keyed.contexts)
        request = ChatRequest(
            self.prompt.messages(keyed.values()), _TOKENS + sentences, schema=self.schema
        )
        provenance = Provenance(client.model, self.prompt.version)
        answer = ask_checked(
            lambda request: self.answers.ask(client, request),
            *(request, provenance, lambda text: read_answer(text, keyed)),
        )
        provenance.answer = answer.model_dump()
        return answer, provenance


def label_rows(
    labeller: Labeller,
    rows: Iterable[LogRow],
    out: Path,
    concurrency: int,
    say: Callable[[Callable[[], str]], None],
) -> Counter[str]:
    """Write the labelled rows, and those without labels to a second file; return the counts."""
    labelled: list[Row] = []
    rejected: list[Row] = []
    counts: Counter[str] = Counter()

    def work(item: LogRow) -> Row | ExampleError:
        try:
            return labeller.label(item)
        except ExampleError as error:
            return error
        except LlmError as error:
            if error.fatal:
                raise
            return ExampleError(str(error), error.code)

    try:  # also of a run that stops
        for item, result in work_in_order(rows, work, concurrency):
            if isinstance(result, ExampleError):
                rejected.append(_rejected(item, result))
                counts[result.code] += 1
            else:
                labelled.append(result)
                counts["labelled"] += 1
            say(lambda: ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    finally:
        labeller.answers.write(out, labelled)
        labeller.answers.write(out.with_suffix(".rejected.jsonl"), rejected)
    return counts


def _keyed(row: LogRow) -> KeyedExample:
    """Return a row with its sentences; ``ExampleError`` if there is nothing to label."""
    example = row.example
    if not isinstance(example, RagExample):
        raise ExampleError(example.message, example.code)
    keyed = KeyedExample.of(example)
    if not keyed.contexts:
        raise ExampleError(f"{row.location}: no context holds any text", "empty_contexts")
    if not keyed.response:
        raise ExampleError(f"{row.location}: the response is empty", "empty_response")
    return keyed


def _rejected(row: LogRow, error: ExampleError) -> Row:
    """Return what tells a row from others, its texts, and the reason for no labels."""
    texts: Row = {"row": row.number, "id": row.example.id}
    if isinstance(row.example, RagExample):
        texts |= {name: getattr(row.example, name) for name in ("question", "contexts", "response")}
    reason: Row = {"error": {"code": error.code, "message": str(error)}}
    calls = {"calls": error.calls} if isinstance(error, RejectedError) else {}
    return texts | _metadata(row) | reason | calls


def _metadata(row: LogRow) -> Row:
    return {"metadata": dict(row.metadata)} if row.metadata else {}
