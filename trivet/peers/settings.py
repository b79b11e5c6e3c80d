"""Settings of a comparison; the options of ``trivet compare`` are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from trivet.batch.settings import Shard, ShardOption
from trivet.llm.settings import BaseUrlOption, ConcurrencyOption, MaxDollarsOption
from trivet.peers.peer import PEERS
from trivet.settings import RestartOption, Setting, SplitOption, ThreadsOption

_llm = partial(Setting, panel="Language model")


@dataclass(frozen=True)
class ComparisonSettings:
    """Rows, peers and the folder of a comparison, and the calls of language models."""

    rows: Annotated[
        list[str], Setting("Labelled rows, as for `trivet test`. Repeatable.", "--data", "SPEC")
    ]
    out: Annotated[Path, Setting("Folder of the predictions and the comparison.", panel="Output")]
    peers: Annotated[str, Setting(f"Peers with commas between, of {', '.join(sorted(PEERS))}.")] = (
        ""
    )
    split: SplitOption = "all"
    predictions: Annotated[
        list[str] | None,
        Setting("Scores of another tool, by row id. Repeatable.", metavar="NAME=FILE:COLUMN"),
    ] = None
    dev: Annotated[
        list[str] | None,
        Setting("Labelled rows that tfidf is fitted on. Repeatable.", metavar="SPEC"),
    ] = None
    dev_split: Annotated[str, Setting("Split of --dev.")] = "fit"
    limit: Annotated[
        int | None, Setting("Most rows, drawn at random by --seed.", metavar="N", least=1)
    ] = None
    seed: Annotated[int, Setting("Seed of draws, fits and resamples.", least=0)] = 0
    repeats: Annotated[int, Setting("Times that a row is scored.", least=1)] = 1
    restart: RestartOption = False
    shard: ShardOption = field(default_factory=Shard)
    model: Annotated[str, _llm("Model of LLM peers that name none.", metavar="NAME")] = ""
    base_url: BaseUrlOption = None
    price: Annotated[
        list[str] | None,
        _llm("Dollars per million tokens read and written. Repeatable.", metavar="MODEL=IN,OUT"),
    ] = None
    max_dollars: MaxDollarsOption = None
    concurrency: ConcurrencyOption = 8
    timeout: Annotated[float, _llm("Seconds for one try of a call.", least=0.1)] = 600.0
    threads: ThreadsOption = None
