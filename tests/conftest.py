"""Fixtures for all tests: tiny tokenizers, tiny encoders, examples written for this project.

Nothing reaches the network, and torch is imported only in the fixtures that need it. Models have
two layers and weights from a formula, so that frozen numbers depend on no random generator.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import hypothesis
import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from trivet.data.windows import WindowSettings
from trivet.records import ContextSpan, Evidence, LabelledExample, Labels, RagExample, Span

if TYPE_CHECKING:
    import torch
    import transformers

    from trivet.bundle.info import BundleInfo
    from trivet.evaluation.evaluator import Evaluator

Model = TypeVar("Model", bound="torch.nn.Module")

# Read once by the hub's client when it is imported, hence before any fixture.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Read when torch is imported: tiny models are slower on more threads, and workers share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Derandomized: a failure seen once is seen every time. No deadline: the machine may be busy.
hypothesis.settings.register_profile(
    "trivet", deadline=None, derandomize=True, max_examples=40, database=None
)
hypothesis.settings.load_profile("trivet")

# The adapters are also tested in environments without torch.
pytest_plugins = ["tests.once", "tests.judges"] if importlib.util.find_spec("torch") else []


@pytest.fixture(autouse=True)
def offline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection that leaves the machine, except in tests marked ``network``."""
    if request.node.get_closest_marker("network"):
        return
    connect = socket.socket.connect

    def connect_here_only(self: socket.socket, address: Any) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if self.family == socket.AF_UNIX or host in {"127.0.0.1", "::1", "localhost"}:
            return connect(self, address)
        raise OSError(f"a test tried to reach {address!r}; tests run offline")

    monkeypatch.setattr(socket.socket, "connect", connect_here_only)


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests in asyncio."""
    return "asyncio"


# Tokenizers -----------------------------------------------------------------------------------

WORDS = """
    the a an is was are were in on of to and or not no when where what who which how many it its
    there had has have with by for from at about nothing say passage one two three four five ten
    hundred 17 18 19 20 year years old new first second tall wide metre red green blue water built
    opened closed made found crosses bridge river mill town city capital lighthouse keeper lamp
    stone wood bread flour baker oven garden apple pear tree boat ferry north south east west
""".split()  # noqa: SIM905 (a list of a hundred lines would hide what it is)
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
MARKS = ".,;:!?'\"()[]-/%&@#*+=<>_$"


@pytest.fixture(scope="session")
def wordpiece_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the ``tokenizer.json`` of a tiny BERT tokenizer: WordPiece, lower-casing.

    Specials: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4. Any ASCII word can be spelled letter by
    letter; all else is [UNK]. Like published files, it turns truncation (to 16) and padding on.
    """
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [*LETTERS, *(f"##{letter}" for letter in LETTERS), *MARKS]
    pieces += [word for word in WORDS if len(word) > 1] + ["##s", "##ed", "##ing"]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    _add_specials(tokenizer)
    tokenizer.enable_truncation(max_length=16)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=16)
    path = tmp_path_factory.mktemp("wordpiece") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="session")
