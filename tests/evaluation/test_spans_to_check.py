"""Spans of supported sentences that a person should look at, and what ``strict`` makes of them."""

from __future__ import annotations

import json
import pickle

import pytest

from tests.evaluation.test_value_marks import CONTEXTS, judge
from trivet.bundle.info import Thresholds
from trivet.data.tokenization import SegmentTokenizer
from trivet.evaluation.evaluator import Evaluator
from trivet.settings import THRESHOLD_NAMES

BESIDE = (
    'Order A-1042 was sent on 3 May. The clerk wrote: "The parcel left the depot before noon."',
    "See https://post.example/track and version 2.4.1 of the form. Call 555 010 22.",
)


@pytest.mark.parametrize(
    ("response", "marked"),
    [
        ("Parcels can be returned within 30 days of delivery.", []),
        (
            "Parcels can be returned within 60 days of delivery.",
            [("60 days", "value_not_in_contexts")],
        ),
        ('They say "the parcel left  the depot before noon".', []),
        (
            'They say "the parcel left the depot after dusk".',
            [("the parcel left the depot after dusk", "quotation_not_in_contexts")],
        ),
        ('They say "left the depot".', []),  # too short to be a quotation
        ("It is order A-1024.", [("A-1024", "identifier_not_in_contexts")]),
        ("See https://post.example/track.", []),
        (
            "See https://post.example/find.",
            [("https://post.example/find", "identifier_not_in_contexts")],
        ),
        ("It was sent on 2021-05-03.", [("2021-05-03", "value_not_in_contexts")]),
        ("It is version 2.4.1.", []),
        ("Call 555-010-22.", []),
        ("It is version 2.5.1.", [("2.5.1", "identifier_not_in_contexts")]),
    ],
)
def test_what_no_context_has_is_to_check(
    tokenizer: SegmentTokenizer, response: str, marked: list[tuple[str, str]]
) -> None:
    verdict = judge(tokenizer, response, 0.9, (*CONTEXTS, *BESIDE))
    assert verdict.adherent and not verdict.unsupported
    pairs = [(span.text, span.reason) for span in verdict.to_check]
    assert [pair for pair in pairs if pair[0] in response] == pairs
    for text, reason in marked:
        assert any(text in span and reason == why for span, why in pairs), pairs
    assert bool(pairs) is bool(marked), pairs


def test_a_value_of_another_passage_than_the_sources_is_to_check(
    tokenizer: SegmentTokenizer,
) -> None:
    same = "Parcels can be returned {}."
    sources = " ".join(same.format(how) for how in ("within 30 days", "by post", "unopened"))
    response = same.format("within 5 weeks")
    (span,) = judge(tokenizer, response, 0.9, (sources, "Refunds take 5 weeks.")).to_check
    assert (span.text, span.reason) == ("5 weeks", "value_of_another_passage")
    assert span.found_at is not None and span.found_at.context == 1
    assert judge(tokenizer, response, 0.9, (f"{sources} Refunds take 5 weeks.",)).to_check == ()


def test_support_near_the_threshold_is_one_more_reason(tokenizer: SegmentTokenizer) -> None:
    text = "Parcels can be returned within 30 days of delivery."
    (span,) = judge(tokenizer, text, 0.52).to_check  # the threshold is .5
    assert (span.text, span.reason) == (text, "near_threshold")
    assert judge(tokenizer, text, 0.56).to_check == ()
    below = judge(tokenizer, text, 0.48)
    assert (below.adherent, below.to_check) == (False, ())


def test_strict_counts_spans_to_check_as_unsupported(tokenizer: SegmentTokenizer) -> None:
    text = "Parcels can be returned within 60 days of delivery. Refunds take 5 working days."
    lax, strict = (judge(tokenizer, text, 0.9, strict=value) for value in (False, True))
    assert (lax.adherent, [s.supported for s in lax.sentences]) == (True, [True, True])
    assert (strict.adherent, [s.supported for s in strict.sentences]) == (False, [False, True])
    assert (strict.unsupported, strict.to_check) == (lax.to_check, ())
    assert strict.supported_share == 0.5


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("Parcels can be returned within 60 days of delivery.", "30 days"),
        ("Refunds are paid after 9 working days.", "5 working days"),
        ("Parcels are heavy: 12 kg.", None),  # another unit
        ("The clerk is 60 days old.", None),  # nothing beside it is shared
    ],
)
def test_instead_is_a_value_in_the_same_role(
    tokenizer: SegmentTokenizer, response: str, value: str | None
) -> None:
    (span,) = [mark for mark in judge(tokenizer, response).unsupported if mark.category]
    source = span.instead
    instead = None if source is None else CONTEXTS[source.context][source.start : source.end]
    assert instead == value or (value is not None and instead is not None and instead in value)


def test_thresholds_have_names_and_rise(embedded: Evaluator) -> None:
    texts = ("How tall is the mill?", ["The mill is 9 metres tall."], "The mill is 9 metres tall.")
    thresholds = embedded.bundle.info.thresholds
    assert thresholds is not None
    used = [embedded.evaluate(*texts, threshold=name).threshold for name in THRESHOLD_NAMES]
    assert used == [thresholds.named(name) for name in THRESHOLD_NAMES]
    assert thresholds.named("careful") < thresholds.sentence < thresholds.named("strict")
    with pytest.raises(TypeError, match="or careful, balanced, strict, not 'brave'"):
        embedded.evaluate(*texts, threshold="brave")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must rise"):
        Thresholds(0.5, 0.5, careful=0.6)


def test_a_verdict_prints_as_in_a_terminal_and_stays_one_line_of_json(embedded: Evaluator) -> None:
    response = "The mill is 9 metres tall.\u2028It is old.\x85"
    verdict = embedded.evaluate("How tall is the mill?", ["The mill is 9 metres tall."], response)
    assert "faithfulness" in str(verdict) and "The mill is 9 metres tall." in str(verdict)
    line = verdict.to_json()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["sentences"][0]["text"] == verdict.sentences[0].text


def test_an_evaluator_pickles_by_its_arguments(embedded: Evaluator) -> None:
    made = Evaluator(threads=1, max_characters=99)
    copy = pickle.loads(pickle.dumps(made))
    assert (copy.workers, copy.preprocessor.max_characters) == (1, 99)
    texts = ("Who?", ["Ada keeps the mill."], "Ada keeps the mill.")
    assert copy.evaluate(*texts) == made.evaluate(*texts)
