"""The typed training configuration: defaults here, overridden by YAML and command line.

``loading.load_config`` merges them. Each field holds its own description and range;
``trivet train --keys`` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Literal

from omegaconf import MISSING

from trivet.errors import ConfigError
from trivet.heads import DEFAULT_HEADS, HEAD_NAMES, HEADS, HeadName
from trivet.model.architecture import Granularity, Reduction, TrunkKind
from trivet.settings import Setting, check_ranges

_factor = partial(Setting, least=0)
_count = partial(Setting, least=1)
_share = partial(Setting, least=0, most=1)
_dropout = partial(Setting, least=0, below=1)


# ``nli``: a sequence-classification checkpoint, whose NLI head becomes the support head;
# ``bundle``: a trained one, heads included.
Init = Literal["plain", "nli", "bundle"]
RunLogger = Literal["tensorboard", "wandb", "mlflow"]
Precision = Literal["fp32", "bf16"]  # of the encoder; heads and losses are always fp32


@dataclass
class EncoderConfig:
    """The encoder and its initial weights."""

    name: Annotated[str, Setting("Folder or hub name; for init: bundle the bundle's.")] = MISSING
    init: Annotated[Init, Setting("Source of the initial weights.")] = "plain"
    source: Annotated[str | None, Setting("Name in the model card; null: encoder.name.")] = None
    licence: Annotated[str, Setting("Licence of the weights, for the model card.")] = "unknown"
    attention_dropout: Annotated[float | None, _dropout("Null: the checkpoint's own.")] = None
    hidden_dropout: Annotated[float | None, _dropout("Null: the checkpoint's own.")] = None
    head_dropout: Annotated[float, _dropout("Dropout before each head's classifier.")] = 0.1
    exact_match_embedding: Annotated[
        bool, Setting("Mark words that occur on both sides of a window.")
    ] = False
    # A first token that sees all decides for granularity: example.
    prefix_attention: Annotated[
        bool | None,
        Setting(
            "Contexts and question do not see the response, so relevance does not depend on it; "
            "null: true, but for bundles, which keep their own, and granularity: example."
        ),
    ] = None
    trunk: Annotated[TrunkKind, Setting("Sharing of the encoder among heads.")] = "shared"
    shared_layers: Annotated[int | None, Setting("Lowest layers shared, for trunk: partial.")] = (
        None
    )

    def __post_init__(self) -> None:
        check_ranges(self, "encoder.")
        fits = self.trunk != "partial" or (self.shared_layers or 0) >= 1
        must = "at least 1 for encoder.trunk: partial"
        _check(fits, "encoder.shared_layers", self.shared_layers, must)


@dataclass
class WindowConfig:
    """Settings of the cut into windows; stored in the bundle."""

    size: Annotated[int, Setting("Most tokens of a window.", least=32)] = 512
    stride_overlap: Annotated[int, _factor("Tokens shared by neighbouring windows.")] = 0
    evidence_sentences: Annotated[
        int,
        _factor(
            "Context sentences for each response sentence in the evidence windows of examples of "
            "several windows; 0: no such windows."
        ),
    ] = 0
    sort_contexts: Annotated[
        bool,
        Setting(
            "Examples of several windows are cut with those contexts first that share most words "
            "with question and response."
        ),
    ] = False

    def __post_init__(self) -> None:
        check_ranges(self, "window.")
        shared = self.stride_overlap
        _check(shared < self.size, "window.stride_overlap", shared, "below window.size")


@dataclass
class SourceConfig:
    """One source of training rows."""

    spec: Annotated[
        str, Setting("ragbench:, ragtruth:, halubench: or jsonl:, followed by the place.")
    ] = MISSING
    split: Annotated[str, Setting("Split of the rows.")] = "fit"
    weight: Annotated[float, _factor("Factor on the weight of each row in the loss.")] = 1.0
    share: Annotated[
        float | None,
        Setting(
            "Share of the rows that an epoch draws; all sources of data.train have one, or none "
            "has. An epoch draws as many rows as there are: all of a source in turn before any of "
            "them again.",
            above=0,
            most=1,
        ),
    ] = None
    only: Annotated[list[str], Setting("Prefixes of sources; empty: all.")] = field(
        default_factory=list
    )
    limit: Annotated[int | None, _count("Most rows, drawn by the seed; null: all.")] = None
    licence: Annotated[str, Setting("Licence of the rows, for the model card.")] = "unknown"

    def __post_init__(self) -> None:
        check_ranges(self, "data.train.")


@dataclass
class HeldOutConfig(SourceConfig):
    """Rows that the model will be tested on."""

    split: Annotated[str, Setting("Split of the rows.")] = "test"


@dataclass
class AugmentConfig:
    """Probabilities of alterations of training rows, drawn anew in each epoch."""

    drop_contexts: Annotated[
        float, _share("Contexts left out; spans without evidence become unsupported.")
    ] = 0.0
    insert_contexts: Annotated[float, _share("A context from a row of another group.")] = 0.0
    shuffle: Annotated[float, _share("Question and response of a row of another group.")] = 0.0
    permute_contexts: Annotated[float, _share("Contexts in another order.")] = 0.0
    cut_response: Annotated[float, _share("A response cut after its first sentences.")] = 0.0
    empty_response: Annotated[float, _share("No response.")] = 0.0
    quote_contexts: Annotated[float, _share("Sentences of the contexts as response.")] = 0.0
    twins: Annotated[float, _share("A changed copy in addition to a model's right answer.")] = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, "data.augment.")


@dataclass
class DataConfig:
    """Training rows, and dev rows that choose the checkpoint and the thresholds."""

    train: Annotated[list[SourceConfig], Setting("Sources of training rows.")] = field(
        default_factory=list
    )
    dev: Annotated[list[SourceConfig], Setting("Sources that choose.")] = field(
        default_factory=list
    )
    test: Annotated[
        list[HeldOutConfig],
        Setting("Rows of later tests; their groups, passages, questions are not trained on."),
    ] = field(default_factory=list)
    part: Annotated[
        float,
        Setting(
            "Part of the groups of data.train that is read, the same ones in every run; the rows "
            "of a short run are so prepared in minutes.",
            above=0,
            most=1,
        ),
    ] = 1.0
    exclude_licences: Annotated[
        list[str],
        Setting(
            "Words, such as research or NC, of licences whose sources of data.train are left out; "
            "the shares of the others rise alike."
        ),
    ] = field(default_factory=list)
    thresholds_from: Annotated[list[str], Setting("Prefixes of dev sources; empty: all.")] = field(
        default_factory=list
    )
    use_evidence: Annotated[bool, Setting("Labels per window where the evidence is known.")] = True
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    cache: Annotated[
        str | None, Setting("Folder of prepared rows that runs share; null: prepared anew.")
    ] = None

    def __post_init__(self) -> None:
        check_ranges(self, "data.")
        if self.exclude_licences:
            self._exclude()
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

    def _exclude(self) -> None:
        words = self.exclude_licences
        kept = [s for s in self.train if not any(word in s.licence for word in words)]
        _check(bool(kept), "data.exclude_licences", words, "such that a source of data.train stays")
        total = sum(source.share or 0.0 for source in kept)
        self.train = [
            source if source.share is None else replace(source, share=source.share / total)
            for source in kept
        ]


@dataclass
class LossConfig:
    """Weights of the parts of the loss."""

    window: Annotated[float, _factor("Support per window, where evidence is known.")] = 1.0
    token: Annotated[float, _factor("Support of tokens.")] = 1.0
    verdict: Annotated[float, _factor("Joined faithfulness.")] = 1.0
    verdict_always: Annotated[bool, Setting("Verdict loss also where tokens are known.")] = False
    relevance: Annotated[float, _factor("Relevance of context sentences.")] = 1.0
    utilization: Annotated[float, _factor("Utilization of context sentences.")] = 1.0
    evidence: Annotated[float, _factor("Pairs of sentences.")] = 1.0
    opposites: Annotated[
        float, _factor("Order of a right and a wrong response to the same contexts.")
    ] = 0.0
    similarity: Annotated[
        float,
        _factor(
            "Squared error of the similarity of question and context sentences, whose targets are "
            "the cosines of the plain encoder; nothing without the evidence head."
        ),
    ] = 0.0
    share: Annotated[float, _factor("Squared error of an example's relevance and utilization.")] = (
        0.0
    )

    def __post_init__(self) -> None:
        check_ranges(self, "loss.")

    def of_head(self, name: HeadName) -> float:
        """Return the sum of the weights of a head's losses."""
        return sum(float(getattr(self, weight)) for weight in HEADS[name].weights)


