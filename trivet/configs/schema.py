"""The typed training configuration: defaults here, overridden by YAML and command line.

``loading.load_config`` merges them; ranges are checked in each ``__post_init__``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from omegaconf import MISSING

from trivet.errors import ConfigError


class Init(Enum):
    """Source of the initial weights."""

    plain = "plain"  # encoder; random heads
    nli = "nli"  # sequence-classification checkpoint; its NLI head becomes the support head
    bundle = "bundle"  # trained bundle, heads included


class Faithfulness(Enum):
    """The part of a response that decides on its faithfulness."""

    weakest_token = "weakest_token"
    weakest_sentence = "weakest_sentence"
    two_weakest_sentences = "two_weakest_sentences"


class Trunk(Enum):
    """The part of the encoder that the heads share."""

    shared = "shared"  # the whole encoder
    separate = "separate"  # nothing: one encoder per head
    partial = "partial"  # embeddings and the lowest encoder.shared_layers layers


class Head(Enum):
    """Parts of a verdict, each with a head of its own."""

    support = "support"
    relevance = "relevance"
    utilization = "utilization"
    evidence = "evidence"


class Granularity(Enum):
    """The unit of a head's decision."""

    token = "token"
    example = "example"  # one decision per window; of the labels, support learns the verdict alone


class RunLogger(Enum):
    """Experiment trackers; each is an extra of the package."""

    tensorboard = "tensorboard"
    wandb = "wandb"
    mlflow = "mlflow"


class Precision(Enum):
    """Precision of the encoder; heads and losses are always fp32."""

    fp32 = "fp32"
    bf16 = "bf16"


@dataclass
class EncoderConfig:
    """The encoder and its initial weights."""

    name: str = MISSING  # folder or hub name; the bundle's folder for init: bundle
    init: Init = Init.plain
    source: str | None = None  # name in the model card; null: encoder.name
    licence: str = "unknown"
    attention_dropout: float | None = None  # null: the checkpoint's own
    hidden_dropout: float | None = None  # likewise
    head_dropout: float = 0.1
    exact_match_embedding: bool = False  # mark words that occur on both sides of a window
    split_digits: bool = False  # every digit is a token
    # Contexts and question do not see the response, so relevance does not depend on it; null: true,
    # but for bundles, which keep their own, and granularity: example, whose first token sees all.
    prefix_attention: bool | None = None
    trunk: Trunk = Trunk.shared
    shared_layers: int | None = None  # for trunk: partial; 1 to the encoder's layers - 1

    def __post_init__(self) -> None:
        fits = self.trunk is not Trunk.partial or (self.shared_layers or 0) >= 1
        must = "at least 1 for encoder.trunk: partial"
        _check(fits, "encoder.shared_layers", self.shared_layers, must)
        for key in ("attention_dropout", "hidden_dropout", "head_dropout"):
            value = getattr(self, key)
            _check(value is None or 0 <= value < 1, f"encoder.{key}", value, "in [0, 1)")


@dataclass
class WindowConfig:
    """Settings of the cut into windows; stored in the bundle."""

    size: int = 512
    stride_overlap: int = 0  # tokens shared by neighbouring windows
    # Window sizes, the last is size; each example uses the cheapest. Empty: size alone.
    sizes: list[int] = field(default_factory=list)
    # Context sentences for each response sentence in the evidence windows of examples of several
    # windows; 0: no such windows.
    evidence_sentences: int = 0
    # Examples of several windows are cut with those contexts first that share most words with
    # question and response.
    sort_contexts: bool = False

    def __post_init__(self) -> None:
        sizes = self.sizes
        rises = not sizes or (sorted({*sizes}) == sizes and sizes[-1] == self.size)
        _check(rises, "window.sizes", self.sizes, f"rising, the last window.size ({self.size})")
        _check(min(self.sizes, default=32) >= 32, "window.sizes", self.sizes, "32 tokens or more")
        _check(self.size >= 32, "window.size", self.size, "at least 32 tokens")
        shared = self.stride_overlap
        _check(0 <= shared < self.size, "window.stride_overlap", shared, "in [0, window.size)")
        count = self.evidence_sentences
        _check(count >= 0, "window.evidence_sentences", count, "at least 0")


