"""API keys: read from a file, reloaded when it changes, never revealed."""

from __future__ import annotations

import hmac
import logging
import os
from pathlib import Path

import pytest

from trivet.errors import ConfigError
from trivet.serve.http.keys import KeyRing


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("# for the dashboard\nalpha-0123456789\n\n  beta-0123456789  \r\n")
    path.chmod(0o600)
    return path


def replace(file: Path, text: str) -> None:
    """Write a file as rotation should: beside it, then in its place."""
    beside = file.with_name("beside")
    beside.write_text(text)
    beside.chmod(0o600)
    beside.replace(file)


@pytest.mark.parametrize(
    ("authorization", "accepted"),
    [
        ("Bearer alpha-0123456789", True),
        ("bearer beta-0123456789", True),
        ("Bearer  alpha-0123456789 ", True),
        ("Bearer alpha-012345678", False),
        ("Bearer alpha-01234567890", False),
        ("Bearer ALPHA-0123456789", False),
        ("Bearer # for the dashboard", False),
        ("Bearer ", False),
        ("Bearer", False),
        ("Basic alpha-0123456789", False),
        ("alpha-0123456789", False),
        ("Bearer \udcff\u00e9", False),
        ("", False),
        (None, False),
    ],
)
def test_only_a_known_key_passes(file: Path, authorization: str | None, accepted: bool) -> None:
    assert KeyRing.read(file).accepts(authorization) == accepted


def test_keys_follow_the_file_and_stay_secret(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ring = KeyRing.read(file)
    replace(file, "beta-0123456789\ngamma-0123456789\n")
    for key, accepted in (("alpha", False), ("beta", True), ("gamma", True)):
        assert ring.accepts(f"Bearer {key}-0123456789") == accepted
    assert len(ring) == 2
    assert caplog.records
    for text in (caplog.text, repr(vars(ring)), repr(ring)):
        assert "0123456789" not in text


def test_no_empty_line_of_any_kind_is_a_key(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf\r\n \t\r\n\rgamma-0123456789\r\n\n\x0b\n")
    ring = KeyRing.read(file)
    assert len(ring) == 1
    assert ring.accepts("Bearer gamma-0123456789")
    assert not any(ring.accepts(f"Bearer {empty}") for empty in ("", " ", "\ufeff", "\x0b", "\r"))


@pytest.mark.parametrize("text", [None, "", "# none\n", "a b\n", "\udcff"])
def test_a_file_that_breaks_or_goes_away_changes_nothing_and_is_logged_once(
    file: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    ring = KeyRing.read(file)
    if text is None:
        file.unlink()
    else:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        os.utime(file, ns=(1, 1))
    for _ in range(3):
        assert ring.accepts("Bearer alpha-0123456789")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "the keys stay as they were" in caplog.text
    replace(file, "gamma-0123456789\n")
    assert ring.accepts("Bearer gamma-0123456789")
    assert not ring.accepts("Bearer alpha-0123456789")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no key; write one per line"),
        ("good-key\nbad key\n", "line 2 is not a key that a header can carry"),
        ("schlüssel-geheim\n", "line 1 is not a key"),
        ("a\x00b\n", "line 1 is not a key"),
        ("a\x0bb\n", "line 1 is not a key"),  # and not two short ones
        ("a\u2028b\n", "line 1 is not a key"),
        ("\udcff\udcfe", "cannot be read: it is not UTF-8"),
    ],
)
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "keys"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=message) as refusal:
        KeyRing.read(file)
    assert str(file) in str(refusal.value)
    assert not {"bad key", "geheim"} & set(str(refusal.value).split())


def test_a_world_readable_file_is_reported(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    KeyRing.read(file)
    assert not caplog.records
    file.chmod(0o644)
    KeyRing.read(file)
    assert "every user of this machine can read the keys; chmod 600 it" in caplog.text


def test_keys_are_compared_in_constant_time(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing.read(file)
    compared: list[tuple[int, int]] = []

    def compare(digest: bytes, known: bytes) -> bool:
        compared.append((len(digest), len(known)))
        return digest == known

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert ring.accepts("Bearer alpha-0123456789")  # the first fits, and the second is tried too
    assert not ring.accepts("Bearer x")
    assert compared == [(32, 32)] * 4
