"""Comparison of peers on the same labelled rows: scores, tables and a page."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trivet.batch.progress import Say, show_line
from trivet.errors import ConfigError, DataError
from trivet.labelled.grouping import document
from trivet.labelled.sources import choose_rows, load_source
from trivet.llm.budget import Budget, Price
from trivet.llm.cache import AnswerCache
from trivet.llm.chat import LlmError
from trivet.llm.client import ChatClient
from trivet.peers.columns import read_columns, texts
from trivet.peers.measures import measure_peers
from trivet.peers.page import Compared, write_comparison
from trivet.peers.peer import Peer, PeerSetup, check_peer, load_peer
from trivet.peers.predictions import fingerprint, read_foreign, read_predictions
from trivet.peers.run import Run, run_peer
from trivet.peers.settings import ComparisonSettings
from trivet.records import LabelledExample


def compare_peers(
    settings: ComparisonSettings,
    predictions: Mapping[str, str],
    price: Mapping[str, str],
    command: str,
) -> str | None:
    """Score the rows by each peer and write tables and a page to the folder.

    Args:
        settings: Settings, but for the two that follow.
        predictions: Files of other tools' scores, by name.
        price: Dollars for a million tokens read and written, by model.
        command: Command line, for the page.

    Returns:
        The tables as text; None if one shard alone was scored.

    Raises:
        ConfigError: Peers or prices are missing, or named twice.
        DataError: No row is left, or a peer would be measured on what it was fitted on.
        LlmError: A call of a language model failed; the scores so far are kept.
    """
    part = settings.shard
    if settings.restart and part.count > 1:
        raise ConfigError("--restart drops the predictions of all shards; give it without --shard")
    if settings.max_dollars is not None and not price:
        raise ConfigError("--max-dollars needs --price MODEL=IN,OUT")
    prices = {name: Price.parse(text) for name, text in price.items()}
    chosen, fitting = _read_rows(settings)
    names = [name for name in dict.fromkeys(map(str.strip, settings.peers.split(","))) if name]
    foreign = {name: read_foreign(name, where, chosen) for name, where in predictions.items()}
    if len(foreign) < len(settings.predictions or ()):
        raise ConfigError("--predictions names a peer twice; give each file a name of its own")
    if both := foreign.keys() & names:
        raise ConfigError(f"--predictions and --peers both have {', '.join(sorted(both))}")
    if not names and not foreign:
        raise ConfigError("no peer is named; give --peers or --predictions")
    for name in names:
        check_peer(name)
    settings.out.mkdir(parents=True, exist_ok=True)
    run = Run(chosen, settings.out, settings.repeats, settings.concurrency, settings.restart, part)
    found = {}
    with contextlib.ExitStack() as stack:

        @functools.cache
        def money() -> tuple[AnswerCache, Budget]:
            cache = stack.enter_context(AnswerCache(settings.out / "answers.sqlite"))
            spent = sum(each.cost(*cache.tokens(name)) for name, each in prices.items())
            return cache, Budget(settings.max_dollars, spent)

        @functools.cache
        def open_llm(name: str) -> ChatClient:
            if not name:
                raise ConfigError("which model shall be asked? name it with --model, or PEER:MODEL")
            if settings.max_dollars is not None and name not in prices:
                raise ConfigError(f"--max-dollars needs the price of {name}: --price {name}=IN,OUT")
            cache, limit = money()
            client = ChatClient(
                name,
                base_url=settings.base_url,
                cache=cache,
                price=prices.get(name),
                budget=limit,
                concurrency=settings.concurrency,
                timeout=settings.timeout,
            )
            return stack.enter_context(client)

        setup = PeerSetup(
            *(chosen, fitting, open_llm, settings.model, settings.threads, settings.seed),
            base_url=settings.base_url,
        )
        for name in names:
            load = functools.partial(_load_repeat, name, setup)
            try:
                with show_line(quiet=not sys.stderr.isatty()) as say:
                    run_peer(
                        *(name, load, run, fingerprint(name, setup)),
                        functools.partial(_tell, say, name),
                    )
            except LlmError as error:
                message = f"{name}: {error}; the scores so far are kept: the same command goes on"
                raise LlmError(message, error.code, fatal=error.fatal) from error
            if part.count == 1:
                found[name] = read_predictions(run.files(name), chosen, settings.repeats)
    if part.count > 1:
        return None
    found |= foreign
    labelled = read_columns(chosen, found)
    figures = measure_peers(chosen, labelled, found, prices, seed=settings.seed)
    compared = Compared(command, len(chosen), found, labelled, figures)
    return write_comparison(compared, settings.out)


def _read_rows(settings: ComparisonSettings) -> tuple[list[LabelledExample], list[LabelledExample]]:
    """Return the rows to compare on and those to fit on, which share no document."""
    chosen = choose_rows(_load(settings.rows, settings.split), (), settings.limit, settings.seed)
    if not chosen:
        raise DataError(
            f"{' '.join(settings.rows)}: no row in split {settings.split!r} is left to compare on"
        )
    fitting = _load(settings.dev or (), settings.dev_split)
    # Two files of one data set may have other names, and so other names of its documents.
    fitted = {key for row in fitting for key in (document(row), texts(row))}
    if shared := {document(row) for row in chosen if fitted & {document(row), texts(row)}}:
        raise DataError(
            f"{len(shared)} source documents are in --data and in --dev, so a peer would be "
            "measured on what it was fitted on; choose other splits"
        )
    return chosen, fitting


def _load(specs: Sequence[str], split: str) -> list[LabelledExample]:
    return [row for spec in specs for row in load_source(spec, split)[0]]


def _load_repeat(name: str, setup: PeerSetup, repeat: int) -> Peer:
    return load_peer(name, replace(setup, repeat=repeat))


def _tell(say: Say, name: str, done: int, count: int) -> None:
    say(lambda: f"{name}: {done:,} of {count:,} scores")
