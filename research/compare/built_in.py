"""Systems that need nothing else: bundles of Trivet, and two baselines."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import cast, get_args

from research.compare.systems import Score, Setup, System
from trivet.bundle.manifest import MANIFEST_NAME
from trivet.data.sentence_features import share_nowhere, words_of
from trivet.errors import ConfigError, ExampleError
from trivet.evaluation.evaluator import Evaluator
from trivet.records import Evaluation, RagExample, Span
from trivet.settings import BackendName


def count_words(example: RagExample) -> Score:
    """Return the share of the response's content words that the contexts have."""
    return Score(1 - share_nowhere(example.response, words_of(example.contexts)))


def always_yes(example: RagExample) -> Score:
    """Flag the whole response: the F1 that the share of hallucinated rows gives away."""
    return Score(0.0, hallucinated=True, spans=(Span(0, len(example.response)),))


def judge_by(evaluator: Evaluator, example: RagExample) -> Score:
    """Score one example by a bundle, at its own threshold."""
    (verdict,) = evaluator.evaluate_many([example])
    if not isinstance(verdict, Evaluation):
        raise ExampleError(verdict.message, verdict.code)
    if verdict.faithfulness is None:
        if verdict.abstains:  # it claims nothing
            return Score(1.0, hallucinated=False)
        raise ExampleError("the verdict has no faithfulness", "no_faithfulness")
    spans = tuple(Span(part.start, part.end) for part in verdict.unsupported)
    return Score(verdict.faithfulness, hallucinated=not verdict.adherent, spans=spans)


def _bundle_system(evaluator: Evaluator) -> System:
    manifest = (evaluator.bundle.folder / MANIFEST_NAME).read_bytes()
    digest = hashlib.sha256(manifest).hexdigest()[:12]
    name, backend = evaluator.bundle.info.name, evaluator.backend_name
    about = f"bundle {name}, manifest {digest}, {backend}, {evaluator.precision}"
    return System(about, partial(judge_by, evaluator))


def load(name: str, argument: str, setup: Setup) -> System:
    """Return ``trivet:BUNDLE#BACKEND`` or a baseline."""
    if name == "trivet":
        bundle, _, backend = argument.partition("#")
        if backend and backend not in get_args(BackendName):
            names = ", ".join(get_args(BackendName))
            raise ConfigError(f"trivet:{argument}: no backend {backend!r}; there are {names}")
        chosen = cast("BackendName | None", backend or None)
        return _bundle_system(Evaluator(bundle or None, setup.threads, backend=chosen))
    if argument:
        raise ConfigError(f"{name}:{argument}: {name} takes no argument")
    if name == "words":
        return System("share of content words that the contexts have", count_words)
    return System("flags every response", always_yes)
