"""The command line in this process, and its exit code."""

from __future__ import annotations

import sys

import pytest

from trivet.__main__ import main


def exit_code(patch: pytest.MonkeyPatch, *words: object) -> int:
    """Run ``trivet`` with ``words``; return its exit code."""
    patch.setattr(sys, "argv", ["trivet", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
        sys.exit(0)
    return int(caught.value.code or 0)
