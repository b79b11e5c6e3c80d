"""Compare evaluators of faithfulness on the same labelled rows.

python -m research.compare --data jsonl:mine.jsonl --systems "trivet words" --out comparison
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from pathlib import Path

from research.compare.measures import cost_table, measure_systems
from research.compare.run import run_system
from research.compare.systems import SYSTEMS, Setup, check_systems, load_system
from trivet.batch.progress import show_line
from trivet.errors import ConfigError, DataError
from trivet.labelled.sources import choose_rows, load_source
from trivet.llm.chat import Budget, LlmError, Price
from trivet.llm.chat_client import ChatClient
from trivet.measures.figures import to_json, to_markdown


def parse(words: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser("python -m research.compare", description=__doc__)
    add = parser.add_argument
    add("--data", action="append", required=True, metavar="SPEC", help="rows, as for trivet test")
    add("--split", default="all")
    add("--limit", type=int, help="number of rows, drawn at random by --seed")
    add("--seed", type=int, default=0)
    add("--systems", required=True, help=f"spaces between: {', '.join(sorted(SYSTEMS))}")
    add("--out", type=Path, required=True, help="folder of scores and tables")
    add("--restart", action="store_true", help="drop earlier scores")
    add("--threads", type=int, help="threads of a local model")
    add("--model", default="", help="model of the prompts that name none")
    add("--base-url", help="OpenAI-compatible endpoint; default: OpenAI, or OPENAI_BASE_URL")
    add("--price", action="append", default=[], help="MODEL=IN,OUT, dollars per million tokens")
    add("--max-dollars", type=float)
    add("--concurrency", type=int, default=8, help="rows that a prompt is asked about at once")
    return parser.parse_args(words)


def compare(options: argparse.Namespace) -> str:
    """Score the rows by each system; return the tables, which are also in the folder."""
    read = [row for spec in options.data for row in load_source(spec, options.split)[0]]
    rows = choose_rows(read, (), options.limit, options.seed)
    if not rows:
        raise DataError(f"{' '.join(options.data)}: no row in split {options.split!r}")
    names = list(dict.fromkeys(options.systems.split()))
    check_systems(names)
    prices = [text.rpartition("=") for text in options.price]
    if not all(model for model, _, _ in prices):
        raise ConfigError("--price must be MODEL=IN,OUT")
    priced = {model: Price.parse(text) for model, _, text in prices}
    if options.max_dollars is not None and not priced:
        raise ConfigError("--max-dollars needs --price MODEL=IN,OUT")
    options.out.mkdir(parents=True, exist_ok=True)
    scores, costs = {}, {}
    with contextlib.ExitStack() as stack:
        budget = Budget(options.max_dollars)
        client = functools.partial(ChatClient, base_url=options.base_url, budget=budget)
        setup = Setup(
            rows,
            lambda model: stack.enter_context(client(model, price=priced.get(model))),
            options.model,
            options.threads,
        )
        for name in names:
            system = load_system(name, setup)
            if system.model in priced:
                costs[name] = priced[system.model]
            elif system.model and options.max_dollars is not None:
                raise ConfigError(f"--max-dollars needs --price {system.model}=IN,OUT")
            with show_line(quiet=not sys.stderr.isatty()) as say:
                scores[name] = run_system(
                    name, system, rows, options.out, options.restart, options.concurrency, say
                )
    figures = measure_systems(rows, scores)
    tables = f"{to_markdown(figures)}\n{cost_table(scores, costs)}"
    (options.out / "comparison.md").write_text(tables, encoding="utf-8")
    (options.out / "comparison.json").write_text(to_json(figures, rows=len(rows)), encoding="utf-8")
    return tables


def main(words: list[str] | None = None) -> None:
    """Run the command line; an error is one line, and the scores so far are kept."""
    try:
        sys.stdout.write(compare(parse(words)))
    except (ConfigError, DataError, LlmError, OSError) as error:
        sys.exit(f"{error}\nThe scores so far are kept; the same command goes on.")


if __name__ == "__main__":
    main()
