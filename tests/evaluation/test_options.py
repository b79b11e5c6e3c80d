"""Every argument of the constructor that names nothing is refused by name, before any loading."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import trivet
from trivet.errors import BackendError
from trivet.evaluation.evaluator import Evaluator
from trivet.interface import check_threshold

REFUSED: list[tuple[str, Any, type[Exception], str]] = [
    ("bundle", 3, TypeError, "bundle must be a folder or a name, not 3"),
    ("backend", "cuda", BackendError, "no backend 'cuda'; use onnx, .*device='cuda'"),
    ("backend", "openvin", BackendError, "no backend 'openvin'; .*did you mean 'openvino'"),
    ("backend", 3, TypeError, "backend must be a name .* or a loaded backend, not int"),
    ("precision", "fp64", BackendError, "no precision 'fp64'; use fp32, int8, bf16, fp16"),
    ("device", "gpu", BackendError, "no device gpu; use cpu, cuda or cuda:N"),
    *(
        (name, value, kind, f"{name} .*{words}")
        for name in ("threads", "positions", "max_characters", "max_windows")
        for value, kind, words in (
            (0, ValueError, r"\(0\) must be at least 1"),
            ("4", TypeError, "must be a whole number, not '4'"),
            (True, TypeError, "must be a whole number, not True"),
        )
    ),
]


@pytest.mark.parametrize(("name", "value", "kind", "words"), REFUSED)
def test_an_argument_that_names_nothing_is_refused(
    name: str, value: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=f"^{words}"):
        Evaluator(**{name: value})


@pytest.mark.parametrize(
    ("value", "kind", "words"),
    [
        (70, ValueError, r"\[0, 1\], got 70; write 0\.70 for 70 %$"),
        (-0.1, ValueError, r"\[0, 1\], got -0\.1$"),
        (float("nan"), ValueError, r"\[0, 1\], got nan$"),
        ("0.5", TypeError, "a number in .*, not '0.5'"),
    ],
)
def test_a_threshold_outside_0_to_1_is_refused(
    value: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        check_threshold(value)


def parameters(method: Any) -> list[tuple[object, ...]]:
    signature = inspect.signature(method)
    return [(p.name, p.kind, p.default) for p in signature.parameters.values() if p.name != "self"]


@pytest.mark.parametrize("name", ["evaluate", "evaluate_many", "stream"])
def test_evaluators_and_clients_take_the_same_arguments(name: str) -> None:
    wanted = parameters(getattr(Evaluator, name))
    assert wanted[-1] == ("options", inspect.Parameter.VAR_KEYWORD, inspect.Parameter.empty)
    for owner in (trivet.Client, trivet.AsyncClient, trivet, Evaluator):
        # An asynchronous client shows no progress bar.
        left_out = {"progress"} if owner is trivet.AsyncClient else {}
        shown = [parameter for parameter in wanted if parameter[0] not in left_out]
        for method in {name, f"a{name}"} & set(dir(owner)):
            assert parameters(getattr(owner, method)) == shown, (owner, method)
