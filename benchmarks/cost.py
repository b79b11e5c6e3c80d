"""Dollars a month for a stream of requests, by Luna's cost model (arXiv 2406.00975, appendix B).

python -m benchmarks.cost --dollars-a-month 60 [--seconds 0.4] [--qps 10] [--tokens 4000]

A stream of q requests a second, each of s seconds, keeps q s machines busy; an LLM judge is paid by
the token. The seconds are measured unless they are given; every price is a flag.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from benchmarks.backends import BACKENDS
from benchmarks.inputs import OTHER_TOKENS
from benchmarks.report import Table, parser, publish, skipped
from benchmarks.speed import build
from benchmarks.timing import Contender, race

SECONDS_A_MONTH = 30 * 24 * 3600
LUNA_DOLLARS, LUNA_QPS = (
    700.0,
    4.0,
)  # price of an L4 (g6.2xlarge) a month; its requests of 4k a second
JUDGE_OUTPUT_TOKENS = 200  # follows from the paper's GPT-3.5 figure


def machines(qps: float, seconds: float) -> float:
    """Return the number of busy machines; not rounded, as in the paper."""
    return qps * seconds


def dollars_a_million(dollars_a_month: float, qps: float, tokens: int) -> float:
    """Return the price of a million tokens of a stream that never pauses."""
    return dollars_a_month / (qps * tokens * SECONDS_A_MONTH / 1e6)


def judge_dollars(
    qps: float, tokens: int, input_price: float, output_price: float, output_tokens: int
) -> float:
    """Return the dollars a month of an LLM judge.

    Args:
        qps: Requests a second.
        tokens: Input tokens of a request.
        input_price: Dollars a million input tokens.
        output_price: Dollars a million output tokens.
        output_tokens: Output tokens of a request.
    """
    each = (tokens * input_price + output_tokens * output_price) / 1e6
    return qps * SECONDS_A_MONTH * each


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the seconds of a request unless given, and print the price of a month."""
    flags = parser(__doc__, repeats=5)
    flags.add_argument("--dollars-a-month", type=float, required=True, help="price of this machine")
    flags.add_argument(
        "--seconds", type=float, default=None, help="seconds of a request, instead of timing it"
    )
    flags.add_argument("--backend", choices=BACKENDS, default="int8")
    flags.add_argument("--qps", type=float, default=10.0)
    flags.add_argument("--tokens", type=int, default=4000, help="context tokens a request")
    flags.add_argument("--judge-input", type=float, default=0.5, help="dollars a million tokens")
    flags.add_argument("--judge-output", type=float, default=1.5, help="dollars a million tokens")
    given = flags.parse_args(arguments)
    seconds, outcome = given.seconds, None
    if seconds is None:
        contender = Contender(given.backend, build, (given.bundle, given.backend, given.threads))
        outcome = race([contender], given.repeats, [given.tokens])
        if outcome.skipped:
            publish("cost", [skipped(outcome)], given)
            return 1
        seconds = outcome.measured[given.backend, given.tokens].median()
    busy = machines(given.qps, seconds)
    luna = given.qps / LUNA_QPS
    judge = judge_dollars(
        given.qps, given.tokens, given.judge_input, given.judge_output, JUDGE_OUTPUT_TOKENS
    )
    rows = []
    for name, each, count, price in (
        (f"trivet, {given.backend}, all scores", seconds, busy, given.dollars_a_month),
        ("Luna on an L4, one score (its figures)", 1 / LUNA_QPS, luna, LUNA_DOLLARS),
    ):
        month = count * price
        million = dollars_a_million(month, given.qps, given.tokens)
        whole = math.ceil(count)
        machine = (f"{count:.2f}", f"{month:,.0f}", f"{whole}, {whole * price:,.0f}")
        rows.append((name, f"{each:.3f}", *machine, f"{million:.4f}"))
    million = dollars_a_million(judge, given.qps, given.tokens)
    name = f"an LLM judge at {given.judge_input} / {given.judge_output} dollars a million"
    rows.append((name, "", "", f"{judge:,.0f}", "", f"{million:.4f}"))
    even = luna * LUNA_DOLLARS / busy
    title = (
        f"{given.qps:g} requests a second of {given.tokens} context tokens; ours with "
        f"{OTHER_TOKENS} of question and response at {given.dollars_a_month:g} dollars a machine "
        f"and month (even with Luna's at {even:,.0f}):"
    )
    header = (
        "who",
        "seconds a request",
        "machines",
        "dollars a month",
        "in whole machines",
        "dollars a million tokens",
    )
    publish("cost", [Table(title, header, rows)], given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
