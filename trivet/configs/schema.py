"""The typed configuration: these dataclasses are the truth, YAML and command line override them.

``load_config`` merges, refuses unknown keys and wrong types by name, and then runs the checks of
ranges and combinations that stand in each ``__post_init__``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from trivet.configs.nearest_key import nearest_keys
from trivet.records import ConfigError


class Init(Enum):
    """Where the weights start from."""

    plain = "plain"  # an encoder; the heads are random
    nli = "nli"  # a sequence-classification checkpoint; its NLI head becomes the support head
    bundle = "bundle"  # a bundle that was trained before, heads included


class Faithfulness(Enum):
    """Which part of a response decides on it."""

    weakest_token = "weakest_token"
    weakest_sentence = "weakest_sentence"


class Trunk(Enum):
    """What the heads share of the encoder."""

    shared = "shared"  # all of it
    separate = "separate"  # nothing: one whole encoder a head
    partial = "partial"  # the embeddings and the lower encoder.shared_layers layers


class Granularity(Enum):
    """What a head decides on."""

    token = "token"
    example = "example"  # once a window, from its first position; the verdict alone teaches support


class RunLogger(Enum):
    """Where a run is told of, each an extra of the package by that name."""

    tensorboard = "tensorboard"
    wandb = "wandb"
    mlflow = "mlflow"


class Precision(Enum):
    """What the encoder computes in; the heads and the losses are always fp32."""

    fp32 = "fp32"
    bf16 = "bf16"


@dataclass
class EncoderConfig:
    """The encoder and where its weights come from."""

    name: str = MISSING  # a folder or a hub name; a bundle's folder for init: bundle
    init: Init = Init.plain
    source: str | None = None  # what the model card calls it; null: the name
    licence: str = "unknown"
    attention_dropout: float | None = None  # null keeps the checkpoint's own
    head_dropout: float = 0.1
    matches: bool = False  # tell the encoder which words stand on both sides of a window
    trunk: Trunk = Trunk.shared
    shared_layers: int | None = None  # read by trunk: partial alone; 1 to the encoder's layers - 1

    def __post_init__(self) -> None:
        _check(
            self.trunk is not Trunk.partial or (self.shared_layers or 0) >= 1,
            "encoder.shared_layers",
            self.shared_layers,
            "at least 1 for encoder.trunk: partial",
        )
        for key in ("attention_dropout", "head_dropout"):
            value = getattr(self, key)
            _check(value is None or 0 <= value < 1, f"encoder.{key}", value, "in [0, 1)")


@dataclass
class WindowConfig:
    """How long inputs are cut; stored in the bundle."""

    size: int = 512
    overlap: int = 0
    # Lengths of which each example takes the cheapest, size the last; empty: size alone.
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        rises = not self.sizes or sorted({*self.sizes, self.size}) == self.sizes
        _check(rises, "window.sizes", self.sizes, f"rising, the last window.size ({self.size})")
        _check(min(self.sizes, default=32) >= 32, "window.sizes", self.sizes, "32 tokens or more")
        _check(self.size >= 32, "window.size", self.size, "at least 32 tokens")
        _check(0 <= self.overlap < self.size, "window.overlap", self.overlap, "in [0, window.size)")


@dataclass
class SourceConfig:
    """One source of training rows."""

    spec: str = MISSING  # ragbench:, ragtruth:, halubench: or jsonl:, and where it is
    split: str = "fit"
    weight: float = 1.0  # multiplies the weight of each row in the loss
    only: list[str] = field(default_factory=list)  # sources by prefix; empty: all of the file's
    limit: int | None = None  # at most so many rows, chosen by the seed
    licence: str = "unknown"

    def __post_init__(self) -> None:
        _check(self.weight >= 0, "data.train.weight", self.weight, ">= 0")
        _check(self.limit is None or self.limit > 0, "data.train.limit", self.limit, "> 0")


@dataclass
class AugmentConfig:
    """How probable each alteration of a training row is; drawn anew in each epoch."""

    drop_contexts: float = 0.0  # some of several; what loses its evidence becomes unsupported
    insert_contexts: float = 0.0  # of a row of another group
    shuffle: float = 0.0  # the question and the response of a row of another group
    permute_contexts: float = 0.0
    cut_response: float = 0.0  # to its first sentences
    empty_response: float = 0.0

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            _check(0 <= value <= 1, f"data.augment.{key}", value, "a probability in [0, 1]")


@dataclass
class DataConfig:
    """What is trained on, and what chooses."""

    train: list[SourceConfig] = field(default_factory=list)
    dev: list[SourceConfig] = field(default_factory=list)
    thresholds_from: list[str] = field(default_factory=list)  # sources by prefix; empty: all of dev
    use_evidence: bool = True  # per-window labels where the evidence is known
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of data.train alone

    def __post_init__(self) -> None:
        _check(bool(self.train), "data.train", self.train, "a list of at least one source")
        _check(bool(self.dev), "data.dev", self.dev, "a list of at least one source")


@dataclass
class LossConfig:
    """Weight of each part of the loss, >= 0; logged each by its own name."""

    window: float = 1.0  # support, evidence known
    token: float = 1.0  # support, tokens known
    verdict: float = 1.0  # the joined faithfulness
    verdict_always: bool = False  # also where tokens are known
    relevance: float = 1.0
    utilization: float = 1.0
    share: float = 0.0  # squared error of an example's relevance and utilization
    unsupported_weight: float = 1.0  # of an unsupported token beside a supported one
    learned: bool = False  # each head's sum is weighted once more, by its learned uncertainty
    learned_lr: float = 1e-3  # of these weights' logarithms

    def __post_init__(self) -> None:
        for key in (
            "window",
            "token",
            "verdict",
            "relevance",
            "utilization",
            "share",
            "unsupported_weight",
        ):
            value = getattr(self, key)
            _check(value >= 0, f"loss.{key}", value, ">= 0")
        _check(self.learned_lr > 0, "loss.learned_lr", self.learned_lr, "> 0")


@dataclass
class OptimConfig:
    """AdamW with linear warm-up and decay."""

    encoder_lr: float = 5e-6
    head_lr: float = 2e-5
    weight_decay: float = 0.01
    warmup_share: float = 0.06
    clip: float = 1.0  # of the gradient's norm
    epochs: int = 3
    max_steps: int = -1  # -1: as many as the epochs hold
    batch_windows: int = 16  # an example with more windows is a batch of its own
    call_windows: int | None = None  # the encoder reads at most so many at once; null: a batch's

    def __post_init__(self) -> None:
        for key in ("encoder_lr", "head_lr", "clip", "epochs", "batch_windows"):
            value = getattr(self, key)
            _check(value > 0, f"optim.{key}", value, "> 0")
        calls = self.call_windows
        _check(calls is None or calls > 0, "optim.call_windows", calls, "> 0")
        _check(self.weight_decay >= 0, "optim.weight_decay", self.weight_decay, ">= 0")
        _check(
            self.max_steps == -1 or self.max_steps > 0,
            "optim.max_steps",
            self.max_steps,
            "-1 or > 0",
        )
        _check(0 <= self.warmup_share <= 1, "optim.warmup_share", self.warmup_share, "in [0, 1]")


@dataclass
class RunConfig:
    """Where and how the run goes."""

    folder: str = MISSING  # checkpoints, logs and the bundle
    name: str = "trivet"  # of the bundle
    seed: int = 0
    precision: Precision = Precision.fp32
    accelerator: str = "auto"
    devices: int = 1  # more than one: each has its share of the batches
    checks_per_epoch: int = 1  # how often dev is judged
    checkpoint_minutes: float = 10.0
    log_steps: int = 10
    loggers: list[RunLogger] = field(default_factory=list)  # beside the CSV file
    gradient_cosine_steps: int = 0  # log every n steps how the heads' gradients agree; 0: never

    def __post_init__(self) -> None:
        for key in ("checks_per_epoch", "checkpoint_minutes", "log_steps", "devices"):
            value = getattr(self, key)
            _check(value > 0, f"run.{key}", value, "> 0")
        steps = self.gradient_cosine_steps
        _check(steps >= 0, "run.gradient_cosine_steps", steps, ">= 0")


@dataclass
class TrainConfig:
    """Everything ``trivet train`` can be told."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    window: WindowConfig = field(default_factory=WindowConfig)
    data: DataConfig = field(default_factory=lambda: DataConfig([SourceConfig()], [SourceConfig()]))
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig = field(default_factory=RunConfig)
    faithfulness: Faithfulness = Faithfulness.weakest_sentence
    granularity: Granularity = Granularity.token


