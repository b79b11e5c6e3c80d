"""Luna's cost model (arXiv 2406.00975, appendix B): dollars a month for a stream of requests.

python -m benchmarks.cost --dollars-a-month 60 [--seconds 0.4] [--qps 10] [--tokens 4000]

A machine that needs s seconds for a request serves 1 / s of them a second; a stream of q takes q s
machines. A judging language model is paid by the token. The seconds are measured here on the
bundle's engine unless they are given; every price is a flag, and none is ours to know.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from benchmarks.engines import ENGINES
from benchmarks.inputs import OTHER_TOKENS
from benchmarks.pipeline import build
from benchmarks.report import Table, parser, publish, skipped
from benchmarks.timing import Contender, race

SECONDS_A_MONTH = 30 * 24 * 3600
LUNA_DOLLARS, LUNA_QPS = 700.0, 4.0  # an L4 (g6.2xlarge) a month, and what it serves of 4k
JUDGE_OUTPUT_TOKENS = 200  # what the paper's GPT-3.5 figure comes to


def machines(qps: float, seconds: float) -> float:
    """Return how many machines a stream keeps busy; not rounded, as in the paper."""
    return qps * seconds


def dollars_a_million(dollars_a_month: float, qps: float, tokens: int) -> float:
    """Return what a million tokens cost, when the stream never pauses."""
    return dollars_a_month / (qps * tokens * SECONDS_A_MONTH / 1e6)


def judge_dollars(
    qps: float, tokens: int, input_price: float, output_price: float, output_tokens: int
) -> float:
    """Return a month of a judging language model.

    Args:
        qps: Requests a second.
        tokens: Read in each.
        input_price: Dollars a million tokens read.
        output_price: Dollars a million tokens written.
        output_tokens: Written in each.
    """
    each = (tokens * input_price + output_tokens * output_price) / 1e6
    return qps * SECONDS_A_MONTH * each


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the seconds of a request, or take them, and print what a month costs."""
    flags = parser(__doc__, repeats=5)
    flags.add_argument("--dollars-a-month", type=float, required=True, help="of this machine")
    flags.add_argument("--seconds", type=float, default=None, help="a request, instead of timing")
    flags.add_argument("--backend", choices=ENGINES, default="int8")
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
    name = f"a judging model at {given.judge_input} / {given.judge_output} dollars a million"
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
