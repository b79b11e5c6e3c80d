"""Training under the LightningCLI: model and data of a training configuration."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache, partial

from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from trivet.configs.loading import as_plain
from trivet.configs.schema import TrainConfig
from trivet.labelled.augmentation.augment import Augmentation
from trivet.labelled.datamodule import RagData
from trivet.train import configured_model, configured_teacher
from trivet.training.lightning_module import RagTraining
from trivet.training.trained_bundle import keep_own_heads
from trivet.training.training_rows import prepared_rows, row_preparation


class CliTraining(RagTraining):
    """``RagTraining`` of the model that a configuration names.

    Args:
        config: Configuration, as of ``trivet train``; ``run`` and the epochs are the trainer's,
            except for ``run.seed`` and ``run.workers``.
    """

    def __init__(self, config: TrainConfig) -> None:
        config = keep_own_heads(config)
        model, tokenizer = configured_model(config)
        teacher = configured_teacher(config, model, tokenizer)
        super().__init__(model, config.loss, config.optim, config.run.seed, teacher=teacher)
        self.config, self.tokenizer = config, tokenizer
        # The CLI reads the arguments of this class back from a checkpoint.
        self.hparams.clear()
        self.save_hyperparameters({"config": as_plain(config)})


def cli_data(training: CliTraining) -> RagData:
    """Return the data of the model's configuration, read when a stage begins; dev is the test."""
    config, tokenizer = training.config, training.tokenizer
    lay_out = row_preparation(config, tokenizer)
    rows = lru_cache(partial(prepared_rows, config, lay_out))
    return RagData(
        lambda: rows()[0],
        lambda: rows()[1],
        tokenizer.special.pad,
        config.optim.batch_windows,
        config.run.seed,
        Augmentation(**vars(config.data.augment)),
        lay_out,
        test=lambda: rows()[1],
        workers=config.run.workers,
    )


class _Cli(LightningCLI):
    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.link_arguments("model", "data.training", apply_on="instantiate")
        parser.set_defaults({"trainer.use_distributed_sampler": False})  # the data share batches


def run(arguments: Sequence[str]) -> None:
    """Run the LightningCLI.

    Args:
        arguments: Command line: ``fit``, ``validate``, ``test`` or ``predict``, and options.
    """
    with warnings.catch_warnings():
        # sys.argv stays as it was typed, because Lightning starts further processes by it.
        warnings.filterwarnings("ignore", "LightningCLI's args parameter is intended")
        _Cli(
            CliTraining,
            cli_data,
            args=list(arguments),
            parser_kwargs={"prog": "trivet lightning"},
            seed_everything_default=0,
        )
