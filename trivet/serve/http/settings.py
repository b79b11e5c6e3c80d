"""Every limit of the server, with its default. Plain data: nothing here reads a file or a flag."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trivet.records import ConfigError

LogFormat = Literal["json", "text"]

# What may be 0: any free port, no waiting for company, answering nothing more at the end.
_MAY_BE_ZERO = frozenset({"port", "wait_ms", "grace_seconds"})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server listens, what it accepts, and how long it waits.

    Attributes:
        host: The address it listens on.
        port: The port; 0 takes a free one.
        max_body_bytes: Of one request.
        max_contexts: Of one example.
        max_characters: Of one text: question, response or context.
        max_examples: Of one request.
        max_requests: Accepted and unanswered, all together; more are refused with 429.
        max_queued_windows: Laid out and not yet run, of all requests together; the same.
        max_connections: Open at a time; more are refused with 503 and closed.
        wait_ms: How long an engine call waits for company.
        default_timeout_ms: Of a request that names none; ``None`` is ``max_timeout_ms``.
        max_timeout_ms: The longest that a request may ask for.
        header_timeout_seconds: From a request's first byte, or the connection's beginning, to the
            end of its headers.
        body_timeout_seconds: From there to the end of the body.
        idle_timeout_seconds: Between two requests on one connection.
        max_header_bytes: Request line and headers of one request.
        max_headers: Of one request.
        max_body_chunks: Pieces in which one body may come; each costs time, however small.
        grace_seconds: How long work in flight may go on after SIGTERM.
        keys_file: One key a line; without it whoever reaches the server may use it.
        insecure: Listen beyond this machine without keys.
        tls_cert: PEM file of the certificate, its chain included.
        tls_key: PEM file of its private key.
        canary_seconds: Between two checks of the engine.
        hung_seconds: An engine call that runs longer is taken for hung.
        log_format: One JSON object a line, or plain text.
        access_log: A line for each request; never any of its text.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    max_body_bytes: int = 2_000_000
    max_contexts: int = 256
    max_characters: int = 2_000_000
    max_examples: int = 64
    max_requests: int = 512
    max_queued_windows: int = 4096
    max_connections: int = 512
    wait_ms: float = 2.0
    default_timeout_ms: float | None = None
    max_timeout_ms: float = 60_000
    header_timeout_seconds: float = 10
    body_timeout_seconds: float = 20
    idle_timeout_seconds: float = 15
    max_header_bytes: int = 32_768
    max_headers: int = 100
    max_body_chunks: int = 16_384
    grace_seconds: float = 30
    keys_file: Path | None = None
    insecure: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    canary_seconds: float = 10
    hung_seconds: float = 30
    log_format: LogFormat = "json"
    access_log: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot work, and an open door that nobody asked for.

        Raises:
            ConfigError: A limit is out of range, TLS is half given, or the address can be reached
                from other machines although there is neither a key nor ``insecure``.
        """
        for field in dataclasses.fields(self):
            self._check_number(field.name)
        if self.port > 65535:
            raise ConfigError(f"port ({self.port}) must be at most 65535; 0 takes a free one")
        if self.default_timeout_ms is not None and self.default_timeout_ms > self.max_timeout_ms:
            raise ConfigError(
                f"default_timeout_ms ({self.default_timeout_ms:g}) must not exceed max_timeout_ms "
                f"({self.max_timeout_ms:g})"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("tls_cert", "tls_key") if self.tls_cert else ("tls_key", "tls_cert")
            raise ConfigError(f"{given} is given without {missing}; TLS needs both")
        if not is_loopback(self.host) and self.keys_file is None and not self.insecure:
            raise ConfigError(
                f"host {self.host} can be reached from other machines, and no key is asked of "
                "anyone; give a file of keys (--keys FILE), or say that it is meant (--insecure)"
            )

    def _check_number(self, name: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        least = "at least 0" if name in _MAY_BE_ZERO else "above 0"
        if not math.isfinite(value) or value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
            raise ConfigError(f"{name} ({value:g}) must be {least} and finite")


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone.

    Args:
        host: An address, or ``localhost``; any other name counts as reachable from elsewhere.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
