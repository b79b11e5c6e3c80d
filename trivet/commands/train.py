"""``trivet train``: train a model from a configuration."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

from trivet.commands.options import options
from trivet.commands.shared import needs_extra, quiet_lightning, what_was_typed
from trivet.settings import Setting


@options
def train(
    configs_and_overrides: Annotated[
        list[str],
        Setting("Configuration files and values; later ones win.", "CONFIG.yaml... [KEY=VALUE]..."),
    ],
    *,
    resume: Annotated[bool, Setting("Continue from the last checkpoint.")] = False,
    dry_run: Annotated[bool, Setting("Print parameters, steps and memory; train nothing.")] = False,
) -> None:
    """Train a model, write its bundle and print the bundle's folder."""
    configs = [Path(word) for word in configs_and_overrides if "=" not in word]
    overrides = [word for word in configs_and_overrides if "=" in word]
    with needs_extra("train"):
        from trivet.configs.loading import load_config
        from trivet.train import plan
        from trivet.train import train as run_training
    quiet_lightning()
    config = load_config(configs, overrides)
    if dry_run:
        print(plan(config))
        return
    if not sys.stderr.isatty():  # log lines instead of a progress bar
        logging.getLogger("trivet").setLevel(logging.INFO)
    bundle = run_training(config, resume=resume, command=what_was_typed())
    if os.environ.get("LOCAL_RANK", "0") == "0":  # only one of several processes prints
        print(bundle)
