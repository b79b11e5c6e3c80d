"""Bundles of published detectors: their weights, their tokenizer and their own prompt.

LettuceDetect (Kovács and Recski, arXiv 2502.17125 and 2607.00895) is a token classifier with two
classes that reads the pair of a prompt and a response. Windows have its prompt
(``data.window_layout``), and its classifier becomes the support head.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForTokenClassification, AutoTokenizer

import trivet
from trivet.bundle.bundle import check_folder, write_bundle
from trivet.bundle.checkpoint import find_checkpoint, load_checkpoint
from trivet.bundle.info import (
    LABELS,
    BundleInfo,
    EncoderInfo,
    SpecialTokenIds,
    Thresholds,
    TrainingInfo,
    outputs_of,
)
from trivet.data.tokenization import SegmentTokenizer
from trivet.data.window_layout import Frame
from trivet.data.windows import QUESTION_SHARE, RESPONSE_SHARE, WindowSettings
from trivet.errors import BundleError, ConfigError, WindowError
from trivet.heads.token_head import TokenHead
from trivet.model.aggregate import output_names
from trivet.model.architecture import Architecture
from trivet.model.rag_model import RagModel
from trivet.model.trunk import Trunk, check_window
from trivet.training.initialization import read_tokenizer

LONGEST = 4096  # tokens that LettuceDetect reads at once
_THRESHOLD = 0.5  # of LettuceDetect: a token is flagged by the larger class
_MIN_CONTEXT = 32  # positions for context, next to the longest question and response

# Names of the classes. Checkpoints that name none have 0 for supported.
_SUPPORTED = frozenset({"supported", "faithful", "grounded", "consistent", "label_0"})
_UNSUPPORTED = frozenset({"hallucinated", "hallucination", "unsupported", "label_1"})

_NOTE = (
    "Weights of {name}, a published detector of the LettuceDetect family, read with its own prompt "
    "as the layout of the windows. Relevance, utilization and completeness are null: it has no "
    "such heads. The thresholds are its own .5 for tokens and, for sentences, ours; "
    "`trivet calibrate --thresholds-only` chooses them on labelled rows. Where an example needs "
    "several windows, a response token is supported if some window supports it; LettuceDetect "
    "itself takes the highest probability of hallucination."
)


def import_lettucedetect(
    name: str,
    out: Path,
    *,
    size: int | None = None,
    licence: str = "unknown",
    command: str = "trivet import lettucedetect",
) -> BundleInfo:
    """Write a bundle of a published token classifier; nothing is written if it is refused.

    Args:
        name: Folder of the checkpoint, or ``org/name`` or ``org/name@revision`` on the hub.
        out: Folder of the bundle.
        size: Most positions in a window; ``None`` means LettuceDetect's 4,096, or fewer if the
            encoder has fewer.
        licence: Licence of the weights.
        command: Command line, recorded in the bundle.

    Raises:
        BundleError: It is not a token classifier with a class for supported and one for unsupported
            tokens, its weights are not safetensors, its tokenizer is missing or frames a pair in
            another way, or ``out`` holds other files.
        WindowError: ``size`` is more than the encoder has, or leaves no positions for context.
    """
    check_folder(out)
    source, revision = find_checkpoint(name)
    _refuse_pickle(name, source)
    config = _classifier_config(name, source, revision)
    order = _order(name, config.id2label)
    classifier = _classifier(name, source, revision)
    prefix = f"{classifier.base_model_prefix}."
    state: dict[str, Tensor] = classifier.state_dict()
    head = {key: value for key, value in state.items() if not key.startswith(prefix)}
    tokenizer = _tokenizer(name, source, revision, int(config.vocab_size))
    model = _model(name, classifier, head, order)
    most = int(getattr(config, "max_position_embeddings", LONGEST) or LONGEST)
    window = WindowSettings(size=size or min(LONGEST, most), layout="lettucedetect")
    check_window(model.trunk.config, window.size)
    _check_context_positions(window.size, tokenizer)
    special = tokenizer.special
    info = BundleInfo(
        package_version=trivet.__version__,
        name=out.resolve().name,
        encoder=EncoderInfo(
            model_type=config.model_type,
            hidden_size=int(config.hidden_size),
            layers=int(config.num_hidden_layers),
            source=Path(name).name if Path(name).exists() else name,
            licence=licence,
        ),
        window=window,
        faithfulness=model.faithfulness,
        heads=("support",),
        outputs=outputs_of(["support"]),
        labels={output: LABELS[output] for output in output_names(["support"])},
        thresholds=Thresholds(sentence=_THRESHOLD, span=_THRESHOLD),
        special_tokens=SpecialTokenIds(cls=special.cls, sep=special.sep, pad=special.pad),
        training=TrainingInfo(command=command, date=date.today().isoformat(), data=()),
        notes=(_NOTE.format(name=Path(name).name if Path(name).exists() else name),),
    )
    write_bundle(
        out,
        info,
        tokenizer.to_json(),
        weights=model.state_dict(),
        architecture=model.architecture(),
    )
    return info


def _refuse_pickle(name: str, source: str) -> None:
    """Refuse a folder whose weights are a pickle, which could run code."""
    folder = Path(source)
    pickles = sorted(path.name for kind in ("*.bin", "*.pt") for path in folder.glob(kind))
    if pickles and not any(folder.glob("*.safetensors")):
        raise BundleError(
            f"{name}: its weights are a pickle ({pickles[0]}), which can run code; save it as "
            "safetensors where that does no harm, and import the result"
        )


def _classifier_config(name: str, source: str, revision: str | None) -> Any:
    try:
        config = AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error
    kinds = list(config.architectures or ())
    if not any(kind.endswith("ForTokenClassification") for kind in kinds):
        raise BundleError(
            f"{name}: is a {' or '.join(kinds) or 'model without a head'}, not a token classifier, "
            "which LettuceDetect is"
        )
    return config


def _order(name: str, labels: Mapping[int, str]) -> list[int]:
    """Return the numbers of the classes supported and unsupported, by their names."""
    by_class = [
        [number for number, label in labels.items() if label.strip().lower() in names]
        for names in (_SUPPORTED, _UNSUPPORTED)
    ]
    if len(labels) != 2 or any(len(numbers) != 1 for numbers in by_class):
        raise BundleError(
            f"{name}: its labels are {', '.join(labels.values())}; the support head needs two, one "
            f"of {', '.join(sorted(_SUPPORTED))} and one of {', '.join(sorted(_UNSUPPORTED))}"
        )
    return [number for (number,) in by_class]


def _classifier(name: str, source: str, revision: str | None) -> Any:
    try:
        return load_checkpoint(AutoModelForTokenClassification, source, revision, whole=True)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: Exception) -> BundleError:
    reason = str(error).strip().partition("\n")[0]
    return BundleError(f"{name}: cannot be loaded: {reason}")


def _model(name: str, classifier: Any, head: Mapping[str, Tensor], order: list[int]) -> RagModel:
    """Return the model of a classifier, whose head has these weights."""
    config = classifier.config
    pooled = "head.dense.weight" in head
    known = {"classifier.weight", "classifier.bias"}
    known |= {f"head.{part}.{kind}" for part in ("dense", "norm") for kind in ("weight", "bias")}
    activation = getattr(config, "classifier_activation", "gelu")
    if not {"classifier.weight", "classifier.bias"} <= head.keys() <= known or (
        pooled and (activation != "gelu" or "head.norm.weight" not in head)
    ):
        raise BundleError(
            f"{name}: its classifier ({', '.join(sorted(head))}; {activation}) is neither a linear "
            "layer nor that of ModernBERT (dense layer, gelu, norm, linear layer)"
        )
    if int(getattr(config, "type_vocab_size", 0) or 0) > 1:  # LettuceDetect tells no segments apart
        types = classifier.base_model.embeddings.token_type_embeddings.weight
        with torch.no_grad():
            types.copy_(types[:1].expand_as(types))
    config.id2label = {0: "supported", 1: "unsupported"}
    config.label2id = {"supported": 0, "unsupported": 1}
    model = RagModel(
        Trunk(classifier.base_model),
        Architecture(
            heads=("support",),
            faithfulness="weakest_token",
            pooled_support=pooled,
            support_classes=2,
            support_norm=float(config.norm_eps) if pooled else None,
        ),
    )
    support = cast(TokenHead, model.heads["support"])
    copied = {
        f"classifier.{kind}": head[f"classifier.{kind}"][order] for kind in ("weight", "bias")
    }
    if pooled:
        nothing = torch.zeros(model.trunk.hidden)
        for part in ("dense", "norm"):
            copied[f"{part}.weight"] = head[f"head.{part}.weight"]
            copied[f"{part}.bias"] = head.get(f"head.{part}.bias", nothing)
    support.load_state_dict(copied)
    return model.eval()


def _tokenizer(name: str, source: str, revision: str | None, vocab_size: int) -> SegmentTokenizer:
    """Return the tokenizer, which must frame a pair as the windows are framed."""
    try:
        tokenizer = read_tokenizer(source, vocab_size, revision)
        library = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
    except (ConfigError, OSError, ValueError) as error:
        reason = str(error).removeprefix("encoder.name: ")
        raise BundleError(f"{name}: {reason}") from error
    special, pair = tokenizer.special, library("a", "b")
    ids, sides = pair["input_ids"], pair.sequence_ids()
    frame = [number if side is None else side for number, side in zip(ids, sides, strict=True)]
    if (
        frame != [special.cls, 0, special.sep, 1, special.sep]
        or library.pad_token_id != special.pad
    ):
        tokens = " ".join(library.convert_ids_to_tokens(ids))
        raise BundleError(
            f"{name}: its tokenizer frames a pair as {tokens} and pads with {library.pad_token}; "
            "a window is cls, prompt, sep, response, sep"
        )
    return tokenizer


def _check_context_positions(size: int, tokenizer: SegmentTokenizer) -> None:
    """Refuse windows that would leave too few positions for context."""
    fixed = Frame("lettucedetect", True, tokenizer.special, passages=1).positions
    left = size - size // QUESTION_SHARE - size // RESPONSE_SHARE - fixed
    if left < _MIN_CONTEXT:
        raise WindowError(
            f"window.size ({size} tokens): the prompt ({fixed} tokens), a long question and a long "
            f"response leave {left} for context; give --size {4 * (fixed + _MIN_CONTEXT)} or more"
        )