@dataclass
class SourceConfig:
    """One source of training rows."""

    spec: str = MISSING  # ragbench:, ragtruth:, halubench: or jsonl:, followed by the place
    split: str = "fit"
    weight: float = 1.0  # factor on the weight of each row in the loss
    # Share of the rows that an epoch draws; all sources of data.train have one, or none has. An
    # epoch draws as many rows as there are: all of a source in turn before any of them again.
    share: float | None = None
    only: list[str] = field(default_factory=list)  # prefixes of sources; empty: all
    limit: int | None = None  # largest number of rows, drawn by the seed
    licence: str = "unknown"

    def __post_init__(self) -> None:
        _check(self.weight >= 0, "data.train.weight", self.weight, ">= 0")
        share = self.share
        _check(share is None or 0 < share <= 1, "data.train.share", share, "in (0, 1]")
        _check(self.limit is None or self.limit > 0, "data.train.limit", self.limit, "> 0")


@dataclass
class HeldOutConfig(SourceConfig):
    """Rows that the model will be tested on."""

    split: str = "test"


@dataclass
class AugmentConfig:
    """Probabilities of alterations of training rows, drawn anew in each epoch."""

    drop_contexts: float = 0.0  # some of several; spans without evidence become unsupported
    insert_contexts: float = 0.0  # from a row of another group
    shuffle: float = 0.0  # question and response from a row of another group
    permute_contexts: float = 0.0
    cut_response: float = 0.0  # after its first sentences
    empty_response: float = 0.0
    quote_contexts: float = 0.0  # sentences of the contexts as response
    twins: float = 0.0  # a changed copy beside the row

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            _check(0 <= value <= 1, f"data.augment.{key}", value, "a probability in [0, 1]")


@dataclass
class DataConfig:
    """Training rows, and dev rows that choose the checkpoint and the thresholds."""

    train: list[SourceConfig] = field(default_factory=list)
    dev: list[SourceConfig] = field(default_factory=list)
    # Rows whose groups, passages and questions must not be trained on: those of the later tests.
    test: list[HeldOutConfig] = field(default_factory=list)
    thresholds_from: list[str] = field(default_factory=list)  # prefixes of dev sources; empty: all
    use_evidence: bool = True  # labels per window where the evidence is known
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # for data.train only
    cache: str | None = None  # folder for prepared rows, which runs share; null: prepared anew

    def __post_init__(self) -> None:
        _check(bool(self.train), "data.train", self.train, "a list of at least one source")
        _check(bool(self.dev), "data.dev", self.dev, "a list of at least one source")
        shares = [source.share for source in self.train]
        if any(share is not None for share in shares):
            without = [source.spec for source in self.train if source.share is None]
            total = round(sum(share or 0.0 for share in shares), 6)
            fits = not without and total == 1
            must = f"of every source, and sum to 1 (they sum to {total}"
            must += f"; none has {', '.join(without)})" if without else ")"
            _check(fits, "data.train.share", shares, must)


@dataclass
class LossConfig:
    """Weights of the parts of the loss, >= 0."""

    window: float = 1.0  # support, evidence known
    token: float = 1.0  # support, tokens known
    sentence: float = 0.0  # support of sentences, tokens known
    verdict: float = 1.0  # joined faithfulness
    verdict_always: bool = False  # verdict loss also where tokens are known
    relevance: float = 1.0
    utilization: float = 1.0
    evidence: float = 1.0  # pairs of sentences
    share: float = 0.0  # squared error of an example's relevance and utilization
    learned: bool = False  # further weight of each head, learned from its uncertainty
    learned_lr: float = 1e-3  # learning rate of these weights' logarithms

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            if key not in ("verdict_always", "learned", "learned_lr"):
                _check(value >= 0, f"loss.{key}", value, ">= 0")
        _check(self.learned_lr > 0, "loss.learned_lr", self.learned_lr, "> 0")

    def of_head(self, name: str) -> float:
        """Return the sum of the weights of a head's losses."""
        if name == "support":
            return self.window + self.token + self.sentence + self.verdict
        return float(getattr(self, name)) + (0 if name == "evidence" else self.share)


@dataclass
class DistillConfig:
    """Distillation: a bundle's logits on the same windows are targets, also without labels."""

    teacher: str | None = None  # folder or name of the bundle; null: none
    weight: float = 1.0  # of the loss of each trained head that the teacher has
    fade: bool = False  # the weight falls linearly over the steps, to 0 at the end
    heads: list[Head] = field(default_factory=list)  # that it teaches; empty: all that it has

    def __post_init__(self) -> None:
        _check(self.weight > 0, "distill.weight", self.weight, "> 0")