@dataclass
class DistillConfig:
    """Distillation: a bundle's logits on the same windows are targets, also without labels."""

    teacher: Annotated[str | None, Setting("Folder or name of a bundle; null: none.")] = None
    weight: Annotated[
        float, Setting("Weight of the loss of each trained head that the teacher has.", above=0)
    ] = 1.0
    heads: Annotated[list[HeadName], Setting("Heads that it teaches; empty: all that it has.")] = (
        field(default_factory=list)
    )
    retriever: Annotated[
        str | None,
        Setting("Encoder whose cosines are targets of loss.similarity; null: encoder.name."),
    ] = None

    def __post_init__(self) -> None:
        check_ranges(self, "distill.")


@dataclass
class OptimConfig:
    """AdamW with linear warm-up and decay."""

    encoder_lr: Annotated[float, _factor("0: the encoder stays as it is.")] = 5e-6
    head_lr: Annotated[float, Setting("Learning rate of heads.", above=0)] = 2e-5
    weight_decay: Annotated[float, _factor("Weight decay of matrices.")] = 0.01
    warmup_share: Annotated[float, _share("Share of the steps in which the rate rises.")] = 0.06
    clip: Annotated[float, Setting("Largest norm of the gradient.", above=0)] = 1.0
    epochs: Annotated[int, _count("Passes over as many rows as there are.")] = 3
    max_steps: Annotated[int, Setting("-1: no limit but the epochs.", least=-1)] = -1
    ema_decay: Annotated[
        float,
        _dropout("Decay of averaged weights, which dev measures and the bundle gets; 0: none."),
    ] = 0.0
    batch_windows: Annotated[int, _count("Windows of a batch; a longer example is one batch.")] = 16
    call_windows: Annotated[int, _count("Windows of like length per call of the encoder.")] = 8
    checkpoint_layers: Annotated[
        bool, Setting("Keep only the inputs of layers for the backward pass.")
    ] = False
    compile: Annotated[bool, Setting("torch.compile of the encoder's layers.")] = False

    def __post_init__(self) -> None:
        check_ranges(self, "optim.")
        _check(self.max_steps != 0, "optim.max_steps", 0, "-1 or above 0")


