"""Why a run over a log stops, or does not begin; the command line has an exit code for each."""

from __future__ import annotations

import errno

from trivet.records import DataError, ExampleError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutputFullError(OSError):
    """The disk, or what one may write on it, is full; the run can be resumed."""


class OutputLockedError(DataError):
    """Another process writes this output now."""


class RunChangedError(DataError):
    """The output belongs to another run: another input, bundle or setting."""


class StrictError(ExampleError):
    """A row could not be judged, and the run was told to stop at such a row."""


def is_full(error: OSError) -> bool:
    """Say whether an error means that there is no room left."""
    return error.errno in _FULL
