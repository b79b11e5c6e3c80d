"""Our prompts of RAGAS, DeepEval, TruLens and LongTracer against the tools themselves.

python -m benchmarks.peers_against_tools ragas|deepeval|trulens|longtracer [--minilm FOLDER]

Runs where the tool is installed. Tool and peer are asked about the same rows by the same scripted
answers, on loopback; printed are their scores, and how many of their prompts are equal but for
white space. LongTracer has models in place of an LLM: the encoder of FOLDER and an NLI model of
fixed answers. TruLens splits sentences by NLTK's data, which it downloads: our splitter takes its
place.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from tests.llm.scripted_endpoint import ScriptedEndpoint
from trivet.data.sentences import split_sentences
from trivet.llm.client import ChatClient
from trivet.peers.peer import PeerScore, PeerSetup, load_peer
from trivet.records import RagExample

MODEL = "gpt-4o-mini"
PASSAGES = ("The mill was built in 1817. It is made of stone.", "Dr. Hill owns the ferry, I think.")
RESPONSES = [
    "The mill was built in 1817. It is made of wood.",
    "The mill was built in 1817.",
    "I could not find it in the passages. The ferry may be red. It crosses the river.",
    "Hello! Nothing of this is known. Based on my knowledge it is 3.5 metres wide.",
    "Yes.",
    "The mill was built in 1817.\n\n2.\n\nIt is made of wood.",
]
# Verdicts on the sentences of a response, by their first words.
VERDICTS = {"The mill": 1, "It is": 0, "I could": 1, "The ferry": 0, "It crosses": 1, "Nothing": 0}
NAMES = {"ragas": "ragas", "deepeval": "deepeval", "trulens": "trulens-feedback"}

Score = Callable[[RagExample], float | None]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [text[span.start : span.end] for span in split_sentences(text)]


def verdict(sentence: str) -> int:
    """Return whether the script supports a sentence."""
    return next((value for start, value in VERDICTS.items() if sentence.startswith(start)), 0)


def script(response: str) -> Callable[[dict[str, Any]], str]:
    """Return the answers to all prompts about a response."""
    parts = [] if response == "Yes." else sentences_of(response)
    known = [{"statement": each, "reason": "", "verdict": verdict(each)} for each in parts]
    named = [
        {"verdict": "yes"} if verdict(each) else {"verdict": mark, "reason": "not so"}
        for each, mark in zip(parts, ["borderline", "no"] * len(parts), strict=False)
    ]

    def reply(body: dict[str, Any]) -> str:
        text = text_of(body)
        if "Break down each sentence" in text:
            return json.dumps({"statements": parts})
        if "judge the faithfulness" in text:
            return json.dumps({"statements": known})
        if '"truths"' in text:
            return json.dumps({"truths": ["The mill was built in 1817."]})
        if '"claims"' in text:
            return json.dumps({"claims": parts})
        if "'verdicts'" in text:
            return json.dumps({"verdicts": named})
        if "ALL STATEMENTS" in text:
            return str([each for each in parts if each != "Hello!"])
        said = text.split("STATEMENT: ")[1].split("\n")[0]
        score = 3 * verdict(said)
        return json.dumps({"criteria": said, "supporting_evidence": "", "score": score})

    return reply


def ragas(url: str) -> Score:
    """Return RAGAS's faithfulness."""
    from langchain_openai import ChatOpenAI
    from ragas.dataset_schema import SingleTurnSample
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import Faithfulness

    metric = Faithfulness(llm=LangchainLLMWrapper(ChatOpenAI(model=MODEL, base_url=url)))

    def score(row: RagExample) -> float | None:
        contexts = list(row.contexts)
        sample = SingleTurnSample(
            user_input=row.question, retrieved_contexts=contexts, response=row.response
        )
        found = float(metric.single_turn_score(sample))
        return None if math.isnan(found) else found

    return score


def deepeval(url: str) -> Score:
    """Return DeepEval's faithfulness."""
    from deepeval.metrics import FaithfulnessMetric
    from deepeval.models import GPTModel
    from deepeval.test_case import LLMTestCase

    model = GPTModel(model=MODEL, base_url=url, api_key="none")

    def score(row: RagExample) -> float | None:
        metric = FaithfulnessMetric(model=model, include_reason=False, async_mode=False)
        case = LLMTestCase(
            input=row.question, actual_output=row.response, retrieval_context=list(row.contexts)
        )
        return float(metric.measure(case, _show_indicator=False))

    return score


def trulens(url: str) -> Score:
    """Return TruLens's groundedness."""
    from trulens.feedback import llm_provider
    from trulens.providers.openai import OpenAI

    llm_provider.sent_tokenize = sentences_of
    llm_provider.nltk.download = lambda *args, **kwargs: True
    provider = OpenAI(model_engine=MODEL, base_url=url, api_key="none")
    # The endpoint is one of chat completions, of which TruLens parses the text.
    provider._set_capabilities({"responses_api": False, "structured_outputs": False})

    def score(row: RagExample) -> float | None:
        source: Any = list(row.contexts)
        return float(provider.groundedness_measure_with_cot_reasons(source, row.response)[0])

    return score


