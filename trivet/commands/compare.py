"""``trivet compare``: evaluators of faithfulness on the same labelled rows."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trivet.commands.shared import USAGE, ThreadsOption, end, run_exits, what_was_typed
from trivet.peers.peer import PEERS

if TYPE_CHECKING:
    from trivet.peers.peer import Peer, PeerScore, PeerSetup
    from trivet.records import LabelledExample


def compare(
    rows: Annotated[
        list[str],
        typer.Argument(metavar="ROWS...", help="Labelled rows, as for `trivet test --data`."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the predictions and the comparison.")],
    peers: Annotated[
        str, typer.Option(help=f"Peers with commas between, of {', '.join(sorted(PEERS))}.")
    ] = "",
    split: Annotated[str, typer.Option(help="Split of ROWS.")] = "all",
    predictions: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE:COLUMN", help="Scores of another tool, by row id."),
    ] = None,
    dev: Annotated[
        list[str] | None, typer.Option(help="Labelled rows that tfidf is fitted on.")
    ] = None,
    dev_split: Annotated[str, typer.Option(help="Split of --dev.")] = "fit",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Most rows, drawn at random by --seed.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of draws, fits and resamples.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="Times that a row is scored.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls of an LLM at once.")] = 8,
    model: Annotated[str, typer.Option(help="Model of LLM peers that name none.")] = "",
    base_url: Annotated[
        str | None, typer.Option(help="OpenAI-compatible endpoint; default: OPENAI_BASE_URL.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for one try of a call of an LLM.")
    ] = 600.0,
    price: Annotated[
        list[str] | None,
        typer.Option(metavar="MODEL=IN,OUT", help="Dollars for a million tokens in and out."),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option("--budget", "--max-dollars", min=0, help="Most dollars to spend."),
    ] = None,
    restart: Annotated[bool, typer.Option(help="Drop earlier predictions in --out.")] = False,
    shard: Annotated[
        str,
        typer.Option(metavar="NUMBER/COUNT", help="Score this part of the rows, and nothing else."),
    ] = "1/1",
    threads: ThreadsOption = None,
) -> None:
    """Compare evaluators of faithfulness on the same labelled rows.

    Predictions are kept in --out as they are made, and the same command resumes. Peers whose
    predictions are complete are not run again: the tables are made from the files. After all
    shards, the command without --shard joins them and makes the tables.
    """
    from trivet.batch.settings import parse_shard
    from trivet.data.labelled.sources import choose_rows
    from trivet.errors import ConfigError, DataError
    from trivet.llm.budget import Budget, Price
    from trivet.llm.cache import AnswerCache
    from trivet.llm.chat import LlmError
    from trivet.llm.client import ChatClient
    from trivet.peers.columns import document, read_columns, texts
    from trivet.peers.measures import measure_peers
    from trivet.peers.page import Compared, write_comparison
    from trivet.peers.peer import PeerSetup, check_peer
    from trivet.peers.predictions import fingerprint, read_foreign, read_predictions
    from trivet.peers.run import Run, run_peer

    part = parse_shard(shard)
    if restart and part.count > 1:
        raise ConfigError("--restart drops the predictions of all shards; give it without --shard")
    prices = {name: Price.parse(text) for name, text in map(_pair, price or ())}
    chosen = choose_rows(_load(rows, split), (), limit, seed)
    if not chosen:
        raise DataError(f"{' '.join(rows)}: no row in split {split!r} is left to compare on")
    fitting = _load(dev or (), dev_split)
    # Two files of one data set may have other names, and so other names of its documents.
    fitted = {key for row in fitting for key in (document(row), texts(row))}
    if shared := {document(row) for row in chosen if fitted & {document(row), texts(row)}}:
        raise DataError(
            f"{len(shared)} source documents are in ROWS and in --dev, so a peer would be measured "
            "on what it was fitted on; choose other splits"
        )
    names = [name for name in dict.fromkeys(map(str.strip, peers.split(","))) if name]
    files = [_pair(text) for text in predictions or ()]
    foreign = {name: read_foreign(name, where, chosen) for name, where in files}
    if len(foreign) < len(files):
        raise ConfigError("--predictions names a peer twice; give each file a name of its own")
    if both := foreign.keys() & names:
        raise ConfigError(f"--predictions and --peers both have {', '.join(sorted(both))}")
    if not names and not foreign:
        raise ConfigError("no peer is named; give --peers or --predictions")
    for name in names:
        check_peer(name)
    out.mkdir(parents=True, exist_ok=True)
    run = Run(chosen, out, repeats, concurrency, restart, part)
    found = {}
    with contextlib.ExitStack() as stack, run_exits():

        @functools.cache
        def money() -> tuple[AnswerCache, Budget]:
            cache = stack.enter_context(AnswerCache(out / "answers.sqlite"))
            spent = sum(each.cost(*cache.tokens(name)) for name, each in prices.items())
            return cache, Budget(budget, spent)

        @functools.cache
        def open_llm(name: str) -> ChatClient:
            if not name:
                raise ConfigError("which model shall be asked? name it with --model, or PEER:MODEL")
            if budget is not None and name not in prices:
                raise ConfigError(f"--budget needs the price of {name}: --price {name}=IN,OUT")
            cache, limit = money()
            client = ChatClient(
                name,
                base_url=base_url,
                cache=cache,
                price=prices.get(name),
                budget=limit,
                concurrency=concurrency,
                timeout=timeout,
            )
            return stack.enter_context(client)

        setup = PeerSetup(chosen, fitting, open_llm, model, threads, seed, base_url=base_url)
        for name in names:
            load = functools.partial(_load_repeat, name, setup)
            try:
                track = functools.partial(_track, name)
                path = run_peer(name, load, run, track, fingerprint(name, setup))
            except LlmError as error:
                message = f"{name}: {error}; the scores so far are kept: the same command goes on"
                raise end(message, USAGE) from error
            if part.count == 1:
                found[name] = read_predictions(path, chosen, repeats)
    if part.count > 1:
        print(f"shard {shard} is scored; the tables are made without --shard", file=sys.stderr)
        return
    found |= foreign
    labelled = read_columns(chosen, found)
    figures = measure_peers(chosen, labelled, found, prices, seed=seed)
    print(write_comparison(Compared(what_was_typed(), len(chosen), found, labelled, figures), out))
    print(
        f"{out / 'comparison.html'} has curves and the rows on which peers disagree",
        file=sys.stderr,
    )


def _load(specs: Sequence[str], split: str) -> list[LabelledExample]:
    from trivet.data.labelled.sources import load_source

    return [row for spec in specs for row in load_source(spec, split)[0]]


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise typer.BadParameter(f"{text!r} must be NAME=VALUE")
    return name, value


def _load_repeat(name: str, setup: PeerSetup, repeat: int) -> Peer:
    from trivet.peers.peer import load_peer

    return load_peer(name, replace(setup, repeat=repeat))


def _track(name: str, scores: Iterator[PeerScore], count: int) -> Iterable[PeerScore]:
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(scores, name, count, console=console, disable=not console.is_terminal)
