"""The tables and the page of a comparison."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.metrics import roc_auc_score

from tests.peers.rows import predicted, row
from trivet.llm.budget import Price
from trivet.peers.columns import read_columns
from trivet.peers.measures import measure_peers
from trivet.peers.page import Compared, write_comparison
from trivet.peers.peer import PeerScore
from trivet.peers.predictions import Predictions
from trivet.records import LabelledExample, Labels, RagExample, Span

HOSTILE = LabelledExample(
    RagExample("<script>q</script>", ("<b>c</b> {{ 7 * 7 }}",), "<i>bad</i> rest", "<id>|"),
    Labels(unsupported=(Span(0, 10),), adherent=False),
    source="toy",
    group="doc-9",
)


def compared(
    peers: dict[str, Predictions],
    rows: list[LabelledExample],
    out: Path,
    prices: dict[str, Price] | None = None,
) -> str:
    part = read_columns(rows, peers)
    figures = measure_peers(rows, part, peers, prices or {}, resamples=20)
    return write_comparison(Compared("compare <x>", len(rows), peers, part, figures), out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    systems = "m", "<b>\n|s|![x](http://host/y)"
    rows = [HOSTILE, *(row(n, n % 3 == 0, "toy", systems[n % 2]) for n in range(1, 12))]
    peers = {
        "a|b": predicted(rows, [PeerScore.at(0.5, n / 12, seconds=0.1) for n in range(12)]),
        "<c>": predicted(rows, [PeerScore(None, failed="refused") for _ in rows]),
        "d": predicted(rows, [PeerScore(1 - n / 12) for n in range(12)]),
    }
    out = tmp_path_factory.mktemp("out")
    compared(peers, rows, out)
    return out


def test_the_page_escapes_all_texts_and_shows_the_rows_of_disagreement(folder: Path) -> None:
    page = (folder / "comparison.html").read_text(encoding="utf-8")
    for text in ("<script>q", "<b>", "<i>bad", "<id>", "<c>", "<x>"):
        assert text not in page
    assert "&lt;b&gt;c&lt;/b&gt; {{ 7 * 7 }}" in page
    assert "<mark>&lt;i&gt;bad&lt;/i&gt;</mark>" in page
    assert "src=" not in page
    assert "href=" not in page


def test_the_page_draws_a_curve_for_each_peer_that_scored(folder: Path) -> None:
    page = (folder / "comparison.html").read_text(encoding="utf-8")
    plots = [part.split("</svg>")[0] for part in page.split("<svg")[1:]]
    (drawn,) = [plot for plot in plots if "true positive rate" in plot]
    wrong = [n % 3 == 0 for n in range(12)]
    area = roc_auc_score(wrong, [1 - n / 12 for n in range(12)])
    assert f"a|b {area:.3f}" in drawn and f"d {1 - area:.3f}" in drawn
    assert "&lt;c&gt;" not in drawn


def test_the_markdown_has_a_line_for_each_peer_that_scored(folder: Path) -> None:
    text = (folder / "comparison.md").read_text(encoding="utf-8")
    assert "<b>" not in text
    first = text.split("## toy\n")[1].split("## ")[0]
    assert r"| a\|b | 12 | 4 | " in first and "| d | 12 | " in first and "<c>" not in first
    assert "&lt;c>: 12 of 12 scores failed as refused." in text
    assert "dollars" not in text  # no price was given


def test_the_json_has_every_figure_and_only_finite_numbers(folder: Path) -> None:
    record = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    assert record["peers"]["d"]["about"] == "about"
    assert {"auroc", "kappa", "failed"} <= {one["measure"] for one in record["figures"]}


def test_no_hallucinated_row_is_0_and_not_unknown(tmp_path: Path) -> None:
    rows = [row(n, False, "toy") for n in range(1, 7)]
    peers = {"d": predicted(rows, [PeerScore.at(0.5, n / 6) for n in range(6)])}
    text = compared(peers, rows, tmp_path)
    assert "| d | 6 | 0 | " in text
    assert "All 6 labelled rows are supported: most measures need both kinds." in text


def test_failures_by_reason_are_of_all_repeats_as_their_share_is(tmp_path: Path) -> None:
    rows = [row(n, n % 2 == 0, "toy") for n in range(6)]
    good = [PeerScore.at(0.5, n / 6) for n in range(6)]
    bad = [PeerScore(None, failed="refused"), *good[1:5], PeerScore(None, failed="timeout")]
    text = compared({"d": predicted(rows, good, bad, bad)}, rows, tmp_path)
    assert "d: 2 of 18 scores failed as refused." in text
    assert "d: 2 of 18 scores failed as timeout." in text
    costs = text.partition("## Costs and failures")[2]
    assert f"| {4 / 18:.3g} (" in costs


def test_tables_say_where_ties_decide_and_why_a_figure_has_no_interval(tmp_path: Path) -> None:
    rows = [row(n, n % 5 == 0, "toy", f"model-{n % 3}") for n in range(24)]
    peers = {
        "coarse": predicted(rows, [PeerScore.at(0.5, n % 3 / 4) for n in range(24)]),
        "flat": predicted(rows, [PeerScore.at(0.5, 0.0) for _ in rows]),
        "fine": predicted(rows, [PeerScore.at(0.5, n / 24) for n in range(24)]),
    }
    text = compared(peers, rows, tmp_path)
    first = text.split("## toy\n")[1].split("## ")[0]
    assert "AUROC of coarse: distinct scores: 3, so ties decide much." in first
    assert "AUROC of flat: distinct scores: 1, so ties decide much." in first
    assert "tau over generators of coarse, fine: 3 generators." in first
    assert "tau over generators of flat: undefined: needs generators that differ." in first
    less = text.split("## toy: less coarse, at thresholds\n")[1].split("## ")[0]
    assert "own true negatives" in less and "| fine | 24 | 5 | " in less
    single = [replace(one, group="doc") for one in rows]
    text = compared({"fine": peers["fine"]}, single, tmp_path)
    assert "no interval: all rows come from one group." in text


def test_a_cost_of_0_is_drawn_and_an_unknown_cost_is_not(tmp_path: Path) -> None:
    rows = [row(n, n % 2 == 0, "toy") for n in range(12)]
    peers = {
        "llm": [PeerScore.at(0.5, n / 12, calls=1, prompt_tokens=9, seconds=1) for n in range(12)],
        "local": [PeerScore.at(0.5, n / 12, seconds=0.1) for n in range(12)],
        "stored": [PeerScore.at(0.5, n / 12) for n in range(12)],
    }
    found = {name: predicted(rows, scores) for name, scores in peers.items()}
    for name in ("local", "stored"):
        found[name] = replace(found[name], header=replace(found[name].header, model=""))
    text = compared(found, rows, tmp_path, {"gpt": Price(1.0, 1.0)})
    assert "| local | 12 | - | 0.1 (0.1 to 0.1) |" in text
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    drawings = [part.partition("</svg>")[0] for part in page.split("<svg")[1:]]
    plots = [part for part in drawings if "AUROC and cost" in part]
    assert ["dollars" in part for part in plots] == [False, True]
    for part in plots:
        assert ">llm<" in part and ">local<" in part and ">stored<" not in part


def test_a_peer_that_flags_every_row_makes_no_row_of_disagreement(tmp_path: Path) -> None:
    rows = [row(n, n % 2 == 0, "toy") for n in range(6)]
    scores = [PeerScore.at(0.5, (n % 2) * 0.9) for n in range(6)]
    peers = {
        "always": predicted(rows, [PeerScore.at(0.5, 0.0) for _ in rows]),
        "one": predicted(rows, scores),
        "other": predicted(rows, [*scores[:4], PeerScore.at(0.5, 0.8), scores[5]]),
        "unscored": predicted(rows, [PeerScore(None, failed="refused") for _ in rows]),
    }
    compared(peers, rows, tmp_path)
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert page.count("<article>") == 1
    assert "<h3>id-4 " in page


def test_rows_without_a_label_are_counted(tmp_path: Path) -> None:
    rows = [row(n, n % 2 == 0, "toy") for n in range(6)]
    rows[5] = replace(rows[5], labels=Labels())
    peers = {"d": predicted(rows, [PeerScore.at(0.5, n / 6) for n in range(6)])}
    text = compared(peers, rows, tmp_path)
    assert "1 rows have no verdict label: they count in the costs alone." in text
