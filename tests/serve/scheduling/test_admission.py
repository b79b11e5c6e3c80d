"""Limits on requests and windows, and the time to retry."""

from __future__ import annotations

import math

import pytest

from trivet.serve.scheduling.admission import Admission
from trivet.serve.scheduling.batched_request import Overloaded


@pytest.fixture
def admission() -> Admission:
    return Admission(max_requests=9, max_windows=10, window_size=512)


def test_no_more_requests_than_the_bound(admission: Admission) -> None:
    admission.enter(characters=100, requests=8, waiting=0)
    with pytest.raises(Overloaded, match="9 requests are being served") as caught:
        admission.enter(characters=100, requests=9, waiting=0)
    assert caught.value.reason == "requests"
    assert admission.coming == 1


def test_a_request_that_is_clearly_too_long_is_refused_by_its_characters(
    admission: Admission,
) -> None:
    # 2,048 characters a window until more is known; half of that is what is sure.
    assert admission.enter(characters=4096, requests=0, waiting=9) == pytest.approx(1.0)
    with pytest.raises(Overloaded, match="about 10 windows wait, and 4096 characters") as caught:
        admission.enter(characters=4096, requests=1, waiting=9)
    assert caught.value.reason == "windows"
    assert admission.coming == 1
    # The first one counts until it is laid out.
    admission.leave(1.0, characters=4096, windows=0)
    assert admission.coming == 0
    admission.enter(characters=4096, requests=1, waiting=9)


def test_more_windows_than_may_wait_are_let_in_while_none_wait(admission: Admission) -> None:
    admission.enter(characters=1_000_000, requests=0, waiting=0)
    admission.check_queue(own=500, before=500, left_seconds=9.0, waiting=0)
    admission.check_queue(own=3, before=10, left_seconds=9.0, waiting=7)
    with pytest.raises(Overloaded, match="8 windows wait, and these are 3 more, but only 10"):
        admission.check_queue(own=3, before=11, left_seconds=9.0, waiting=8)


def test_the_characters_of_a_window_are_learnt(admission: Admission) -> None:
    for _ in range(50):
        expected = admission.enter(characters=100_000, requests=0, waiting=0)
        admission.leave(expected, characters=100_000, windows=1000)
    # A hundred characters a window: ten times as many windows as the first guess.
    assert admission.enter(10_000, requests=0, waiting=0) == pytest.approx(50, rel=0.1)


def test_the_time_to_retry_follows_from_the_speed_of_the_backend(admission: Admission) -> None:
    def retry_seconds(waiting: int) -> float:
        with pytest.raises(Overloaded) as caught:
            admission.enter(characters=0, requests=9, waiting=waiting)
        assert f"ask again in {caught.value.retry_after_seconds:.1f} seconds" in str(caught.value)
        return caught.value.retry_after_seconds

    assert retry_seconds(100) == 1.0  # no call was made yet
    admission.note_call(windows=2, seconds=0.1)
    assert retry_seconds(100) == pytest.approx(5.0)
    for _ in range(200):
        admission.note_call(windows=1, seconds=0.01)
    assert retry_seconds(100) == pytest.approx(1.0, rel=0.01)
    assert retry_seconds(0) > 0


def test_a_request_that_would_hardly_be_answered_in_time_is_refused() -> None:
    admission = Admission(max_requests=9, max_windows=100, window_size=512)
    admission.check_queue(own=1, before=50, left_seconds=0.1, waiting=49)  # nothing is known yet
    admission.note_call(windows=2, seconds=0.1)
    admission.check_queue(own=1, before=16, left_seconds=2.0, waiting=15)
    admission.check_queue(own=30, before=35, left_seconds=2.5, waiting=5)  # its own do not count
    admission.check_queue(own=1, before=50, left_seconds=0.1, waiting=0)  # it may try
    admission.check_queue(own=1, before=50, left_seconds=math.inf, waiting=49)
    with pytest.raises(Overloaded, match="16 windows would run before the last of its") as caught:
        admission.check_queue(own=1, before=17, left_seconds=2.0, waiting=16)
    assert caught.value.reason == "time"
    assert caught.value.retry_after_seconds == pytest.approx(0.8)