@dataclass
class RunConfig:
    """Folder, device and logging of a run."""

    folder: Annotated[str, Setting("For checkpoints, logs and the bundle.")] = MISSING
    name: Annotated[str, Setting("Name of the bundle.")] = "trivet"
    seed: Annotated[int, Setting("Seed of weights, order, augmentation and dropout.")] = 0
    precision: Annotated[Precision, Setting("Precision of the encoder.")] = "fp32"
    accelerator: Annotated[str, Setting("Lightning's name of the device's kind.")] = "auto"
    devices: Annotated[int, _count("Processes, each with a share of the batches.")] = 1
    workers: Annotated[int, _factor("Processes that prepare batches; 0: the training's own.")] = 0
    checks_per_epoch: Annotated[int, _count("Validations per epoch.")] = 1
    checkpoint_minutes: Annotated[float, Setting("Minutes between checkpoints.", above=0)] = 10.0
    log_steps: Annotated[int, _count("Steps between lines of the log.")] = 10
    loggers: Annotated[list[RunLogger], Setting("In addition to the CSV file.")] = field(
        default_factory=list
    )
    gradient_cosine_steps: Annotated[
        int, _factor("Steps between logs of the heads' gradient cosines; 0: never.")
    ] = 0

    def __post_init__(self) -> None:
        check_ranges(self, "run.")


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
    faithfulness: Annotated[Reduction, Setting("Part of a response that decides.")] = (
        "weakest_sentence"
    )
    granularity: Annotated[Granularity, Setting("Unit of a head's decision.")] = "token"
    heads: Annotated[list[HeadName], Setting("Heads of the model; default: all but evidence.")] = (
        field(default_factory=lambda: list(DEFAULT_HEADS))
    )

    def __post_init__(self) -> None:
        once = 0 < len(self.heads) == len(set(self.heads))
        _check(once, "heads", self.heads, f"at least one of {', '.join(HEAD_NAMES)}, once")
        weights = {name: self.loss.of_head(name) for name in self.heads}
        _check(any(weights.values()), "loss", weights, "above 0 for at least one of the heads")
        similar = self.loss.similarity
        known = self.encoder.init == "plain" or self.distill.retriever is not None
        fits = "evidence" not in self.heads or (known and not self.window.stride_overlap)
        must = "0 unless encoder.init is plain or distill.retriever given, and stride_overlap is 0"
        _check(not similar or fits, "loss.similarity", similar, must)


def _check(holds: bool, key: str, value: object, must: str) -> None:
    if not holds:
        raise ConfigError(f"{key} ({value}) must be {must}")
