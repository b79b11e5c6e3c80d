"""Denormal numbers are zero while a graph runs, and in no other moment or thread."""

from __future__ import annotations

import platform
import sys
import threading

import numpy as np
import pytest

from trivet.backends.onnx_runtime import can_flush, denormals_as_zero

X86_LINUX = sys.platform == "linux" and platform.machine() == "x86_64"


def product() -> float:
    """Return 1e-40, or 0 where denormal numbers are."""
    return float(np.multiply(np.float32(1e-30), np.float32(1e-10)))


@pytest.mark.skipif(not X86_LINUX, reason="no other system is supported")
def test_the_mode_holds_in_this_thread_alone() -> None:
    assert can_flush() and product() > 0
    entered, elsewhere = threading.Event(), []

    def wait() -> None:
        entered.wait(60)
        elsewhere.append(product())

    thread = threading.Thread(target=wait)
    thread.start()
    with denormals_as_zero():
        assert product() == 0
        with denormals_as_zero():
            assert product() == 0
        assert product() == 0
        entered.set()
        thread.join()
    assert product() > 0 and elsewhere[0] > 0
    with pytest.raises(ValueError, match="an error"), denormals_as_zero():
        raise ValueError("an error")
    assert product() > 0


def test_a_call_leaves_the_mode_of_its_thread(tiny_bundle: object) -> None:
    from trivet.evaluation.evaluator import Evaluator

    Evaluator(str(tiny_bundle)).evaluate("Who?", ["The keeper."], "The keeper.")
    assert product() > 0