def unigram_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the ``tokenizer.json`` of a tiny DeBERTa-v3 tokenizer: Unigram over ``▁``-marked words.

    Specials: [PAD] 0, [CLS] 1, [SEP] 2, [UNK] 3, [MASK] last, as in the published vocabulary. Case
    is kept; offsets of a word's first token may include the space before it, as they do there.
    """
    scored: dict[str, float] = {"[PAD]": 0.0, "[CLS]": 0.0, "[SEP]": 0.0, "[UNK]": 0.0, "▁": -3.0}
    for word in WORDS:
        scored |= {f"▁{word}": -4.0, f"▁{word.capitalize()}": -4.5, word: -6.0}
    for character in LETTERS + LETTERS[:26].upper() + MARKS:
        scored.setdefault(character, -9.0)
    scored |= {"s": -5.0, "ed": -5.0, "ing": -5.0}
    tokenizer = tokenizers.Tokenizer(models.Unigram(list(scored.items()), unk_id=3))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Strip(),
            normalizers.NFKC(),
            normalizers.Replace(tokenizers.Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    _add_specials(tokenizer)
    path = tmp_path_factory.mktemp("unigram") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def _add_specials(tokenizer: tokenizers.Tokenizer) -> None:
    """Add the special tokens and the ``[CLS] A [SEP] B [SEP]`` template to ``tokenizer``."""
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )


# Encoders -------------------------------------------------------------------------------------

TINY: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
}
# A DeBERTa of the second and third version.
RELATIVE: dict[str, Any] = {
    "type_vocab_size": 0,
    "relative_attention": True,
    "position_buckets": 16,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
}
# A ModernBERT whose second layer sees four tokens on each side.
MODERN: dict[str, Any] = {
    "layer_types": ["full_attention", "sliding_attention"],
    "local_attention": 8,
    **dict.fromkeys([f"{name}_token_id" for name in ("pad", "cls", "bos", "sep", "eos")], 0),
}


def filled(module: Model) -> Model:
    """Set every parameter by a formula, the same on every machine and version; in eval mode.

    Values are spread over [-0.3, 0.3], far wider than a fresh initialisation, so that attention is
    not uniform and a misplaced position shows in the output. Layer norms stay near the identity.
    """
    import torch

    with torch.no_grad():
        for number, (name, parameter) in enumerate(module.named_parameters(), start=1):
            steps = torch.arange(parameter.numel(), dtype=torch.float64)
            noise = torch.remainder(torch.sin(steps * 12.9898 + number * 78.233) * 43758.5453, 1.0)
            centre = 1.0 if name.lower().endswith("norm.weight") else 0.0
            values = centre + 0.6 * (noise - 0.5)
            parameter.copy_(values.reshape(parameter.shape).to(parameter.dtype))
    return module.eval()


def bert_model(tokenizer_file: Path, **settings: Any) -> transformers.BertModel:
    """Return a two-layer BERT with token types, in eval mode."""
    import transformers

    vocab_size = tokenizers.Tokenizer.from_file(str(tokenizer_file)).get_vocab_size()
    config = transformers.BertConfig(
        vocab_size=vocab_size, type_vocab_size=2, pad_token_id=0, **TINY
    )
    return filled(transformers.BertModel(config, **settings))


@pytest.fixture
def tiny_bert(wordpiece_file: Path) -> transformers.BertModel:
    """Return a two-layer BERT for the tokenizer of ``wordpiece_file``, in eval mode."""
    return bert_model(wordpiece_file, add_pooling_layer=False)


def deberta_config(tokenizer_file: Path, **overrides: Any) -> transformers.DebertaV2Config:
    """Return a two-layer DeBERTa-v3 configuration: relative attention, no token types.

    With 16 buckets the logarithmic part begins at a distance of 8, within any test's window.
    """
    import transformers

    settings: dict[str, Any] = {
        **TINY,
        **RELATIVE,
        "vocab_size": tokenizers.Tokenizer.from_file(str(tokenizer_file)).get_vocab_size(),
        "max_relative_positions": -1,
        "layer_norm_eps": 1e-7,
        "pad_token_id": 0,
        "pooler_hidden_size": TINY["hidden_size"],
    }
    return transformers.DebertaV2Config(**(settings | overrides))


@pytest.fixture
def tiny_deberta(unigram_file: Path) -> transformers.DebertaV2Model:
    """Return a two-layer DeBERTa-v3 for the tokenizer of ``unigram_file``, in eval mode."""
    import transformers

    return filled(transformers.DebertaV2Model(deberta_config(unigram_file)))


@pytest.fixture
def tiny_mpnet(wordpiece_file: Path) -> transformers.MPNetModel:
    """Return a two-layer MPNet for the tokenizer of ``wordpiece_file``, in eval mode."""
    import transformers

    vocab_size = tokenizers.Tokenizer.from_file(str(wordpiece_file)).get_vocab_size()
    # Positions are counted from 2.
    settings = TINY | {"vocab_size": vocab_size, "max_position_embeddings": 514}
    config = transformers.MPNetConfig(**settings)
    return filled(transformers.MPNetModel(config, add_pooling_layer=False))


@pytest.fixture
def tiny_modernbert(wordpiece_file: Path) -> transformers.ModernBertModel:
    """Return a two-layer ModernBERT, in eval mode."""
    import transformers

    vocab_size = tokenizers.Tokenizer.from_file(str(wordpiece_file)).get_vocab_size()
    config = transformers.ModernBertConfig(**TINY, **MODERN, vocab_size=vocab_size)
    return filled(transformers.ModernBertModel(config))


@pytest.fixture(params=["tiny_bert", "tiny_deberta", "tiny_mpnet", "tiny_modernbert"])
def tiny_encoder(request: pytest.FixtureRequest) -> transformers.PreTrainedModel:
    """Return each tiny encoder in turn: the test runs once with either."""
    encoder: transformers.PreTrainedModel = request.getfixturevalue(request.param)
    return encoder


@pytest.fixture(scope="session")
def nli_checkpoint(tmp_path_factory: pytest.TempPathFactory, unigram_file: Path) -> Path:
    """Save a random DeBERTa NLI classifier with labels in an unusual order.

    ``label2id`` is ``{"NEUTRAL": 0, "Entailment": 1, "contradiction": 2}``: not the order of any
    well-known checkpoint, and in three kinds of spelling. The classifier's row for each label is
    constant: -0.5 neutral, 0.25 entailment, 0.75 contradiction, with biases -0.1, 0.2, 0.3.
    """
    import torch
    import transformers

    label2id = {"NEUTRAL": 0, "Entailment": 1, "contradiction": 2}
    id2label = {number: name for name, number in label2id.items()}
    config = deberta_config(unigram_file, label2id=label2id, id2label=id2label)
    model = filled(transformers.DebertaV2ForSequenceClassification(config))
    with torch.no_grad():
        rows = torch.tensor([[-0.5], [0.25], [0.75]])
        model.classifier.weight.copy_(rows.expand_as(model.classifier.weight))
        model.classifier.bias.copy_(torch.tensor([-0.1, 0.2, 0.3]))
    folder = tmp_path_factory.mktemp("nli")
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(unigram_file.read_bytes())
    return folder


@pytest.fixture(scope="session")
def bert_checkpoint(tmp_path_factory: pytest.TempPathFactory, wordpiece_file: Path) -> Path:
    """Save a tiny BERT encoder with its ``tokenizer.json``, as a training run would start from."""
    folder = tmp_path_factory.mktemp("bert")
    bert_model(wordpiece_file).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(wordpiece_file.read_bytes())
    return folder


# Examples -------------------------------------------------------------------------------------


@pytest.fixture
def rag_example() -> RagExample:
    """Return one example whose response has a supported and an unsupported sentence."""
    return RagExample(
        question="When was the old mill built?",
        contexts=(
            "The old mill is in the north of the town. It was built of stone in 1817.",
            "The ferry crosses the river. It has a red boat.",
        ),
        response="The mill was built in 1817. It was made of wood.",
        id="mill",
    )


@pytest.fixture
def rag_examples(rag_example: RagExample) -> tuple[RagExample, ...]:
    """Return examples of many shapes: short, without response or question, long, far from ASCII."""
    passage = "The keeper of the lighthouse had a lamp. The lamp was red. The boat was not old. "
    return (
        rag_example,
        RagExample("Who had a lamp?", ("The keeper had a lamp.",), "", id="no-response"),
        RagExample("", ("The baker has an oven.",), "The baker has an oven.", id="no-question"),
        RagExample("What was red?", (passage * 30,), "The lamp was red.", id="long-context"),
        RagExample("What?", ("The tree is tall.",), passage * 8, id="long-response"),
        RagExample(
            "Où est le pont ?",
            ("Le pont 🌉 mène à la forêt.", "هذا جسر قديم.", "👩‍🌾 a planté un pommier."),
            "Le pont mène à la forêt 🌲.",
            id="unicode",
        ),
    )


@pytest.fixture
def labelled_examples(rag_example: RagExample) -> tuple[LabelledExample, ...]:
    """Return one example for each kind of supervision: evidence, spans alone, verdict alone."""
    first, second = rag_example.contexts[0], rag_example.response
    built = first.index("It was built")
    supported = Span(0, second.index(" It was made"))
    unsupported = Span(second.index("It was made"), len(second))
    evidence = Labels(
        unsupported=(unsupported,),
        adherent=False,
        relevant=(ContextSpan(0, 0, built - 1), ContextSpan(0, built, len(first))),
        utilized=(ContextSpan(0, built, len(first)),),
        evidence=(Evidence(supported, (ContextSpan(0, built, len(first)),)),),
    )
    bread = RagExample(
        "Who made the bread?",
        ("The baker made bread in the old oven.",),
        "The baker made the bread. It had ten apples.",
        id="bread",
    )
    ferry = RagExample(
        "Where is the ferry?", ("The ferry is in the south.",), "It is in the south.", id="ferry"
    )
    start = bread.response.index("ten apples")
    spans = Labels(unsupported=(Span(start, start + len("ten apples")),), adherent=False)
    return (
        LabelledExample(rag_example, evidence, "tiny/evidence", "mill", generator="writer-a"),
        LabelledExample(bread, spans, "tiny/spans", "bread", generator="writer-b"),
        LabelledExample(ferry, Labels(adherent=True), "tiny/verdict", "ferry"),
    )


def bundle_info(model_type: str = "bert", **changes: Any) -> BundleInfo:
    """Return the description of a tiny bundle with windows of 48 tokens, with some changes."""
    from trivet.bundle import info

    described: dict[str, Any] = {
        "package_version": "0",
        "name": "tiny",
        "encoder": info.EncoderInfo(
            model_type=model_type, hidden_size=16, layers=2, source="a formula", licence="none"
        ),
        "window": WindowSettings(size=48),
        "faithfulness": "weakest_sentence",
        "heads": ("support", "relevance", "utilization"),
        "thresholds": info.Thresholds(sentence=0.5, span=0.5),
        "special_tokens": info.SpecialTokenIds(cls=2, sep=3, pad=0),
        "training": info.TrainingInfo(command="none", date="2020-01-01", data=()),
    }
    return info.BundleInfo(**(described | changes))


@pytest.fixture(scope="session")
def embedded() -> Evaluator:
    """Return an evaluator of the embedded bundle."""
    from trivet.evaluation.evaluator import Evaluator

    return Evaluator(threads=1)
