"""Things that are built once for all tests of a run, in whichever of its processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest

_FOLDER = "TRIVET_TESTS_FOLDER"


@pytest.fixture(scope="session", autouse=True)
def folder_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Name the folder that all processes of a run share."""
    base = tmp_path_factory.getbasetemp()
    os.environ[_FOLDER] = str(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


def once(name: str, write: Callable[[Path], object]) -> Path:
    """Return a file or folder that the first process to ask has written; tests must not change it.

    Args:
        name: Its name in the folder of the run.
        write: Writes it to the given path, of the same name, whose folder exists.
    """
    folder = Path(os.environ[_FOLDER]) / f"once.{name}"
    with filelock.FileLock(f"{folder}.lock"):
        if not (folder / "whole").exists():
            folder.mkdir(exist_ok=True)
            write(folder / name)
            (folder / "whole").touch()
    return folder / name
