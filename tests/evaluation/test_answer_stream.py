"""Answers judged while they are written. The backend is a formula."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.judges import FormulaBackend
from trivet.data.tokenization import SegmentTokenizer
from trivet.errors import BackendError, ExampleError
from trivet.evaluation.answer_stream import PRECEDING, AnswerStream, SentenceReader
from trivet.evaluation.evaluator import Evaluator
from trivet.interface import SentenceEvent
from trivet.records import EvidenceSpan, RagExample, SentenceVerdict

QUESTION = "When was the mill built?"
CONTEXTS = [
    "The old mill was built in 1817. It is made of stone. The baker has bread and flour.",
    "The ferry is red. It crosses north of the town, where the river is wide.",
    "The lighthouse had ten keepers. No lamp is in it. The oven is new and blue.",
]
ANSWER = "The mill is old. It was built in 1817, e.g. of stone. The ferry is\nred! Is it wide? No "
SENTENCES = [
    "The mill is old.",
    "It was built in 1817, e.g. of stone.",
    "The ferry is\nred!",
    "Is it wide?",
]


def events_of(stream: AnswerStream, pieces: list[str]) -> list[SentenceEvent]:
    return [event for piece in pieces for event in stream.feed(piece)]


def test_a_sentence_is_judged_when_the_next_one_has_begun(judge: Evaluator) -> None:
    stream = judge.stream(QUESTION, CONTEXTS)
    assert stream.feed("The mill is old. ") == []
    assert stream.feed("It") == []
    (event,) = stream.feed(" ")
    assert (event.text, event.start, event.end) == ("The mill is old.", 0, 16)
    assert stream.text == "The mill is old. It "


@pytest.mark.parametrize("windows", ["evidence", "all"])
@pytest.mark.parametrize("length", [1, 3, 7, 1000])
def test_events_do_not_depend_on_the_pieces(
    each_judge: Evaluator, length: int, windows: Any
) -> None:
    pieces = [ANSWER[start : start + length] for start in range(0, len(ANSWER), length)]
    stream = each_judge.stream(QUESTION, CONTEXTS, windows=windows)
    events = events_of(stream, pieces)
    whole = each_judge.stream(QUESTION, CONTEXTS, windows=windows)
    assert events == whole.feed(ANSWER)
    assert [event.text for event in events] == SENTENCES
    for event in events:
        assert event.text == ANSWER[event.start : event.end]
        assert event.support is not None
        assert event.supported is (event.support >= 0.5)
        assert bool(event.unsupported) is not event.supported
        assert all(event.start <= s.start < s.end <= event.end for s in event.unsupported)


@pytest.mark.parametrize("windows", ["evidence", "all"])
def test_the_verdict_is_that_of_the_whole_text(each_judge: Evaluator, windows: Any) -> None:
    stream = each_judge.stream(QUESTION, CONTEXTS, windows=windows, id="mill", threshold=0.4)
    events_of(stream, list(ANSWER))
    whole = each_judge.evaluate(QUESTION, CONTEXTS, ANSWER, id="mill", threshold=0.4)
    assert stream.close() == whole
    assert stream.close() is stream.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(st.text(alphabet="mil. \nT\ud800é1!", max_size=12), max_size=6))
def test_any_text_ends_in_the_verdict_of_evaluate(judge: Evaluator, pieces: list[str]) -> None:
    stream = judge.stream(QUESTION, CONTEXTS)
    events = events_of(stream, pieces) + stream.flush()
    text = "".join(pieces)
    assert stream.close() == judge.evaluate(QUESTION, CONTEXTS, text)
    assert [event.text for event in events] == [text[e.start : e.end] for e in events]


@pytest.fixture
def two_weakest(judge: Evaluator, formula: FormulaBackend) -> Evaluator:
    """Return a judge by which strong sentences outweigh a weak one in the whole answer."""
    evaluator = Evaluator(judge.bundle.folder, backend=formula)
    info = evaluator.bundle.info.model_copy(update={"faithfulness": "two_weakest_sentences"})
    evaluator.bundle = replace(evaluator.bundle, info=info)
    return evaluator


@pytest.mark.parametrize("windows", ["evidence", "all"])
def test_a_verdict_does_not_depend_on_its_neighbours(two_weakest: Evaluator, windows: Any) -> None:
    stream = two_weakest.stream(QUESTION, CONTEXTS, windows=windows)
    supports = [e.support for e in stream.feed(ANSWER) if e.support is not None]
    weak = min(supports)
    # Between the weakest support and that of the whole answer, which its neighbours raise.
    whole = two_weakest.evaluate(QUESTION, CONTEXTS, ANSWER).faithfulness
    assert whole is not None and whole > weak
    threshold = (weak + whole) / 2
    again = two_weakest.stream(QUESTION, CONTEXTS, windows=windows, threshold=threshold)
    for event in again.feed(ANSWER):
        assert event.support is not None
        assert event.supported is (event.support >= threshold)
        assert event.threshold == threshold
        assert bool(event.unsupported) is not event.supported
    assert again.close().adherent


def test_sentences_without_a_claim_and_abstentions_are_told(judge: Evaluator) -> None:
    stream = judge.stream(QUESTION, CONTEXTS)
    text = "Sure! ## Age\nI don't know the price. The mill is old. So:"
    events = stream.feed(text) + stream.flush()
    flags = {event.text: (event.supported is None, event.abstains) for event in events}
    assert flags["Sure!"] == (True, False)
    assert flags["I don't know the price."] == (True, True)
    assert flags["The mill is old."] == (False, False)
    # A heading is one as soon as text follows, in a stream as in the whole answer.
    heading = judge.stream(QUESTION, CONTEXTS)
    (event,) = heading.feed("**The mill**\nIt is old")
    assert (event.text, event.supported) == ("**The mill**", None)


def test_thoughts_that_have_not_ended_are_not_judged(judge: Evaluator) -> None:
    stream = judge.stream(QUESTION, CONTEXTS)
    text = "<think>\nThe mill is new. It had ten keepers.\n</think>\n\nThe mill is old. It is red."
    judged = [event.text for event in stream.feed(text) if event.supported is not None]
    assert judged == ["The mill is old."]


def test_the_window_of_evidence_holds_the_nearest_sentence(
    judge: Evaluator, formula: FormulaBackend
) -> None:
    many = [*CONTEXTS, *["The garden has an apple tree and a pear tree. It is green."] * 9]
    stream = judge.stream("", many)
    formula.calls.clear()
    (event,) = stream.feed("The lighthouse had ten keepers. It ")
    assert event.source_text == "The lighthouse had ten keepers."
    assert event.source is not None
    assert many[event.source.context][event.source.start : event.source.end] == event.source_text
    assert [rows for rows, _ in formula.calls] == [1]
    assert judge.evaluate("", many, "The lighthouse had ten keepers.").windows > 1


def test_the_source_is_that_of_the_evidence_head_where_it_names_one(judge: Evaluator) -> None:
    example = RagExample("Q?", ("The mill was built in 1790. It is red.",), "")
    reader = SentenceReader(judge.preprocessor, example, "all")
    reader.feed("The mill was built in 1790.")
    (pending,) = reader.flush()
    sentence = SentenceVerdict(0, 27, reader.text, 0.9, True, (EvidenceSpan(0, 28, 38, 0.7),))
    verdict = judge.evaluate("Q?", example.contexts, reader.text)
    for evidence, text in ((sentence.evidence, "It is red."), ((), "The mill was built in 1790.")):
        judged = replace(verdict, sentences=(replace(sentence, evidence=evidence),))
        assert pending.event(judged).source_text == text


@pytest.mark.parametrize("start", ["### ", "# ", "| The mill | 12 |: "])
@pytest.mark.parametrize("space", [" ", "\n"])
def test_marks_are_read_as_in_the_whole_text(embedded: Evaluator, start: str, space: str) -> None:
    # So many tokens that the last sentence is read without the one before.
    text = f"The mill is {'very ' * PRECEDING}old.{space}{start}Here it is."
    reader = SentenceReader(embedded.preprocessor, RagExample("Q?", ("It is.",), ""), "all")
    pending = [*reader.feed(text), *reader.flush()]
    streamed, whole = pending[-1].prepared.tokens, reader.whole().tokens
    last = whole.response_sentence == whole.response_sentence[-1]
    assert streamed.response.ids.tolist() == whole.response.ids[last].tolist()
    assert streamed.response.offsets.tolist() == whole.response.offsets[last].tolist()


def test_all_windows_show_all_contexts(judge: Evaluator, formula: FormulaBackend) -> None:
    stream = judge.stream("", CONTEXTS * 3, windows="all")
    formula.calls.clear()
    stream.feed("The mill is old. It ")
    alone = judge.evaluate("", CONTEXTS * 3, "The mill is old.")
    assert [rows for rows, _ in formula.calls] == [alone.windows] * 2
    assert alone.windows > 1


def test_the_contexts_are_tokenized_once(judge: Evaluator, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    encode = SegmentTokenizer.encode

    def counting(self: SegmentTokenizer, texts: Any) -> Any:
        encoded.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(SegmentTokenizer, "encode", counting)
    stream = judge.stream(QUESTION, CONTEXTS)
    events_of(stream, list(ANSWER))
    stream.close()
    assert [encoded.count(text) for text in CONTEXTS] == [1, 1, 1]


@pytest.mark.parametrize("contexts", [[], [""], " "])
def test_without_contexts_the_stream_does_not_begin(judge: Evaluator, contexts: Any) -> None:
    with pytest.raises(ExampleError, match="allow_empty_contexts") as refused:
        judge.stream(QUESTION, contexts)
    assert refused.value.code == "empty_contexts"
    stream = judge.stream(QUESTION, contexts, allow_empty_contexts=True)
    (event,) = stream.feed("The mill is old. It ")
    assert event.source is None
    assert stream.close() == judge.evaluate(
        QUESTION, contexts, "The mill is old. It ", allow_empty_contexts=True
    )


def test_without_a_support_head_a_stream_has_no_events(judge_without_support: Evaluator) -> None:
    stream = judge_without_support.stream(QUESTION, CONTEXTS)
    with pytest.raises(BackendError, match="no support head, so sentences have no verdict"):
        stream.feed(ANSWER)
    assert stream.close() == judge_without_support.evaluate(QUESTION, CONTEXTS, ANSWER)


def test_the_calls_of_event_loops_give_the_same(judge: Evaluator) -> None:
    async def run() -> tuple[list[SentenceEvent], Any]:
        stream = judge.stream(QUESTION, CONTEXTS)
        events = await stream.afeed(ANSWER) + await stream.aflush()
        return events, await stream.aclose()

    stream = judge.stream(QUESTION, CONTEXTS)
    assert asyncio.run(run()) == (stream.feed(ANSWER) + stream.flush(), stream.close())
