"""A frozen verdict of a model with weights from a formula.

After a wanted change, write what the test found into ``golden/evaluation.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judges import approximately
from trivet.backends.opening import load_tokenizer
from trivet.bundle.bundle import read_bundle
from trivet.data.collating import collate
from trivet.data.tokenization import tokenize_examples
from trivet.data.windows import WindowSettings, lay_out
from trivet.evaluation.evaluator import Evaluator
from trivet.records import RagExample

GOLDEN = Path(__file__).parent / "golden" / "evaluation.json"

EXAMPLE = RagExample(
    question="When was the old mill built, and of what?",
    contexts=(
        "The old mill is in the north of the town. It was built of stone in 1817. Its baker has "
        "an oven. The flour was made by the river. Nothing is known of the keeper.",
        "",
        "The ferry crosses the river. It has a red boat. The bridge opened in 1920.",
    ),
    response="The mill was built in 1817. It was made of wood by the keeper of the lighthouse.",
    id="mill",
)


def test_the_verdict_is_the_frozen_one(tiny_bundle: Path) -> None:
    evaluator = Evaluator(tiny_bundle, threads=1, precision="fp32")
    texts = EXAMPLE.question, EXAMPLE.contexts, EXAMPLE.response
    written = json.loads(evaluator.evaluate(*texts, id=EXAMPLE.id).to_json())
    frozen = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert written == approximately(frozen, 3e-4), json.dumps(written, ensure_ascii=False, indent=2)
    # A frozen verdict that shows nothing could not catch anything.
    assert frozen["windows"] > 1 and frozen["unsupported"]


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("int8", 0.05)])
def test_the_call_answers_as_the_weights_do_in_torch(
    tiny_bundle: Path, rag_examples: tuple[RagExample, ...], precision: Any, tolerance: float
) -> None:
    """Packed calls joined on the host equal the model itself on all windows at once."""
    import torch

    from trivet.bundle.weights import load_rag_model
    from trivet.model.rag_model import as_tensors, to_numpy

    bundle = read_bundle(tiny_bundle)
    model, tokenizer = load_rag_model(bundle), load_tokenizer(bundle)
    settings = WindowSettings(bundle.info.window.size, bundle.info.window.stride_overlap)
    reads = tokenize_examples(rag_examples, tokenizer)
    layouts = [lay_out(read, settings, tokenizer.special) for read in reads]
    with torch.inference_mode():
        answer = model(*as_tensors(collate(layouts, tokenizer.special.pad)))
    expected = to_numpy(answer)
    evaluator = Evaluator(tiny_bundle, threads=1, precision=precision)
    for number, verdict in enumerate(evaluator.evaluate_many(rag_examples)):
        for name in ("faithfulness", "relevance", "utilization", "completeness"):
            if (score := getattr(verdict, name)) is not None:
                wanted = getattr(expected, name)[number]
                np.testing.assert_allclose(score, wanted, atol=tolerance, err_msg=name)
