"""FactCG: a question about chunk and claim in one sequence, answered by DeBERTa.

Lei et al., NAACL 2025; input as in ``factcg/inference.py`` and ``utils.py`` of derenlei/FactCG
(MIT) at commit 4eb1537, with the sentence and word splitters of this package in place of NLTK's.
``utils.py`` at commit 92a94cc, and the loader of the training rows, have "-No" for "- No".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trivet.peers.claims import pack, score_sentences, sentences_of
from trivet.peers.local_model import FloatArray, TextModel, load_classifier
from trivet.peers.peer import Peer, PeerScore, PeerSetup
from trivet.records import RagExample

NAME = "yaxili96/FactCG-DeBERTa-v3-Large"
QUESTION = (
    "{}\n\nChoose your answer: based on the paragraph above can we conclude that "
    '"{}"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is '
)
_LONGEST, _CHUNK = 2048, 550  # tokens of the model, words of a chunk
_WORD = re.compile(r"\w+|[^\w\s]")


class FactCG(Peer):
    """FactCG by the best chunk of the weakest sentence, at .5."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self.about = f"FactCG, {model.about}"

    def score(self, example: RagExample) -> PeerScore:
        """Score one example."""
        sentences = sentences_of("\n".join(example.contexts))
        chunks = pack(sentences, _CHUNK, lambda text: len(_WORD.findall(text)), "\n")
        return score_sentences(example, chunks, self.support)

    def support(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probability that each claim follows from its chunk, [n]."""
        probs: FloatArray = self._model.read([QUESTION.format(*pair) for pair in pairs])
        return probs[:, 1]


def make_peer(kind: str, argument: str, setup: PeerSetup) -> Peer:
    """Return ``factcg`` with a folder or hub name."""
    return FactCG(load_classifier(argument or NAME, _LONGEST))
