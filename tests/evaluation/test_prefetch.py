"""Prefetching: order, errors, and cancelling of work that was started."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivet.evaluation.prefetch import prefetch


class Work:
    """A block that was begun."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@given(st.integers(0, 8), st.integers(1, 4))
def test_all_come_in_order_each_when_those_after_it_were_begun(blocks: int, ahead: int) -> None:
    begun: list[Work] = []

    def begin(block: int) -> Work:
        begun.append(Work(block))
        return begun[-1]

    seen = []
    for work in prefetch(range(blocks), begin, ahead):
        seen.append(work.block)
        assert len(begun) == min(blocks, len(seen) + ahead)
    assert seen == list(range(blocks))
    assert not any(work.cancelled for work in begun)


def test_an_error_in_what_is_read_comes_behind_what_was_read() -> None:
    def broken() -> Iterator[int]:
        yield from (0, 1, 2)
        raise LookupError("the file ends here")

    seen = []
    with pytest.raises(LookupError, match="the file ends here"):
        for work in prefetch(broken(), Work):
            seen.append(work.block)
    assert seen == [0, 1, 2]


def test_a_block_that_cannot_be_begun_takes_none_with_it() -> None:
    def begin(block: int) -> Work:
        if block == 2:
            raise LookupError("no such word")
        return Work(block)

    seen = []
    with pytest.raises(LookupError, match="no such word"):
        for work in prefetch(range(9), begin):
            assert not work.cancelled
            seen.append(work.block)
    assert seen == [0, 1]


def test_who_stops_early_stops_all_that_was_begun() -> None:
    begun: list[Work] = []

    def begin(block: int) -> Work:
        begun.append(Work(block))
        return begun[-1]

    works = prefetch(iter(range(10)), begin, 2)
    assert [next(works).block, next(works).block] == [0, 1]
    works.close()  # type: ignore[attr-defined]
    assert [work.cancelled for work in begun] == [False, True, True, True]
