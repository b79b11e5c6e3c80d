"""Models from a local folder or the hub: safetensors only, and no code of theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoTokenizer
from transformers.utils.hub import cached_file

from trivet.bundle.checkpoint import find_checkpoint, load_checkpoint
from trivet.errors import ConfigError

FloatArray: TypeAlias = NDArray[np.float64]
Head: TypeAlias = Callable[[Any, dict[str, Tensor]], Tensor]


class TextModel:
    """A model that gives a vector for each text or pair of texts."""

    def __init__(self, model: Any, about: str, tokenizer: Any, head: Head, longest: int) -> None:
        """Take a loaded model; ``longest`` is the maximum number of tokens that it reads."""
        self.about = about
        self._model = model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
        self._tokenizer, self._head, self._longest = tokenizer, head, longest

    def read(self, texts: Sequence[str | tuple[str, str]]) -> FloatArray:
        """Return the head's output for each text; a first text that is too long is truncated.

        *Shape:* [n, ...].
        """
        return np.stack(
            [self._read(text if isinstance(text, tuple) else (text,)) for text in texts]
        )

    def _read(self, texts: tuple[str, ...]) -> FloatArray:
        batch = self._tokenizer(
            *texts, truncation="only_first", max_length=self._longest, return_tensors="pt"
        ).to(self._model.device)
        with torch.inference_mode():
            output: FloatArray = self._head(self._model, dict(batch))[0].double().cpu().numpy()
        return output


def load_text_model(auto: Any, name: str, head: Head, longest: int = 512) -> TextModel:
    """Load a model and its tokenizer from a folder, ``org/name`` or ``org/name@revision``.

    Weights that cannot be read, are not safetensors or lack a tensor are a ``ConfigError``.
    """
    folder, revision = find_checkpoint(name)
    with refusing(name):
        model = load_checkpoint(auto, folder, revision, unread="pooler")  # the mean reads none
    commit = getattr(model.config, "_commit_hash", None) or digest_weights(Path(folder))
    return TextModel(model, f"{name} {commit}", load_part(AutoTokenizer, name), head, longest)


def load_part(auto: Any, name: str) -> Any:
    """Load a tokenizer or a configuration, or raise a ``ConfigError``."""
    folder, revision = find_checkpoint(name)
    with refusing(name):
        return auto.from_pretrained(folder, revision=revision, trust_remote_code=False)


def find_file(name: str, file: str) -> Path:
    """Return a file of a model, from its folder or the hub's cache."""
    folder, revision = find_checkpoint(name)
    with refusing(name):
        return Path(str(cached_file(folder, file, revision=revision)))


def digest_weights(folder: Path) -> str:
    """Return the commit of a folder in the hub's cache, else a digest of weights and settings."""
    if folder.parent.name == "snapshots":
        return folder.name
    whole = hashlib.sha256()
    for file in sorted(f for form in ("*.safetensors", "*.json") for f in folder.glob(form)):
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()[:12]


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turn the errors of a library that loads a model into a ``ConfigError``."""
    try:
        yield
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(f"model {name!r} cannot be loaded: {reason}") from error
