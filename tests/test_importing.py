"""Imported detectors: token by token those of the published package, and refusals by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import safetensors.torch
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors, trainers

from tests.conftest import MODERN, TINY, filled
from trivet.backends.torch import TorchBackend
from trivet.bundle.bundle import read_bundle
from trivet.bundle.weights import load_rag_model
from trivet.errors import BundleError
from trivet.evaluation.evaluator import Evaluator
from trivet.export import export_onnx
from trivet.importing import import_lettucedetect
from trivet.records import RagExample

MILL = "The old mill is in the north. It was built of stone in 1817."


def prompt_of(passages: Sequence[str], question: str) -> str:
    """Return the prompt of lettucedetect 0.2.3 (MIT, KR Labs): of a question, or of a summary."""
    listed = "\n".join(f"passage {n}: {text}" for n, text in enumerate(passages, start=1))
    if not question:
        return f"Summarize the following text:\n{listed}\noutput:"
    return (
        f"Briefly answer the following question:\n{question}\nBear in mind that your response "
        f"should be strictly based on the following {len(passages)} passages:\n{listed}\nIn case "
        "the passages do not contain the necessary information to answer the question, please "
        'reply with: "Unable to answer based on given passages."\noutput:'
    )


TEXTS = (MILL, "Who built 12 mills?", prompt_of([MILL], "Who?"), "passage 1: 2 3 4 5 6 7 8 9 10 11")
EXAMPLES = {
    "plain": RagExample("When was it built?", (MILL, "The boat is red."), "In 1817. It is wide."),
    "summary": RagExample("", (MILL, "The boat is red."), "The mill is old, and the boat is red."),
    "many": RagExample("Which?", tuple(f"Mill {n} is old." for n in range(12)), "Mill 11 is old."),
    "spaces": RagExample("  Who \t asks? ", ("  12 m wide", "\tx\n\ny ", "(a)"), " A,  b\n\nc. "),
    "far": RagExample("Où ?", ("Le pont 🌉 mène à la forêt.", "👩‍🌾, هذا"), "Le pont 🌉, là."),
}


def byte_level() -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer of ModernBERT's kind."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in (2, 3, 4)])
    return framed(tokenizer, "[CLS]", "[SEP]", "[PAD]", "[UNK]")


def like_gemma() -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer of mmBERT's kind: words begin with their space, and texts are not cut."""
    tokenizer = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=[*specials, *bytes_], show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = tokenizers.Tokenizer(
        models.BPE(model["vocab"], merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    )
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    runs = [mark * n for mark in ("\n", "▁") for n in (1, 2, 3) if (mark, n) != ("▁", 1)]
    tokenizer.add_tokens([AddedToken(run, normalized=False) for run in runs])
    return framed(tokenizer, "<bos>", "<eos>", "<pad>", "<unk>")


def framed(
    tokenizer: tokenizers.Tokenizer, cls: str, sep: str, pad: str, unknown: str
) -> transformers.PreTrainedTokenizerFast:
    tokenizer.add_special_tokens([cls, sep, pad, unknown])
    ids = [(name, tokenizer.token_to_id(name)) for name in (cls, sep)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}", pair=f"{cls} $A {sep} $B {sep}", special_tokens=ids
    )
    named = {"cls_token": cls, "sep_token": sep, "pad_token": pad, "unk_token": unknown}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named)


