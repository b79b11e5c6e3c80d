"""Annotate a log in a process that a test may kill: ``annotate_process.py WORDS...``.

Prints a line when it has begun, so that a test kills it while it works and not while it imports.
"""

from __future__ import annotations

import sys

import openai  # noqa: F401 (takes longer than the run)

from trivet.__main__ import main

if __name__ == "__main__":
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    main()
