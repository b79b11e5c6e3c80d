"""Runs of peers: complete, in order, resumed exactly, and never mixed with another run."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.peers.rows import Scripted, refused, row
from trivet.batch.output import Output, OutputLockedError, RunChangedError
from trivet.batch.settings import Shard
from trivet.errors import ConfigError, DataError
from trivet.llm.chat import LlmError
from trivet.peers.peer import Peer, PeerScore
from trivet.peers.predictions import read_predictions
from trivet.peers.run import Run, run_peer
from trivet.records import Span

ROWS = [row(number, number % 3 == 0) for number in range(7)]
SCORES: list[PeerScore | Exception] = [
    PeerScore.at(
        0.5,
        number / 10,
        spans=(Span(0, number),),
        calls=2,
        raw={"text": "é \ud800"},
    )
    for number in range(7)
]


def load_scripted(repeat: int) -> Peer:
    return Scripted(SCORES)


@pytest.mark.parametrize("concurrent", [False, True])
def test_scores_are_read_back_as_they_were_given(tmp_path: Path, concurrent: bool) -> None:
    peer = Scripted(SCORES)
    peer.concurrent, peer.timed = concurrent, False
    path = run_peer("p:x/y", lambda _: peer, Run(ROWS, tmp_path, concurrency=3))
    assert path.name == "p_x_y.jsonl"
    found = read_predictions([path], ROWS, 1)
    assert found.header.peer == "p:x/y" and [*found.repeats[0]] == SCORES


def test_the_run_measures_seconds_that_the_peer_does_not_know(tmp_path: Path) -> None:
    known = [replace(one, seconds=9.0) for one in SCORES[:3] if isinstance(one, PeerScore)]
    path = run_peer("p", lambda _: Scripted([*known, *SCORES[3:]]), Run(ROWS, tmp_path))
    seconds = [one.seconds for one in read_predictions([path], ROWS, 1).repeats[0]]
    assert seconds[:3] == [9.0] * 3 and all(0 <= (one or -1) < 9 for one in seconds[3:])


def test_a_refused_row_fails_alone_and_keeps_its_reason(tmp_path: Path) -> None:
    scores = [*SCORES[:2], refused(), LlmError("slow", "timeout"), *SCORES[4:]]
    path = run_peer("p", lambda _: Scripted(scores), Run(ROWS, tmp_path))
    found = read_predictions([path], ROWS, 1).repeats[0]
    assert [one.failed for one in found[1:5]] == [None, "refused", "timeout", None]
    assert found[2].raw == "no"


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_fatal_error_keeps_what_is_there_and_the_run_goes_on_from_it(
    tmp_path: Path, concurrent: bool
) -> None:
    broken = Scripted([*SCORES[:4], LlmError("no key", "unauthorized", fatal=True), *SCORES[5:]])
    broken.concurrent = concurrent
    run = Run(ROWS, tmp_path, concurrency=2)
    with pytest.raises(LlmError, match="no key"):
        run_peer("p", lambda _: broken, run)
    assert len(run.path("p").read_bytes().splitlines()) == 1 + 4
    whole = Scripted(SCORES)
    run_peer("p", lambda _: whole, run)
    assert whole.calls == 3
    assert len(read_predictions([run.path("p")], ROWS, 1).repeats[0]) == 7


@pytest.mark.parametrize("cut", range(1, 30, 7))
def test_a_torn_line_is_scored_again(tmp_path: Path, cut: int) -> None:
    run = Run(ROWS, tmp_path)
    path = run_peer("p", lambda _: Scripted(SCORES), run)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    again = Scripted(SCORES)
    run_peer("p", lambda _: again, run)
    assert again.calls == 1
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["row"] for line in lines[1:]] == list(range(1, 8))


def test_a_complete_file_needs_no_peer_and_more_repeats_only_the_new_ones(tmp_path: Path) -> None:
    first, repeats = Scripted(SCORES), []

    def load(repeat: int) -> Peer:
        repeats.append(repeat)
        return first

    run_peer("p", load, Run(ROWS, tmp_path))
    run_peer("p", load, Run(ROWS, tmp_path))
    path = run_peer("p", load, Run(ROWS, tmp_path, repeats=3))
    assert repeats == [0, 1, 2] and first.calls == 21
    assert len(read_predictions([path], ROWS, 3).repeats) == 3
    run_peer("p", load, Run(ROWS, tmp_path, restart=True))
    assert first.calls == 28


def test_another_version_of_a_peer_or_other_rows_are_refused(tmp_path: Path) -> None:
    run = Run(ROWS, tmp_path)
    path = run_peer("p", lambda _: Scripted(SCORES, "v1"), run)
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:4]) + b"\n")
    with pytest.raises(RunChangedError, match=r"about was 'v1', is 'v2'.*--restart"):
        run_peer("p", lambda _: Scripted(SCORES, "v2"), run)
    with pytest.raises(RunChangedError, match=r"the rows \(6\) are others"):
        run_peer("p", lambda _: Scripted(SCORES, "v1"), Run(ROWS[:6], tmp_path))


def test_complete_predictions_of_a_changed_peer_are_refused(tmp_path: Path) -> None:
    def run(**fingerprint: str) -> Path:
        return run_peer("p", load_scripted, Run(ROWS, tmp_path), fingerprint=fingerprint)

    run(bundle="a1", model="m")
    with pytest.raises(RunChangedError, match=r"bundle was 'a1', is 'b2'.*--restart"):
        run(bundle="b2", model="m")
    assert run(model="m").exists()  # the bundle is no longer there to be looked at


@pytest.mark.parametrize("repeats", [1, 2])
def test_shards_and_what_is_left_are_the_scores_of_one_run(tmp_path: Path, repeats: int) -> None:
    def scores(run: Run) -> list[list[PeerScore]]:
        found = read_predictions(run.files("p:x"), ROWS, repeats)
        return [[replace(one, seconds=None) for one in each] for each in found.repeats]

    for folder in ("one", "many"):
        (tmp_path / folder).mkdir()
    whole = Run(ROWS, tmp_path / "one", repeats)
    run_peer("p:x", load_scripted, whole)
    run, peer = Run(ROWS, tmp_path / "many", repeats), Scripted(SCORES)
    for number in (1, 3):
        run_peer("p:x", lambda _: peer, replace(run, shard=Shard(number, 3)))
    assert peer.calls == 5 * repeats
    broken = Scripted([*SCORES[:4], LlmError("no key", "unauthorized", fatal=True), *SCORES[5:]])
    with pytest.raises(LlmError):
        run_peer("p:x", lambda _: broken, run)
    run_peer("p:x", lambda _: peer, run)
    assert (broken.calls, peer.calls) == (2, 5 * repeats + 2 * repeats - 1)
    assert scores(run) == scores(whole)


def test_finished_shards_are_joined_without_the_peer(tmp_path: Path) -> None:
    run = Run(ROWS, tmp_path)
    for number in range(1, 10):  # the last two have no row
        run_peer("p", load_scripted, replace(run, shard=Shard(number, 9)))
    assert len(list(tmp_path.iterdir())) == 7
    run_peer("p", lambda _: pytest.fail("was loaded"), run)
    assert len(read_predictions(run.files("p"), ROWS, 1).repeats[0]) == 7


def test_a_shard_of_another_run_is_refused_and_a_restart_drops_it(tmp_path: Path) -> None:
    def scripted(about: str, repeat: int) -> Peer:
        return Scripted(SCORES, about)

    run = Run(ROWS, tmp_path)
    first, second = (
        run_peer("p", load_scripted, replace(run, shard=Shard(n, 3)), fingerprint={"x": "1"})
        for n in (1, 2)
    )
    advice = r"; take another --out, or delete p\.\*-of-\*\.jsonl$"
    for rows, fingerprint, about, message in (
        (ROWS[:6], {"x": "1"}, "scripted", r"the rows \(6\) are others"),
        (ROWS, {"x": "2"}, "scripted", "x was '1', is '2'"),
        (ROWS, {"x": "1"}, "v2", "about was 'scripted', is 'v2'"),
    ):
        load = functools.partial(scripted, about)
        with pytest.raises(RunChangedError, match=rf"p\.1-of-3\.jsonl: .*{message}{advice}"):
            run_peer("p", load, replace(run, rows=rows), fingerprint=fingerprint)
    again = Scripted(SCORES, "v2")
    with Output(second), pytest.raises(OutputLockedError):  # a process that still writes its shard
        run_peer("p", lambda _: again, replace(run, restart=True))
    assert again.calls == 0 and first.stat().st_size > 0
    run_peer("p", lambda _: again, replace(run, restart=True))
    assert again.calls == 7 and not first.exists() and not second.exists()


@pytest.mark.parametrize("restart", [False, True])
def test_a_peer_that_cannot_be_loaded_leaves_no_file_and_drops_none(
    tmp_path: Path, restart: bool
) -> None:
    def broken(repeat: int) -> Peer:
        raise ConfigError("no weights")

    run = Run(ROWS, tmp_path, restart=restart)
    refusing = Scripted([LlmError("no key", "unauthorized", fatal=True)])
    for load, error in ((broken, ConfigError), (lambda _: refusing, LlmError)):
        with pytest.raises(error):
            run_peer("p", load, run)
        assert not run.path("p").exists()
    before = run_peer("p", load_scripted, run).read_bytes()
    with pytest.raises(ConfigError, match="no weights"):
        run_peer("p", broken, replace(run, repeats=2))
    assert run.path("p").read_bytes() == before


@pytest.mark.parametrize("content", [b'{"some": "file"}\n', b"no json\n"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 1: not a prediction"):
        read_predictions([path], ROWS, 1)
