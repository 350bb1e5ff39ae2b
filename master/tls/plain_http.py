"""A request in plain HTTP on a port that speaks TLS gets an answer that says so, instead of a broken connection."""

from __future__ import annotations

import json
import re
import ssl
from typing import Any

SENTENCE = "this port speaks HTTPS only"
WAY_OUT = (
    "write {url} for the URL of the master: -m or DET_MASTER of a client, master_url of an agent"
)
_HOST = re.compile(rb"\r\nhost:[ \t]*([A-Za-z0-9.:\[\]-]{1,255})[ \t]*\r\n", re.IGNORECASE)


def reply_to(request: bytes) -> bytes:
    """With the URL that would be right, if the request names a host."""
    called = _HOST.search(request)
    url = "https://" + (called[1].decode() if called else "")
    text = f"{SENTENCE}: {WAY_OUT.format(url=url)}"
    body = json.dumps({"error": {"code": 3, "reason": "invalid_argument", "error": text}}).encode()
    return (
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
        b"Connection: close\r\n\r\n%b" % (len(body), body)
    )


class _ServerSide(ssl.SSLObject):
    """One handshake of the master. A TLS client begins with the byte 0x16, an HTTP client with a letter."""

    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    is_plain: bool | None = None
    """None: nothing has come yet."""

    def do_handshake(self) -> None:
        if self.is_plain is None:
            came = self.incoming.read()
            self.incoming.write(came)
            if came:
                self.is_plain = came[:1].isalpha()
                if self.is_plain:
                    self.outgoing.write(reply_to(came))
        if self.is_plain:
            self.incoming.read()
            # What was written is sent when more is wanted. The client hangs up then, or is cut as too slow.
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, SENTENCE)
        super().do_handshake()


class MasterContext(ssl.SSLContext):
    """For the server side, by `asyncio`."""

    sslobject_class: type[ssl.SSLObject] = _ServerSide

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *rest: Any, **named: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *rest, **named)
        if isinstance(made, _ServerSide):
            made.incoming, made.outgoing = incoming, outgoing
        return made
