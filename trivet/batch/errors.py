"""Reasons why a run stops or does not start; the command line has exit codes for them."""

from __future__ import annotations

from trivet.errors import DataError, ExampleError


class EmptyInputError(DataError):
    """The input has no rows."""


class OutputFullError(OSError):
    """The disk or the quota is full; the run can be resumed."""


class OutputLockedError(DataError):
    """Another process is writing this output."""


class RunChangedError(DataError):
    """The output belongs to a run with another input, bundle or setting."""


class StrictError(ExampleError):
    """A row could not be evaluated, and the run should stop at such a row."""
