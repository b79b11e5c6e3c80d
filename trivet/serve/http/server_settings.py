"""Server settings: the options of ``trivet serve`` and the table in the docs are made from them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from trivet.errors import ConfigError
from trivet.settings import Setting, check_ranges

LogFormat = Literal["json", "text"]

_HOST = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\]"
# As browsers send it: without a path, and without the port that the scheme has anyway.
_ORIGIN = re.compile(
    rf"http://(?:{_HOST})(?::(?!80$)\d{{1,5}})?|https://(?:{_HOST})(?::(?!443$)\d{{1,5}})?"
)

_limit = partial(Setting, panel="Limits", above=0)
_wait = partial(Setting, panel="Limits", least=0)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Address, limits and timeouts of a server; each field holds its own description."""

    host: Annotated[str, Setting("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Setting("Port; 0 takes a free one.", least=0, most=65535)] = 8080
    keys_file: Annotated[
        Path | None, Setting("File of API keys, one per line; read again on change.", "--keys")
    ] = None
    insecure: Annotated[bool, Setting("Allow a public address without keys.")] = False
    tls_cert: Annotated[Path | None, Setting("Certificate chain, PEM.")] = None
    tls_key: Annotated[Path | None, Setting("Private key of the certificate, PEM.")] = None
    max_body_bytes: Annotated[int, _limit("Maximum bytes of a request.")] = 2_000_000
    max_contexts: Annotated[int, _limit("Maximum contexts of an example.")] = 256
    max_characters: Annotated[int, _limit("Maximum characters of a text.")] = 2_000_000
    max_examples: Annotated[int, _limit("Maximum examples of a request.")] = 64
    max_requests: Annotated[int, _limit("Maximum unanswered requests; others get 429.")] = 512
    max_queued_windows: Annotated[int, _limit("Maximum queued windows; others get 429.")] = 4096
    max_connections: Annotated[int, _limit("Maximum open connections; others wait.")] = 512
    wait_ms: Annotated[float, _wait("Longest wait to fill a backend call.")] = 2.0
    default_timeout_ms: Annotated[
        float | None,
        _limit("Default timeout of a request; the maximum if not given.", "--timeout-ms"),
    ] = None
    max_timeout_ms: Annotated[float, _limit("Longest timeout of a request.")] = 60_000.0
    header_timeout_seconds: Annotated[
        float, _limit("Seconds for a client to send headers, idle time included.")
    ] = 15.0
    body_timeout_seconds: Annotated[float, _limit("Seconds for a client to send a body.")] = 20.0
    grace_seconds: Annotated[float, _wait("Seconds for a shutdown to finish work.")] = 30.0
    canary_seconds: Annotated[float, _limit("Seconds between health checks of the backend.")] = 10.0
    hung_seconds: Annotated[float, _limit("Seconds until a backend call counts as hung.")] = 30.0
    cors: Annotated[
        list[str] | None,
        Setting("Origin of a page that may ask, such as https://app.example. Repeatable."),
    ] = None
    log_format: Annotated[LogFormat, Setting("Format of the log on stderr.")] = "json"
    access_log: Annotated[bool, Setting("Log each request, without its text.")] = True

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ConfigError: A number is out of range, an origin is none, TLS is half given, or the
                address is public and neither keys nor ``insecure`` are given.
        """
        check_ranges(self)
        for origin in self.cors or ():
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"--cors: {origin} is not a valid origin; write the scheme, the host in "
                    "small letters and the port if there is one, without a path: "
                    "https://app.example or http://localhost:3000"
                )
        if self.default_timeout_ms is not None and self.default_timeout_ms > self.max_timeout_ms:
            raise ConfigError(
                f"--timeout-ms ({self.default_timeout_ms:g}) must not exceed --max-timeout-ms "
                f"({self.max_timeout_ms:g})"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            present, missing = ("cert", "key") if self.tls_cert else ("key", "cert")
            raise ConfigError(f"--tls-{present} is given without --tls-{missing}; TLS needs both")
        if not is_loopback(self.host) and self.keys_file is None and not self.insecure:
            raise ConfigError(
                f"--host {self.host} can be reached from other machines, and no API key is "
                "required; give a file of keys (--keys FILE), or allow it (--insecure)"
            )

    @property
    def url(self) -> str:
        """URL of the server, for a client on the same machine."""
        scheme = "https" if self.tls_cert else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Return whether an IP address, or ``localhost``, is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
