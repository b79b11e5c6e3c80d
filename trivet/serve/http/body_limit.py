"""Bodies that are too large are refused by what they claim, before a byte of them is read."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trivet.serve.http.errors import RequestError


class BodyLimit:
    """ASGI middleware; stands inside whatever turns a ``RequestError`` into an answer.

    How many pieces a body may come in, and for how long, is the protocol's business
    (``guarded_protocol``); here its bytes are counted.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        """Guard an app.

        Args:
            app: What reads the bodies.
            max_bytes: The most of one.
        """
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on.

        Raises:
            RequestError: The body claims to be too large; or, where it claims nothing, the app was
                reading it when it became so.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The parser has refused a length that is no number, and two of them.
        claimed = dict(scope["headers"]).get(b"content-length")
        if claimed is not None and int(claimed) > self._max_bytes:
            raise self._refusal(f"the body has {int(claimed)} bytes")
        got = 0

        async def counted() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._max_bytes:
                raise self._refusal(f"the body has at least {got} bytes")
            return message

        await self._app(scope, counted, send)

    def _refusal(self, what: str) -> RequestError:
        return RequestError(
            "too_large",
            f"{what}, more than max_body_bytes={self._max_bytes}; send fewer examples a request, "
            "or raise --max-body-bytes",
        )
