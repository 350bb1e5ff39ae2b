"""Which headers of a request go on to a task, and which of its answer come back."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import Scope

from master.api.access import COOKIE, token_headers

Header = tuple[bytes, bytes]
_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"te"),
        *(b"proxy-authorization", b"trailer", b"upgrade"),
    }
)
"""RFC 9110, 7.6.1, but for Transfer-Encoding: how a body is framed is as it was."""


def to_task(scope: Scope) -> list[Header]:
    """Without the caller's token: it is the master's secret, not the task's."""
    given: list[Header] = list(scope["headers"])
    gone = _HOP_BY_HOP | _named_by_connection(given) | {b"expect"} | token_headers(given)
    kept = [(name, value) for name, value in given if name not in gone]
    headers = [(name, value) for name, value in map(_without_token, kept) if value]
    client = scope["client"][0] if scope.get("client") else ""
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    named = {name for name, _ in headers}
    told = {
        b"x-real-ip": client,
        b"x-forwarded-for": client,
        b"x-forwarded-proto": scheme,
    }
    return [
        *headers,
        *((name, value.encode()) for name, value in told.items() if value and name not in named),
    ]


def from_task(headers: Iterable[Header]) -> list[Header]:
    given = list(headers)
    gone = _HOP_BY_HOP | _named_by_connection(given) | {b"transfer-encoding"}
    return [(name, value) for name, value in given if name not in gone]


def _named_by_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    return frozenset(
        word.strip().lower()
        for name, value in headers
        if name == b"connection"
        for word in value.split(b",")
    )


def _without_token(header: Header) -> Header:
    name, value = header
    if name != b"cookie":
        return header
    cookies = [part.strip() for part in value.split(b";")]
    kept = [part for part in cookies if part.partition(b"=")[0].strip() != COOKIE.encode()]
    return name, b"; ".join(kept)