def load_config(paths: Sequence[Path], overrides: Sequence[str] = ()) -> TrainConfig:
    """Merge YAML files and ``key=value`` overrides, later ones winning, onto the defaults.

    A path that does not exist but is the name of a file beside this one means that file.

    Raises:
        ConfigError: A file cannot be read, a key does not exist, a value has the wrong type or is
            out of range, or a value that must be given is missing. The message names the key.
    """
    try:
        merged = OmegaConf.merge(
            OmegaConf.structured(TrainConfig),
            *(OmegaConf.load(_find(path)) for path in paths),
            OmegaConf.from_dotlist(list(overrides)),
        )
        missing = sorted(OmegaConf.missing_keys(merged))
        if missing:
            raise ConfigError(
                f"{', '.join(missing)}: must be given, in a file or as key=value when called"
            )
        config = OmegaConf.to_object(merged)
    except ConfigKeyError as error:
        key = str(error.full_key or error.key)
        near = nearest_keys(key, TrainConfig)
        hint = f"; the nearest: {', '.join(near)}" if near else ""
        raise ConfigError(f"{key}: there is no such key{hint}") from error
    except OmegaConfBaseException as error:
        said = str(error.msg or error).splitlines()[0]  # the rest repeats the key and the types
        raise ConfigError(f"{error.full_key or 'configuration'}: {said}") from error
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {error.strerror}") from error
    except ConfigError:
        raise
    except Exception as error:  # a YAML parser's own errors
        raise ConfigError(f"configuration cannot be read: {error}") from error
    assert isinstance(config, TrainConfig)
    return config


def dump_config(config: TrainConfig) -> str:
    """Return the whole configuration as YAML, to be stored beside a run."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def _find(path: Path) -> Path:
    shipped = sorted(Path(__file__).parent.glob("*.yaml"))
    if path.exists():
        return path
    for file in shipped:
        if path.name == str(path) and path.stem == file.stem:
            return file
    names = ", ".join(file.name for file in shipped)
    raise ConfigError(f"{path}: no such file, and not one of those that come along: {names}")


def _check(holds: bool, key: str, value: object, must: str) -> None:
    if not holds:
        raise ConfigError(f"{key} ({value}) must be {must}")
