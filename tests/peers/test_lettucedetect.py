"""LettuceDetect: its prompt, its groups of passages, its tokens and spans."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from tests.conftest import MODERN, TINY, filled
from tests.peers.conftest import tokenizer_of
from trivet.errors import ExampleError
from trivet.peers.lettucedetect import LettuceDetect, make_peer, prompt_of
from trivet.peers.peer import PeerSetup
from trivet.records import RagExample

EXAMPLE = RagExample(
    "What is old?", ("The mill is old.", "The boat is red."), "The mill is old. It is wide."
)
PROMPT = (
    "Briefly answer the following question:\nWhat is old?\nBear in mind that your response should "
    "be strictly based on the following 2 passages:\npassage 1: The mill is old.\n"
    "passage 2: The boat is red.\nIn case the passages do not contain the necessary information "
    'to answer the question, please reply with: "Unable to answer based on given passages."\n'
    "output:"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a tiny ModernBERT token classifier."""
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    specials = ["[CLS]", "[SEP]", "[PAD]", "[UNK]"]
    pair = "[CLS] $A [SEP] $B [SEP]"
    tokenizer = tokenizer_of(specials, pair, pad_token="[PAD]", **names)
    config = transformers.ModernBertConfig(**TINY, **MODERN, vocab_size=len(tokenizer))
    saved = tmp_path_factory.mktemp("lettucedetect")
    filled(transformers.ModernBertForTokenClassification(config)).save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    return saved


def peer_of(folder: Path, longest: int = 4096) -> LettuceDetect:
    auto = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    return LettuceDetect(auto, "", transformers.AutoTokenizer.from_pretrained(folder), longest)


def test_the_prompt_is_the_published_one() -> None:
    assert prompt_of(EXAMPLE.contexts, EXAMPLE.question) == PROMPT
    assert prompt_of(["It is red."], "") == (
        "Summarize the following text:\npassage 1: It is red.\noutput:"
    )


def test_tokens_and_spans_are_those_of_the_published_loop(folder: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(PROMPT, EXAMPLE.response, return_offsets_mapping=True, return_tensors="pt")
    offsets = encoded.pop("offset_mapping")[0]
    own = len(tokenizer(EXAMPLE.response, add_special_tokens=False)["input_ids"])
    start = len(offsets) - own - 1
    auto = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        probs = auto(**encoded).logits.softmax(-1)[0, start:-1, 1]
    spans: list[list[int]] = []
    inside = False
    for (begin, end), prob in zip(offsets[start:-1].tolist(), probs.tolist(), strict=True):
        if prob > 0.5 and inside:
            spans[-1][1] = end
        elif prob > 0.5:
            spans.append([begin, end])
        inside = prob > 0.5
    score = make_peer("lettucedetect", str(folder), PeerSetup()).score(EXAMPLE)
    assert score.faithfulness == pytest.approx(1 - probs.max().item(), abs=1e-6)
    assert score.spans is not None
    assert [[span.start, span.end] for span in score.spans] == spans
    assert score.hallucinated is bool(spans)


def test_passages_that_do_not_fit_are_grouped_and_every_group_must_support(folder: Path) -> None:
    passages = tuple(f"The old mill {number} is red." for number in range(4))
    example = RagExample(EXAMPLE.question, passages, EXAMPLE.response)
    whole = peer_of(folder)
    assert whole.groups(example) == [list(passages)]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)

    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    # Room for two passages and a little more.
    two = 2 * count(f"passage 1: {passages[0]}") + 9
    longest = count(prompt_of([""], example.question)) + count(example.response) + 3 + two
    cut = peer_of(folder, longest)
    groups = cut.groups(example)
    assert groups == [list(passages[:2]), list(passages[2:])]
    each = [
        whole.score(RagExample(example.question, tuple(group), example.response)).faithfulness
        for group in groups
    ]
    assert cut.score(example).faithfulness == pytest.approx(min(one or 0 for one in each), abs=1e-6)


def test_no_response_is_refused(folder: Path) -> None:
    with pytest.raises(ExampleError, match="response is empty"):
        peer_of(folder).score(RagExample("", ("It is red.",), " "))


def test_a_response_that_leaves_no_room_for_a_passage_is_refused(folder: Path) -> None:
    example = RagExample("", ("It is red.",), "mill " * 60)
    count = len(transformers.AutoTokenizer.from_pretrained(folder)("mill " * 60)["input_ids"]) - 2
    assert peer_of(folder, count + 4).score(example).faithfulness is not None
    with pytest.raises(ExampleError, match=f"has {count} tokens, and the window {count + 3}"):
        peer_of(folder, count + 3).score(example)
