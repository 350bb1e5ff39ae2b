"""Text that is sent as it is made."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from master.api.errors import error_response, status_of
from master.api.http.held import ServerStop, WhileWanted
from windlass.base.errors import WindlassError

log = structlog.get_logger(__name__)


class TextStream(Response):
    """What fails before the second page is an error with its status; later the connection is cut, as CSV has no words
    for it."""

    def __init__(
        self, pages: AsyncGenerator[str, None], closing: ServerStop, *, media_type: str
    ) -> None:
        self.status_code = 200
        self.background = None
        self.body = b""
        self._pages = pages
        self._closing = closing
        self.raw_headers = [(b"content-type", f"{media_type}; charset=utf-8".encode())]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False
        try:
            async with aclosing(self._pages), WhileWanted(receive, self._closing):
                first = [await anext(self._pages, ""), await anext(self._pages, "")]
                start = {"type": "http.response.start", "status": 200}
                await send({**start, "headers": self.raw_headers})
                begun = True
                for page in first:
                    await _chunk(send, page)
                async for page in self._pages:
                    await _chunk(send, page)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except WindlassError as error:
            if begun:
                # Without its last chunk: the server hangs up.
                log.warning("export cut short", path=scope["path"], error=error.message)
            else:
                await error_response(status_of(error), error.message)(scope, receive, send)


async def _chunk(send: Send, page: str) -> None:
    if page:
        await send({"type": "http.response.body", "body": page.encode(), "more_body": True})