def save_checkpoint(folder: Path, kind: str, labels: Sequence[str] = ()) -> Path:
    """Save a tiny token classifier as its makers publish it."""
    tokenizer = like_gemma() if kind == "mmbert" else byte_level()
    settings: dict[str, Any] = {**TINY, "vocab_size": len(tokenizer)}
    if labels:
        settings["id2label"] = dict(enumerate(labels))
        settings["label2id"] = {label: number for number, label in enumerate(labels)}
    model: Any
    if kind == "bert":
        model = transformers.BertForTokenClassification(transformers.BertConfig(**settings))
    else:
        config = transformers.ModernBertConfig(**settings, **MODERN)
        model = transformers.ModernBertForTokenClassification(config)
    filled(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["modernbert", "mmbert", "bert"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint(tmp_path_factory.mktemp(request.param) / "checkpoint", request.param)


@pytest.fixture(scope="module")
def bundle(checkpoint: Path) -> Path:
    folder = checkpoint.parent / "bundle"
    import_lettucedetect(str(checkpoint), folder, size=512, licence="MIT")
    return folder


@pytest.fixture(scope="module")
def evaluator(bundle: Path) -> Evaluator:
    return in_torch(bundle)


def in_torch(folder: Path) -> Evaluator:
    """Return an evaluator of a bundle's weights, of which no graph was exported."""
    held = read_bundle(folder)
    backend = TorchBackend(load_rag_model(held), held.info.window.size)
    return Evaluator(folder, backend=backend, precision="fp32")


def published(checkpoint: Path, example: RagExample) -> Any:
    """Return P(hallucinated) of each response token, as LettuceDetect computes it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModelForTokenClassification.from_pretrained(checkpoint).eval()
    prompt = prompt_of(example.contexts, example.question)
    encoded = tokenizer(prompt, example.response, return_tensors="pt")
    length = len(tokenizer(example.response, add_special_tokens=False)["input_ids"])
    with torch.no_grad():
        return model(**encoded).logits.softmax(-1)[0, -length - 1 : -1, 1].numpy()


def of_the_package(checkpoint: Path, example: RagExample) -> Any:
    """Return the same from the package itself."""
    pytest.importorskip("lettucedetect")
    from lettucedetect.detectors.transformer import TransformerDetector

    detector = TransformerDetector(str(checkpoint), max_length=512, device="cpu")
    asked = (list(example.contexts), example.response, example.question or None)
    probs = [token["prob"] for token in detector.predict(*asked)]
    return np.array(probs[:-1])  # without the separator at the end


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("reference", [published, of_the_package])
def test_tokens_are_those_of_the_published_detector(
    checkpoint: Path, evaluator: Evaluator, reference: Any, name: str
) -> None:
    example = EXAMPLES[name]
    expected = reference(checkpoint, example)
    asked = (example.question, example.contexts, example.response)
    tokens = evaluator.evaluate_tokens(*asked)
    np.testing.assert_allclose([1 - token.support for token in tokens], expected, atol=2e-6)
    assert np.ptp(expected) > 1e-3
    verdict = evaluator.evaluate(*asked)
    assert verdict.windows == 1
    assert verdict.faithfulness == pytest.approx(1 - expected.max(), abs=2e-6)


def test_the_verdict_says_what_the_bundle_lacks(evaluator: Evaluator) -> None:
    example = EXAMPLES["plain"]
    verdict = evaluator.evaluate(example.question, example.contexts, example.response)
    assert (verdict.relevance, verdict.utilization, verdict.completeness) == (None, None, None)
    assert all(
        sentence.relevance is None for context in verdict.contexts for sentence in context.sentences
    )
    assert verdict.adherent is all(sentence.supported for sentence in verdict.sentences)
    for sentence in verdict.sentences:
        tokens = evaluator.evaluate_tokens(example.question, example.contexts, example.response)
        inside = [t.support for t in tokens if sentence.start <= t.start < sentence.end]
        assert sentence.support == pytest.approx(np.mean(inside), abs=1e-5)


def test_labels_are_mapped_by_name(tmp_path: Path) -> None:
    example = EXAMPLES["plain"]
    checkpoint = save_checkpoint(tmp_path / "named", "modernbert", ("Hallucinated", "supported"))
    info = import_lettucedetect(str(checkpoint), tmp_path / "bundle", size=512)
    tokens = in_torch(tmp_path / "bundle").evaluate_tokens(
        example.question, example.contexts, example.response
    )
    expected = published(checkpoint, example)  # of class 1, which is supported here
    np.testing.assert_allclose([token.support for token in tokens], expected, atol=2e-6)
    assert (info.heads, info.faithfulness) == (("support",), "weakest_token")
    assert read_bundle(tmp_path / "bundle").info == info
    card = (tmp_path / "bundle" / "README.md").read_text()
    assert "Relevance, utilization and completeness are null" in card
    assert "They have LettuceDetect's prompt" in card


def test_an_answer_is_judged_while_it_is_written(evaluator: Evaluator) -> None:
    example = EXAMPLES["many"]
    for windows in ("evidence", "all"):
        stream = evaluator.stream(example.question, example.contexts, windows=windows)
        (event,) = [*stream.feed(example.response), *stream.flush()]
        assert event.text == example.response
        whole = evaluator.evaluate(example.question, example.contexts, example.response)
        assert stream.close() == whole
        if windows == "all":
            assert event.support == pytest.approx(whole.sentences[0].support, abs=1e-6)


@pytest.mark.slow
def test_the_graphs_are_those_of_the_weights(tmp_path: Path) -> None:
    example = EXAMPLES["many"]
    checkpoint = save_checkpoint(tmp_path / "checkpoint", "modernbert")
    import_lettucedetect(str(checkpoint), tmp_path / "bundle")
    export_onnx(tmp_path / "bundle", threads=1)
    evaluator = Evaluator(tmp_path / "bundle", backend="onnx", precision="fp32", threads=1)
    asked = (example.question, example.contexts, example.response)
    tokens = evaluator.evaluate_tokens(*asked)
    expected = published(checkpoint, example)
    np.testing.assert_allclose([1 - token.support for token in tokens], expected, atol=1e-5)
    int8 = Evaluator(tmp_path / "bundle", threads=1)
    assert int8.precision == "int8"
    assert int8.evaluate(*asked).faithfulness == pytest.approx(1 - expected.max(), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "tolerance"), [("bf16", 0.01), ("fp16", 0.002)])
def test_the_16_bit_graph_answers_as_the_weights_do(
    tmp_path: Path, precision: Literal["bf16", "fp16"], tolerance: float
) -> None:
    checkpoint = save_checkpoint(tmp_path / "checkpoint", "modernbert")
    import_lettucedetect(str(checkpoint), tmp_path / "bundle", size=512)
    report = export_onnx(tmp_path / "bundle", keep=(precision,), form="attention", threads=1)
    assert 0 < report.worst[f"model.{precision}.onnx"] < tolerance


def without_norm(folder: Path) -> None:
    file = folder / "model.safetensors"
    state = safetensors.torch.load_file(file)
    del state["head.norm.weight"]
    safetensors.torch.save_file(state, file, metadata={"format": "pt"})


def as_pickle(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def as_sequence_classifier(folder: Path) -> None:
    change(folder / "config.json", architectures=["ModernBertForSequenceClassification"])


def without_tokenizer(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


def with_another_frame(folder: Path) -> None:
    pair = [{"SpecialToken": {"id": "[UNK]", "type_id": 0}}]
    pair += [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    file = folder / "tokenizer.json"
    processor = json.loads(file.read_text())["post_processor"]
    unknown = {"id": "[UNK]", "ids": [0], "tokens": ["[UNK]"]}
    special = processor["special_tokens"] | {"[UNK]": unknown}
    change(file, post_processor=processor | {"pair": pair, "special_tokens": special})


def change(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def labelled(*labels: str) -> Callable[[Path], None]:
    return lambda folder: change(
        folder / "config.json",
        id2label={str(number): label for number, label in enumerate(labels)},
        label2id={label: number for number, label in enumerate(labels)},
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (labelled("yes", "no"), r"its labels are yes, no; the support head needs two, one of"),
        (labelled("supported", "hallucinated", "unclear"), r"its labels are .*, unclear"),
        (without_norm, r"1 tensors are missing or left over, first head\.norm\.weight"),
        (as_pickle, r"its weights are a pickle \(pytorch_model\.bin\), which can run code"),
        (as_sequence_classifier, r"is a ModernBertForSequenceClassification, not a token class"),
        (without_tokenizer, r"has (a tokenizer that|no readable tokenizer)|the tokenizer of"),
        (with_another_frame, r"its tokenizer frames a pair as \[UNK\] a b and pads with \[PAD\]"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    checkpoint = save_checkpoint(tmp_path / "checkpoint", "modernbert")
    damage(checkpoint)
    with pytest.raises(BundleError, match=message) as caught:
        import_lettucedetect(str(checkpoint), tmp_path / "bundle")
    assert str(caught.value).startswith(f"{checkpoint}: ")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "bundle").exists()
