"""Provenance's sentences and claim, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from trivet.errors import ConfigError, ExampleError
from trivet.peers.entailment import Hhem
from trivet.peers.peer import PeerSetup
from trivet.peers.pipelines import Provenance, make_peer
from trivet.records import RagExample

EXAMPLE = RagExample(
    "How wide is it?", ("It is old. It is wide.", "It is red. It is new. It is tall. Why?"), "one"
)
RELEVANCE = np.array([0.1, 0.4, 0.05, 0.2, 0.15, 0.1])
CLAIM = "The answer to question How wide is it? is one."
SUPPORT = [0.3, 0.9, 0.2, 0.1, 0.6, 0.5]


def peer(pairs: list[tuple[str, str]]) -> Provenance:
    def support(asked: Sequence[tuple[str, str]]) -> np.ndarray:
        pairs.extend(asked)
        sentences = ["It is old.", "It is wide.", "It is red.", "It is new.", "It is tall.", "Why?"]
        return np.array([SUPPORT[sentences.index(sentence)] for sentence, _ in asked])

    return Provenance(lambda question, texts: RELEVANCE, support, "")


def test_the_best_of_the_five_most_relevant_sentences_decides() -> None:
    pairs: list[tuple[str, str]] = []
    score = peer(pairs).score(EXAMPLE)
    assert score.faithfulness == 0.9
    chosen = [sentence for sentence, _ in pairs]
    assert chosen == ["It is old.", "It is wide.", "It is new.", "It is tall.", "Why?"]
    assert {claim for _, claim in pairs} == {CLAIM}


def test_contexts_without_sentences_are_refused() -> None:
    with pytest.raises(ExampleError, match="contexts are empty"):
        peer([]).score(RagExample("", (" ",), "one"))


def test_an_empty_response_is_refused_before_any_model_reads_it() -> None:
    pairs: list[tuple[str, str]] = []
    with pytest.raises(ExampleError, match="response is empty") as refused:
        peer(pairs).score(RagExample("Why?", EXAMPLE.contexts, " "))
    assert (refused.value.code, pairs) == ("empty_response", [])


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no option 'select'; there are reranker, encoder"):
        make_peer("provenance", "select=top_p", PeerSetup())


def test_the_models_of_the_paper_rank_by_one_logit_and_check_by_hhem(
    bert_checkpoint: Path, hhem_checkpoint: Path, tmp_path: Path
) -> None:
    config = transformers.AutoConfig.from_pretrained(bert_checkpoint, num_labels=1)
    torch.manual_seed(0)
    reranker = transformers.BertForSequenceClassification(config).eval()
    reranker.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((bert_checkpoint / "tokenizer.json").read_bytes())
    score = make_peer(
        "provenance", f"reranker={tmp_path}:verifier={hhem_checkpoint}", PeerSetup()
    ).score(EXAMPLE)

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json")
    )
    sentences = ["It is old.", "It is wide.", "It is red.", "It is new.", "It is tall.", "Why?"]
    with torch.no_grad():
        logits = [
            reranker(**tokenizer(EXAMPLE.question, each, return_tensors="pt")).logits.item()
            for each in sentences
        ]
    chosen = sorted(np.argsort(logits)[1:])  # the five best, in their order
    pairs = [(sentences[at], CLAIM) for at in chosen]
    assert score.faithfulness == pytest.approx(Hhem(str(hhem_checkpoint)).read(pairs).max())


def test_open_models_take_the_place_of_those_of_the_paper(
    bert_checkpoint: Path, nli_checkpoint: Path
) -> None:
    argument = f"encoder={bert_checkpoint}:nli={nli_checkpoint}"
    found = make_peer("provenance", argument, PeerSetup())
    score = found.score(EXAMPLE)
    assert score.faithfulness is not None
    assert f"relevance by cosine of {bert_checkpoint}" in found.about
    assert f"support by {nli_checkpoint}" in found.about
