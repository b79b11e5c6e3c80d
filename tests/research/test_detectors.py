"""LongTracer, Provenance and LettuceDetect: their rules by hand, and small models end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from research.compare.detectors import Hhem, LongTracer, Provenance, claims_of, split
from research.compare.systems import Setup, load_system
from trivet.errors import ConfigError, ExampleError
from trivet.records import RagExample

FAR, NEAR = "The ferry crosses the river.", "The mill was made of stone."
EXAMPLE = RagExample("", (FAR + " " + NEAR,), "The mill was built of stone.")


def cosines(values: dict[str, float]) -> LongTracer:
    """Return LongTracer with given cosines: the claim is [1, 0], each source an angle from it."""

    def embed(texts: Sequence[str]) -> np.ndarray:
        angles = np.array([np.arccos(values.get(text, 1.0)) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    return LongTracer(embed)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Too short", []),
        ("Yes. It is 3.5 metres wide and tall.", ["It is 3.5 metres wide and tall."]),
        ("Dr. Mill built  the old\nbridge. It is red.", ["Dr. Mill built the old bridge."]),
        ("Ask i.e. the keeper of it! And who is he?", ["Ask i.e. the keeper of it!"]),
    ],
)
def test_longtracer_cuts_claims_as_the_package_does(text: str, claims: list[str]) -> None:
    assert claims_of(text) == claims


def test_longtracer_is_the_mean_similarity_to_the_best_source() -> None:
    assert split("It is red. It is green.", 10) == ["It is green."]
    trust = cosines({FAR: 0.1, NEAR: 0.6}).score(EXAMPLE)
    assert trust.faithfulness == pytest.approx(0.6)
    assert trust.hallucinated is None
    away = replace(EXAMPLE, contexts=(NEAR,), response="The mill is old. The ferry is red.")
    tracer = cosines({"The mill is old.": 0.5, "The ferry is red.": -0.2})
    assert tracer.score(away).faithfulness == pytest.approx((0.5 - 0.2) / 2)
    assert tracer.score(replace(away, response="The ferry is red.")).faithfulness == 0
    assert tracer.score(replace(EXAMPLE, response="Yes.")).faithfulness == 1
    assert tracer.score(replace(EXAMPLE, contexts=())).faithfulness == 0


ASKED = RagExample(
    "How wide is it?", ("It is old. It is wide.", "It is red. It is new. It is tall. Why?"), "one"
)
SENTENCES = ["It is old.", "It is wide.", "It is red.", "It is new.", "It is tall.", "Why?"]
CLAIM = "The answer to question How wide is it? is one."


def provenance(pairs: list[tuple[str, str]]) -> Provenance:
    def support(asked: Sequence[tuple[str, str]]) -> np.ndarray:
        pairs.extend(asked)
        values = dict(zip(SENTENCES, [0.3, 0.9, 0.2, 0.1, 0.6, 0.5], strict=True))
        return np.array([values[sentence] for sentence, _ in asked])

    return Provenance(lambda pairs: np.array([0.1, 0.4, 0.05, 0.2, 0.15, 0.1]), support)


def test_provenance_takes_the_best_of_the_five_most_relevant_sentences() -> None:
    pairs: list[tuple[str, str]] = []
    assert provenance(pairs).score(ASKED).faithfulness == 0.9
    assert pairs == [(text, CLAIM) for text in SENTENCES if text != "It is red."]


@pytest.mark.parametrize(
    ("example", "code"),
    [
        (RagExample("", (" ",), "one"), "empty_contexts"),
        (replace(ASKED, response=" "), "empty_response"),
    ],
)
def test_provenance_refuses_rows_without_texts_before_any_model_reads_them(
    example: RagExample, code: str
) -> None:
    pairs: list[tuple[str, str]] = []
    with pytest.raises(ExampleError) as refused:
        provenance(pairs).score(example)
    assert (refused.value.code, pairs) == (code, [])


def test_provenance_ranks_by_one_logit_and_checks_by_hhem(
    bert_checkpoint: Path, hhem_checkpoint: Path, tmp_path: Path
) -> None:
    config = transformers.AutoConfig.from_pretrained(bert_checkpoint, num_labels=1)
    torch.manual_seed(0)
    reranker = transformers.BertForSequenceClassification(config).eval()
    reranker.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((bert_checkpoint / "tokenizer.json").read_bytes())
    score = load_system(f"provenance:{tmp_path},{hhem_checkpoint}", Setup()).score(ASKED)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json")
    )
    with torch.no_grad():
        logits = [
            reranker(**tokenizer(ASKED.question, text, return_tensors="pt")).logits.item()
            for text in SENTENCES
        ]
    pairs = [(SENTENCES[at], CLAIM) for at in sorted(np.argsort(logits)[1:])]
    assert score.faithfulness == pytest.approx(Hhem(str(hhem_checkpoint)).read(pairs).max())


def test_longtracer_reads_an_encoder_by_its_mean(bert_checkpoint: Path) -> None:
    score = load_system(f"longtracer:{bert_checkpoint}", Setup()).score(
        replace(EXAMPLE, contexts=(EXAMPLE.response,))
    )
    assert score.faithfulness == pytest.approx(1, abs=1e-6)


def test_an_unknown_system_and_a_model_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown system 'gpt'; there are always-yes"):
        load_system("gpt", Setup())
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_system(f"longtracer:{tmp_path}", Setup())


@pytest.mark.network
@pytest.mark.parametrize("name", ["hhem", "lettucedetect", "provenance"])
def test_published_weights_flag_only_the_unsupported_claim(name: str) -> None:
    document = "A group of students gather in the school library to study for their exams."
    claims = "The students study in the school library.", "The volcano erupted again in 1817."
    system = load_system(name, Setup())
    examples = [RagExample("Where do they study?", (document,), claim) for claim in claims]
    assert [system.score(example).hallucinated for example in examples] == [False, True]