def compare_llm(tool: str) -> None:
    """Print the scores of tool and peer on each row."""
    for response in RESPONSES:
        row = RagExample("When was the mill built?", PASSAGES, response)
        bodies, scores = [], []
        for make in ({"ragas": ragas, "deepeval": deepeval, "trulens": trulens}[tool], None):
            with ScriptedEndpoint(script(response)) as endpoint:
                os.environ["OPENAI_BASE_URL"] = endpoint.url
                scores.append(make(endpoint.url)(row) if make else ours(tool, endpoint.url, row))
            bodies.append(sorted(" ".join(text_of(body).split()) for body in endpoint.bodies))
        equal = sum(one == other for one, other in zip(*bodies, strict=False))
        print(
            f"{response[:40]!r:44} {NAMES[tool]} {scores[0]} ours {scores[1]}; "
            f"{equal} of {max(map(len, bodies))} prompts equal"
        )


def text_of(body: dict[str, Any]) -> str:
    """Return the prompt of a request."""
    contents = [message["content"] for message in body["messages"]]
    parts = [each if isinstance(each, str) else each[0]["text"] for each in contents]
    return "\n".join(parts)


def ours(tool: str, url: str, row: RagExample) -> float | str | None:
    """Return the score of the peer, or the reason for none."""
    with ChatClient(MODEL, base_url=url) as client:
        found = load_peer(tool, PeerSetup(open_llm=lambda _: client)).score(row)
    return found.failed if found.faithfulness is None else found.faithfulness


class FixedNli:
    """An NLI model of fixed logits, by the length of the claim."""

    about = "fixed"

    def predict(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """Return three logits a pair."""
        return np.array([[len(claim) % 7, len(claim) % 5, len(claim) % 3] for _, claim in pairs])

    def relate(self, pairs: Sequence[tuple[str, str]]) -> Any:
        """Return what the package takes for entailment and contradiction."""
        from trivet.peers.entailment import Relations

        powers = np.exp(self.predict(pairs))
        probs = powers / powers.sum(axis=1, keepdims=True)
        return Relations(probs[:, 2], probs[:, 0])


def compare_longtracer(folder: str) -> None:
    """Print trust and verdict of LongTracer and of our column of it."""
    from longtracer.guard.nli_model import HybridVerificationModel
    from longtracer.guard.verifier import CitationVerifier
    from sentence_transformers import SentenceTransformer

    from trivet.peers.local_model import load_embedder
    from trivet.peers.pipelines import LongTracer

    model = HybridVerificationModel.__new__(HybridVerificationModel)
    model.support_threshold, model.slm_verifier = 0.4, None
    model.sts_model, model.nli_model = SentenceTransformer(folder, device="cpu"), FixedNli()
    model.latency_log = dict.fromkeys(["sts_calls", "nli_calls", "nli_skipped"], 0)
    model.latency_log |= dict.fromkeys(["sts_total_ms", "nli_total_ms"], 0.0)
    verifier = CitationVerifier.__new__(CitationVerifier)
    verifier.model, verifier.tracer, verifier._cache = model, None, None
    peer = LongTracer("longtracer", load_embedder(folder), FixedNli())
    for response in [*RESPONSES, "The mill is old.\n\nThe  ferry of Dr. Hill is red, I know that."]:
        theirs = verifier.verify_parallel(response, list(PASSAGES))
        example = RagExample("", PASSAGES, response)
        found: PeerScore = peer.score(example)
        verdicts = [(c["supported"], c["is_hallucination"]) for c in theirs.claims]
        mine = [(c.supported, c.hallucination) for c in peer.verify(example)]
        equal = sum(a == b for a, b in zip(verdicts, mine, strict=True))
        print(
            f"{response[:40]!r:44} longtracer {theirs.trust_score:.6f} {theirs.verdict} ours "
            f"{found.faithfulness:.6f} {'FAIL' if found.hallucinated else 'PASS'}; "
            f"{equal} of {len(mine)} claims equal"
        )


def main() -> None:
    """Compare one tool with our peer."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("tool", choices=[*NAMES, "longtracer"])
    parser.add_argument("--minilm", default="minilm", help="folder of all-MiniLM-L6-v2")
    arguments = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "none"
    print(f"{arguments.tool} {version(NAMES.get(arguments.tool, arguments.tool))}")
    if arguments.tool == "longtracer":
        compare_longtracer(arguments.minilm)
    else:
        compare_llm(arguments.tool)


if __name__ == "__main__":
    main()