@dataclass
class OptimConfig:
    """AdamW with linear warm-up and decay."""

    encoder_lr: float = 5e-6  # 0: the encoder stays as it is
    head_lr: float = 2e-5
    weight_decay: float = 0.01
    warmup_share: float = 0.06
    clip: float = 1.0  # largest norm of the gradient
    epochs: int = 3
    max_steps: int = -1  # -1: no limit but the epochs
    ema_decay: float = 0.0  # of averaged weights, which dev measures and the bundle gets; 0: none
    compute_of: Trunk | None = None  # scale steps to the compute of this trunk; null: do not
    batch_windows: int = 16  # windows per batch; an example with more is one batch
    # windows per call of the encoder; null: 1.5 batch_windows, which holds a batch with its twins
    call_windows: int | None = None
    checkpoint_layers: bool = False  # keep only the inputs of layers for the backward pass
    compile: bool = False  # torch.compile of the encoder's layers

    @property
    def most_windows(self) -> int:
        """Most windows of one call of the encoder."""
        return self.call_windows or self.batch_windows * 3 // 2

    def __post_init__(self) -> None:
        for key in ("head_lr", "clip", "epochs", "batch_windows"):
            value = getattr(self, key)
            _check(value > 0, f"optim.{key}", value, "> 0")
        calls = self.call_windows
        _check(calls is None or calls > 0, "optim.call_windows", calls, "> 0")
        for key in ("encoder_lr", "weight_decay"):
            _check(getattr(self, key) >= 0, f"optim.{key}", getattr(self, key), ">= 0")
        _check(0 <= self.ema_decay < 1, "optim.ema_decay", self.ema_decay, "in [0, 1)")
        steps = self.max_steps
        _check(steps == -1 or steps > 0, "optim.max_steps", steps, "-1 or > 0")
        _check(0 <= self.warmup_share <= 1, "optim.warmup_share", self.warmup_share, "in [0, 1]")


@dataclass
class RunConfig:
    """Folder, device and logging of a run."""

    folder: str = MISSING  # for checkpoints, logs and the bundle
    name: str = "trivet"  # name of the bundle
    seed: int = 0
    precision: Precision = Precision.fp32
    accelerator: str = "auto"
    devices: int = 1  # each of several processes a share of the batches
    memory_gib: float | None = None  # of a device; larger runs are refused; null: the GPU's
    workers: int = 0  # processes that prepare batches; 0: the training process
    checks_per_epoch: int = 1  # validations per epoch
    checkpoint_minutes: float = 10.0
    log_steps: int = 10
    loggers: list[RunLogger] = field(default_factory=list)  # in addition to the CSV file
    gradient_cosine_steps: int = 0  # steps between logs of the heads' gradient cosines; 0: never

    def __post_init__(self) -> None:
        for key in ("checks_per_epoch", "checkpoint_minutes", "log_steps", "devices"):
            value = getattr(self, key)
            _check(value > 0, f"run.{key}", value, "> 0")
        for key in ("workers", "gradient_cosine_steps"):
            _check(getattr(self, key) >= 0, f"run.{key}", getattr(self, key), ">= 0")


@dataclass
class TrainConfig:
    """The whole configuration of ``trivet train``."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    window: WindowConfig = field(default_factory=WindowConfig)
    data: DataConfig = field(default_factory=lambda: DataConfig([SourceConfig()], [SourceConfig()]))
    loss: LossConfig = field(default_factory=LossConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig = field(default_factory=RunConfig)
    faithfulness: Faithfulness = Faithfulness.weakest_sentence
    granularity: Granularity = Granularity.token
    heads: list[Head] = field(default_factory=lambda: list(Head)[:3])  # all but evidence

    def __post_init__(self) -> None:
        named = [head.value for head in self.heads]
        once = 0 < len(named) == len(set(named))
        _check(once, "heads", named, f"at least one of {', '.join(Head.__members__)}, once")
        if self.optim.compute_of is Trunk.partial and self.encoder.shared_layers is None:
            raise ConfigError("optim.compute_of (partial) must be used with encoder.shared_layers")
        weights = {name: self.loss.of_head(name) for name in named}
        _check(any(weights.values()), "loss", weights, "above 0 for at least one of the heads")


def _check(holds: bool, key: str, value: object, must: str) -> None:
    if not holds:
        raise ConfigError(f"{key} ({value}) must be {must}")
