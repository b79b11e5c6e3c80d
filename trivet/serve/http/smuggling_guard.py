"""Requests that two readers may frame in two ways: what the parser lets pass and we do not.

A proxy in front that reads a request's end elsewhere would let a second request through, unseen.
llhttp refuses most of it: two lengths, a length beside chunks, folded lines, bare line feeds.
"""

from __future__ import annotations

from collections.abc import Sequence


def framing_fault(version: str, headers: Sequence[tuple[bytes, bytes]], upgrade: bool) -> str:
    """Return what is wrong with how a request is framed, or ``""``.

    Args:
        version: ``1.1``, as the parser read it.
        headers: Names in lower case, and values.
        upgrade: Whether the parser takes what follows for another protocol.
    """
    if version not in ("1.0", "1.1"):
        return "only HTTP/1.1 and 1.0 are spoken here"
    hosts = [value for name, value in headers if name == b"host"]
    encodings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    lengths = [value for name, value in headers if name == b"content-length"]
    if len(hosts) > 1 or (version == "1.1" and not hosts):
        return "there must be one Host header"
    if encodings and (version == "1.0" or encodings != [b"chunked"]):
        return "the only Transfer-Encoding is chunked, in HTTP/1.1"
    if upgrade and (encodings or lengths not in ([], [b"0"])):
        # The parser drops such a body, and an empty one would be judged.
        return "a body cannot come with an Upgrade header; send HTTP/1.1 without it"
    return ""
