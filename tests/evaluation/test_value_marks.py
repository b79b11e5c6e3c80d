"""Reasons of unsupported spans, sentences without a claim, and abstentions in a verdict."""

from __future__ import annotations

import numpy as np
import pytest

from tests.steps import calls_of
from trivet.bundle.info import Thresholds
from trivet.data.tokenization import SegmentTokenizer, tokenize_examples
from trivet.data.windows import WindowSettings, lay_out
from trivet.evaluation.evaluator import Evaluator
from trivet.evaluation.postprocessing import Decision, to_evaluation
from trivet.evaluation.preprocessing import PreprocessedExample
from trivet.model.aggregate import Outputs
from trivet.records import Evaluation, RagExample

CONTEXTS = (
    "Parcels can be returned within 30 days of delivery.",
    "Refunds are paid after 5 working days by Ilse Tamm.",
)


def judge(
    tokenizer: SegmentTokenizer,
    response: str,
    support: float = 0.1,
    contexts: tuple[str, ...] = CONTEXTS,
    *,
    strict: bool = False,
) -> Evaluation:
    """Return the verdict on a response of which all tokens have one support."""
    example = RagExample("When can parcels be returned?", contexts, response)
    (tokens,) = tokenize_examples([example], tokenizer)
    layout = lay_out(tokens, WindowSettings(size=256), tokenizer.special)
    sentences = len(tokens.response_sentence_spans)
    outputs = Outputs(
        support_probs=np.full((1, len(tokens.response)), support),
        relevance_probs=np.full((1, len(tokens.context)), 0.2),
        utilization_probs=np.full((1, len(tokens.context)), 0.2),
        sentence_support=np.full((1, sentences), support),
        faithfulness=np.array([support]),
        relevance=np.array([0.2]),
        utilization=np.array([0.2]),
        completeness=np.array([0.2]),
    )
    decision = Decision(Thresholds(0.5, 0.05), strict=strict)
    return to_evaluation(PreprocessedExample(example, tokens, layout), outputs, decision)


def test_a_value_that_is_nowhere_is_marked_with_what_the_sources_have(
    tokenizer: SegmentTokenizer,
) -> None:
    (span,) = judge(tokenizer, "Parcels can be returned within 60 days of delivery.").unsupported
    assert (span.text, span.reason) == ("60 days", "value_not_in_contexts")
    assert (span.category, span.subcategory) == ("contradiction", "value")
    assert span.found_at is None and span.instead is not None
    source = span.instead
    assert CONTEXTS[source.context][source.start : source.end] == "30 days"


def test_of_a_copied_sentence_only_what_differs_is_marked(tokenizer: SegmentTokenizer) -> None:
    verdict = judge(tokenizer, "Parcels can be exchanged within 30 days of delivery.")
    assert [span.text for span in verdict.unsupported] == ["exchanged"]
    whole = "Fees are waived for members of the club."
    assert [span.text for span in judge(tokenizer, whole).unsupported] == [whole]


def test_a_sentence_without_a_claim_is_neither(tokenizer: SegmentTokenizer) -> None:
    verdict = judge(tokenizer, "Sure! Let me know if you have any other questions.")
    assert [(s.support, s.supported) for s in verdict.sentences] == [(None, None)] * 2
    assert (verdict.unsupported, verdict.abstains) == ((), False)
    assert verdict.supported_share is None


def test_an_abstention_is_no_praise(tokenizer: SegmentTokenizer) -> None:
    text = "The passages do not say when parcels can be returned."
    alone = judge(tokenizer, text)
    assert (alone.abstains, alone.adherent, alone.supported_share) == (True, True, None)
    assert not any(context.utilization for context in alone.contexts)
    assert (alone.faithfulness, alone.completeness, alone.utilization) == (None, None, 0.0)
    assert [(s.support, s.supported, s.abstains) for s in alone.sentences] == [(None, None, True)]
    beside = judge(tokenizer, f"Refunds take 5 days. {text}", 0.9)
    assert (beside.abstains, beside.adherent) == (False, True), "about a detail"
    assert beside.faithfulness is not None and beside.completeness is not None


def test_a_response_without_a_supported_sentence_is_not_complete(
    tokenizer: SegmentTokenizer,
) -> None:
    wrong = judge(tokenizer, "Refunds take 90 days.", 0.1)
    assert (wrong.supported_share, wrong.completeness) == (0.0, None)
    assert wrong.utilization


def test_a_citation_by_name_is_no_fact_that_the_contexts_lack(embedded: Evaluator) -> None:
    question, fact = "When was it built?", "The mill was built of stone in 1790"
    named = {"text": f"{fact}.", "title": "Smith, J. (2020). Old mills"}
    cited = embedded.evaluate(question, [named], f"{fact} (Smith 2020).")
    numbered = embedded.evaluate(question, [named], f"{fact} [1].")
    assert cited.faithfulness == pytest.approx(numbered.faithfulness, abs=1e-3)
    assert cited.adherent is True
    assert cited.sentences[0].text == f"{fact} (Smith 2020)."
    assert cited.citations is not None and cited.citations.precision == 1

    response = f"{fact} (Smith 2020). It was sold in 1850 (Smith 2020)."
    verdict = embedded.evaluate(question, [named], response)
    stream = embedded.stream(question, [named])
    events = [*stream.feed(response), *stream.flush()]
    assert [event.supported for event in events] == [True, False]
    spans = [*verdict.unsupported, *(span for event in events for span in event.unsupported)]
    assert any(span.text == "1850" for span in spans)
    assert all(response[span.start : span.end] == span.text for span in spans)
    assert not any(span.text == "2020" for span in spans)
    assert stream.close() == verdict


@pytest.mark.parametrize("marks", ["[1]", "[2][1]", "[1, 2]", "[1-2]", "[1    ]"])
def test_citation_marks_are_no_values(tokenizer: SegmentTokenizer, marks: str) -> None:
    verdict = judge(tokenizer, f"Parcels can be returned within 30 days of delivery {marks}.")
    assert {span.reason for span in verdict.unsupported} == {"not_supported"}


def test_marks_of_many_values_take_linear_time(tokenizer: SegmentTokenizer) -> None:
    def steps(count: int) -> int:
        context = "".join(f"{number}.5 cm, " for number in range(count))
        response = "".join(f"{number} kg, {number}.7 cm, " for number in range(count))
        judged: list[Evaluation] = []
        called = calls_of(lambda: judged.append(judge(tokenizer, response, contexts=(context,))))
        assert len(judged[0].unsupported) >= count
        return called

    steps(10)  # what is made once
    assert steps(200) < 2.5 * steps(100)


def test_a_link_beside_a_value_is_no_span(tokenizer: SegmentTokenizer) -> None:
    verdict = judge(tokenizer, "[Parcels](http://x.org/a 'of 12') return within 60 days.")
    assert [span.text for span in verdict.unsupported if "x.org" in span.text] == []
