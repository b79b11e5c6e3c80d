"""HHEM-2.1-open: Vectara's consistency model, an encoder of FLAN-T5 with a classifier.

Its repository brings code, which does not run with transformers 5 and is not needed: the model is
transformers' ``T5ForTokenClassification``, whose first position answers a prompt. The prompt and
its format are those of the published ``modeling_hhem_v2.py`` (Apache-2.0).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, T5ForTokenClassification
from transformers.utils.hub import cached_file

from trivet.peers.local_model import FloatArray, TextModel, find_source, load_tokenizer, revision_of
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import ConfigError, ExampleError, RagExample

NAME = "vectara/hallucination_evaluation_model"
FOUNDATION = "google/flan-t5-base"
PROMPT = (
    "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {}\n\nHypothesis: {}"
)
_FILES = "config.json", "model.safetensors"
_LONGEST = 1 << 20  # T5's positions are relative; nothing is cut


class Hhem:
    """HHEM as a judge of pairs. *Shape of* ``read``: [n], P(consistent)."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.about = model.about

    def read(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability that each premise and hypothesis are consistent."""
        probs: FloatArray = self._model.read([PROMPT.format(*pair) for pair in pairs])[:, 1]
        return probs


def first_position(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the class probabilities of the first position. *Shape:* [n, 2]."""
    probs: Tensor = model(**batch).logits[:, 0].softmax(dim=-1)
    return probs


def load_hhem(name: str) -> Hhem:
    """Load the weights into transformers' own class; the repository's code is not run.

    Raises:
        ConfigError: The files cannot be read, or do not hold this model.
    """
    folder, revision = find_source(name)
    try:
        files = [cached_file(folder, each, revision=revision) for each in _FILES]
        described = json.loads(Path(str(files[0])).read_text(encoding="utf-8"))
        foundation = described.get("foundation", FOUNDATION)
        config = AutoConfig.from_pretrained(foundation, trust_remote_code=False)
    except (OSError, ValueError) as error:
        said = str(error).strip().partition("\n")[0]
        raise ConfigError(f"peer model {name!r} cannot be loaded: {said}") from error
    model = T5ForTokenClassification(config)
    state = {key.removeprefix("t5."): value for key, value in load_file(str(files[1])).items()}
    loaded = model.load_state_dict(state, strict=False)
    # T5's embedding has two names, of which a file holds one.
    missing = [key for key in loaded.missing_keys if "embed_tokens" not in key]
    if missing or loaded.unexpected_keys:
        raise ConfigError(
            f"peer model {name!r} is not HHEM-2.1-open: its weights do not fit {foundation}, "
            f"first {[*missing, *loaded.unexpected_keys][0]}"
        )
    model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
    about = f"{name} {revision_of(Path(str(files[1])).parent)}"
    return Hhem(TextModel(model, about, load_tokenizer(foundation), first_position, _LONGEST))


class HhemPeer(Peer):
    """HHEM on the passages with the question, and the whole response, at .5.

    The input is that of the notebooks of "Real-Time Evaluation Models for RAG" (arXiv 2503.21157).
    """

    def __init__(self, hhem: Hhem) -> None:
        self._hhem = hhem
        self.about = f"HHEM, {hhem.about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        if not example.response.strip():
            raise ExampleError("the response is empty", "empty_response")
        premise = "\n".join([*example.contexts, example.question])
        return PeerScore.at(0.5, float(self._hhem.read([(premise, example.response)])[0]))


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``hhem`` with a folder or hub name."""
    return HhemPeer(load_hhem(argument or NAME))
