"""Labels of tokens for three kinds of supervision; unknown labels stay unknown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trivet.data.spans import mark_tokens
from trivet.data.tokenization import SegmentTokenizer, TokenizedExample, tokenize_examples
from trivet.data.windows import Layout, WindowSettings, lay_out
from trivet.labelled.labels import (
    CONTRADICTION,
    ENTAILMENT,
    NEUTRAL,
    UNKNOWN,
    Targets,
    align_labels,
    collate_labels,
)
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

FIRST = "The old mill is in the north. It was built of stone."
SECOND = "The ferry crosses the river. It has a red boat."
RESPONSE = "The mill was built of stone. It has a red boat. It is ten years old."
EXAMPLE = RagExample("What is old?", (FIRST, SECOND), RESPONSE, id="x")
STONE = ContextSpan(0, FIRST.index("It was"), len(FIRST))
BOAT = ContextSpan(1, SECOND.index("It has"), len(SECOND))
SAYS_STONE = Span(0, RESPONSE.index(" It has"))
SAYS_BOAT = Span(RESPONSE.index("It has"), RESPONSE.index(" It is"))
SAYS_AGE = Span(RESPONSE.index("It is"), len(RESPONSE))


def lay(
    labels: Labels,
    tokenizer: SegmentTokenizer,
    example: RagExample = EXAMPLE,
    size: int = 46,
    use_evidence: bool = True,
    evidence_sentences: int = 0,
) -> tuple[TokenizedExample, Layout, Targets]:
    (read,) = tokenize_examples([example], tokenizer)
    settings = WindowSettings(size, evidence_sentences=evidence_sentences)
    layout = lay_out(read, settings, tokenizer.special)
    labelled = LabelledExample(example, labels, "tiny", "x", weight=0.5)
    return read, layout, align_labels(labelled, read, layout, use_evidence)


def rows_showing(span: ContextSpan, read: TokenizedExample, layout: Layout) -> set[int]:
    """Return the rows of the tokens of a context span; no slices overlap here."""
    inside = mark_tokens(read.context.offsets, [Span(span.start, span.end)])
    return set(layout.context_row[inside & (read.context_index == span.context)].tolist())


def test_evidence_is_entailed_where_shown_and_neutral_elsewhere(
    tokenizer: SegmentTokenizer,
) -> None:
    labels = Labels(
        unsupported=(SAYS_AGE,),
        adherent=False,
        evidence=(Evidence(SAYS_STONE, (STONE,)), Evidence(SAYS_BOAT, (BOAT,))),
    )
    read, layout, targets = lay(labels, tokenizer)
    stone, boat = rows_showing(STONE, read, layout), rows_showing(BOAT, read, layout)
    for says, rows in ((SAYS_STONE, stone), (SAYS_BOAT, boat)):
        for r in np.flatnonzero(mark_tokens(read.response.offsets, [says])):
            wanted = [ENTAILMENT if row in rows else NEUTRAL for row in layout.response_row[r]]
            assert targets.window_class[r].tolist() == wanted
            assert {ENTAILMENT, NEUTRAL} == set(wanted)
    wrong = mark_tokens(read.response.offsets, [SAYS_AGE])
    assert (targets.window_class[wrong] == CONTRADICTION).all()
    # Never two kinds of supervision on one token.
    assert (targets.token_supported == UNKNOWN).all()
    assert (targets.adherent, targets.weight) == (0, 0.5)


def test_evidence_in_parts_is_entailed_only_where_all_of_it_is(tokenizer: SegmentTokenizer) -> None:
    whole = Span(0, len(RESPONSE))
    labels = Labels(unsupported=(), evidence=(Evidence(whole, (STONE, BOAT)),))
    read, layout, targets = lay(labels, tokenizer)
    assert not rows_showing(STONE, read, layout) & rows_showing(BOAT, read, layout)
    # No window shows both: the place is unknown, and the joined probability is trained.
    assert (targets.window_class == UNKNOWN).all()
    assert (targets.token_supported == 1).all()
    # The evidence window shows both.
    _, layout, targets = lay(labels, tokenizer, evidence_sentences=1)
    assert layout.row_is_evidence.tolist()[-1]
    assert (targets.window_class[:, -1] == ENTAILMENT).all()
    assert (targets.window_class[:, :-1] == NEUTRAL).all()
    assert (targets.token_supported == 1).all()


def test_an_evidence_window_is_never_neutral(tokenizer: SegmentTokenizer) -> None:
    """The mean would pull a supported token down."""
    sign = ContextSpan(0, 0, 3)  # in a sentence that shares no word with the response
    labels = Labels(unsupported=(SAYS_BOAT,), evidence=(Evidence(SAYS_STONE, (STONE, sign)),))
    read, layout, targets = lay(labels, tokenizer, evidence_sentences=1)
    assert layout.row_is_evidence.tolist()[-1]
    gathered = targets.window_class[:, -1]
    assert set(gathered.tolist()) <= {ENTAILMENT, CONTRADICTION, UNKNOWN}
    boat = mark_tokens(read.response.offsets, [SAYS_BOAT])
    assert (gathered[boat] == CONTRADICTION).all()
    assert (targets.token_supported[boat] == UNKNOWN).all()


@pytest.mark.parametrize("evidence", [None, (Evidence(SAYS_STONE, (STONE,)),)])
def test_where_the_evidence_is_unknown_or_unused_tokens_are_labelled(
    tokenizer: SegmentTokenizer, evidence: tuple[Evidence, ...] | None
) -> None:
    labels = Labels(unsupported=(SAYS_AGE,), evidence=evidence)
    read, _, targets = lay(labels, tokenizer, use_evidence=evidence is None)
    wrong = mark_tokens(read.response.offsets, [SAYS_AGE])
    np.testing.assert_array_equal(targets.token_supported, np.where(wrong, 0, 1))
    assert (targets.window_class == UNKNOWN).all()


def test_a_response_in_chunks_has_a_label_for_each_window(tokenizer: SegmentTokenizer) -> None:
    long = replace(EXAMPLE, response=" ".join([RESPONSE] * 3))
    start = len(RESPONSE) + 1 + SAYS_STONE.start
    says = Span(start, start + SAYS_STONE.end)
    labels = Labels(unsupported=(), evidence=(Evidence(says, (STONE,)),))
    read, layout, targets = lay(labels, tokenizer, long)
    assert layout.response_chunks > 1
    shown = mark_tokens(read.response.offsets, [says])
    # The counting copies of the evidence stand in the rows of the first chunk alone.
    slices = {tuple(layout.row_context[row].tolist()) for row in rows_showing(STONE, read, layout)}
    for r in np.flatnonzero(shown):
        wanted = [
            ENTAILMENT if tuple(layout.row_context[row].tolist()) in slices else NEUTRAL
            for row in layout.response_row[r]
        ]
        assert targets.window_class[r].tolist() == wanted
    assert (targets.window_class[~shown] == UNKNOWN).all()


def test_padding_is_unknown(tokenizer: SegmentTokenizer) -> None:
    known = Labels(unsupported=(), adherent=True, relevant=(STONE,), utilized=())
    short = RagExample("", ("A mill.",), "A mill.")
    several = [
        lay(known, tokenizer)[2],
        lay(Labels(adherent=False, unsupported=(Span(0, 1),)), tokenizer, short)[2],
    ]
    r, k = several[0].window_class.shape
    c = len(several[0].relevant)
    batch = collate_labels(several, (2, r + 2, k + 1, c + 3))
    assert batch.window_class.shape == (2, r + 2, k + 1)
    assert batch.adherent.tolist() == [1, 0]
    assert batch.weight.tolist() == [0.5, 0.5]
    for name in ("token_supported", "relevant", "utilized"):
        for b, target in enumerate(several):
            values = getattr(target, name)
            np.testing.assert_array_equal(getattr(batch, name)[b, : len(values)], values)
            assert (getattr(batch, name)[b, len(values) :] == UNKNOWN).all()


def test_what_is_unclear_among_known_tokens_is_unknown(tokenizer: SegmentTokenizer) -> None:
    labels = Labels(unsupported=(SAYS_AGE,), unclear=(SAYS_BOAT,))
    read, _, targets = lay(labels, tokenizer)
    offsets = read.response.offsets
    for span, wanted in ((SAYS_STONE, 1), (SAYS_BOAT, UNKNOWN), (SAYS_AGE, 0)):
        marked = mark_tokens(offsets, [span])
        assert (targets.token_supported[marked] == wanted).all()
    assert targets.adherent == 0
    assert lay(Labels(unsupported=(), unclear=(SAYS_BOAT,)), tokenizer)[2].adherent == UNKNOWN
    assert lay(Labels(unsupported=()), tokenizer)[2].adherent == 1
