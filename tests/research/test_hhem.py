"""HHEM loaded without its code, against the published prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers

from research.compare.detectors import HHEM, Hhem
from trivet.errors import ConfigError, ExampleError
from trivet.records import RagExample

PAIR = ("The mill was built in 1817.", "The mill is old.")


def test_the_first_position_of_the_published_prompt_is_the_score(
    hhem_checkpoint: Path, t5_folder: Path
) -> None:
    config = transformers.AutoConfig.from_pretrained(t5_folder)
    model = transformers.T5ForTokenClassification(config).eval()
    state = safetensors.torch.load_file(hhem_checkpoint / "model.safetensors")
    model.load_state_dict({key[3:]: value for key, value in state.items()}, strict=False)
    text = (
        "<pad> Determine if the hypothesis is true given the premise?\n\n"
        f"Premise: {PAIR[0]}\n\nHypothesis: {PAIR[1]}"
    )
    encoded = transformers.AutoTokenizer.from_pretrained(t5_folder)(text, return_tensors="pt")
    assert encoded["input_ids"][0, 0] == config.pad_token_id
    with torch.no_grad():
        expected = model(**encoded).logits[0, 0].softmax(-1)[1].item()
    assert Hhem(str(hhem_checkpoint)).read([PAIR])[0] == pytest.approx(expected, abs=1e-6)


def test_the_premise_is_the_passages_and_the_question(hhem_checkpoint: Path) -> None:
    score = Hhem(str(hhem_checkpoint)).score(
        RagExample("What is old?", ("It is red.", "It is old."), "The mill.")
    )
    pair = ("It is red.\nIt is old.\nWhat is old?", "The mill.")
    assert score.faithfulness == Hhem(str(hhem_checkpoint)).read([pair])[0]
    assert score.faithfulness is not None
    assert score.hallucinated is (score.faithfulness < 0.5)


def test_no_response_is_refused(hhem_checkpoint: Path) -> None:
    hhem = Hhem(str(hhem_checkpoint))
    with pytest.raises(ExampleError, match="response is empty"):
        hhem.score(RagExample("", ("It is red.",), " "))


def test_other_weights_are_refused(hhem_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((hhem_checkpoint / "config.json").read_bytes())
    safetensors.torch.save_file({"bert.weight": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match="or no T5ForTokenClassification"):
        Hhem(str(tmp_path))


@pytest.mark.network
@pytest.mark.parametrize(
    ("pair", "published"),
    [
        (("The capital of France is Berlin.", "The capital of France is Paris."), 0.0111),
        (("I am in California", "I am in United States."), 0.6474),
        (("I am in United States", "I am in California."), 0.1290),
    ],
)
def test_the_scores_of_the_model_card(pair: tuple[str, str], published: float) -> None:
    assert Hhem(HHEM).read([pair])[0] == pytest.approx(published, abs=1e-3)
