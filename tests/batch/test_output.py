"""The file that a run appends to: full disks, locks, files that cannot be opened."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from trivet.batch.output import Output, OutputFullError, raise_on_full_disk


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_the_disk_may_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def full(file: int) -> None:
        raise OSError(number, os.strerror(number))

    synced = []
    with Output(tmp_path / "out") as output:
        output.append(b"nothing")
        output.cut(0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
            output.append(b"one\n")
        assert synced == [4]
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OutputFullError, match=r"out: .*free some space"):
                output.append(b"two\n")
        assert output.size == 4
        output.append(b"three\n")
    assert (tmp_path / "out").read_bytes() == b"one\nthree\n"


def test_other_errors_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), raise_on_full_disk(tmp_path):
        raise PermissionError(errno.EACCES, "no")
