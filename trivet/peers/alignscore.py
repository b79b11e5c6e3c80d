"""AlignScore: chunk and sentence as a pair, the head of three classes, and the mean of sentences.

Zha et al., ACL 2023; input and output as in ``alignscore/inference.py`` (MIT, mode ``nli_sp``).
Published is a pickle, which may run code when it is read: docs/peers.md shows how to make
safetensors of it. Its pooler and its linear layer are the head of RoBERTa's own classifier.
"""

from __future__ import annotations

from transformers import RobertaForSequenceClassification

from trivet.errors import ConfigError
from trivet.peers.claims import score_sentences, sentences_of
from trivet.peers.local_model import (
    TextModel,
    class_probs,
    load_config,
    load_renamed,
    load_tokenizer,
)
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample

_CHUNK, _LONGEST = 350, 512  # words of a chunk, tokens of a pair
_NAMES = {
    "base_model.pooler.dense.": "classifier.dense.",
    "base_model.": "roberta.",
    "tri_layer.": "classifier.out_proj.",
}


class AlignScore(Peer):
    """AlignScore by the best chunk of each sentence; flagged below .5."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.about = f"AlignScore, {model.about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        chunks = chunks_of("\n".join(example.contexts))
        return score_sentences(example, chunks, lambda pairs: self._model.read(pairs)[:, 0], "mean")


def chunks_of(text: str) -> list[str]:
    """Return groups of equally many sentences, of about 350 words on average."""
    sentences = sentences_of(text)
    step = max(len(sentences) // (len(text.split()) // _CHUNK + 1), 1)
    return [" ".join(sentences[at : at + step]) for at in range(0, len(sentences), step)]


def renamed(name: str) -> str | None:
    """Return the name in RoBERTa's classifier of a tensor of the checkpoint."""
    for theirs, ours in _NAMES.items():
        if name.startswith(theirs):
            return None if name.endswith("position_ids") else ours + name.removeprefix(theirs)
    return None


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``alignscore`` with a folder, or raise a ``ConfigError`` without one."""
    if not argument:
        raise ConfigError(
            "peer alignscore needs a folder, alignscore:FOLDER, with its checkpoint as safetensors "
            "beside RoBERTa's configuration and tokenizer; docs/peers.md shows how to make it"
        )

    config = load_config(argument)
    config.num_labels = 3
    empty = RobertaForSequenceClassification(config)
    model, about = load_renamed(argument, empty, renamed)
    return AlignScore(TextModel(model, about, load_tokenizer(argument), class_probs, _LONGEST))
