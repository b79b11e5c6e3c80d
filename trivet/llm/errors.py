"""Reasons why a language model gave no answer."""

from __future__ import annotations


class LlmError(RuntimeError):
    """A call gave no answer. The message never holds a key.

    Attributes:
        code: Short, stable name of the reason: ``unauthorized``, ``unknown_model``,
            ``rate_limited``, ``unreachable``, ``timeout``, ``server_error``, ``bad_request``,
            ``too_long``, ``invalid_answer`` or ``over_budget``.
        fatal: Whether further calls would fail for the same reason, so that a run should stop.
    """

    def __init__(self, message: str, code: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.fatal = fatal


class BudgetError(LlmError):
    """The next call could cost more than what is left of the budget."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "over_budget", fatal=True)
