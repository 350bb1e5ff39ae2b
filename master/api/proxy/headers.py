"""Which headers of a request go on to a task, and which of its answer come back."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.requests import cookie_parser
from starlette.types import Scope

from master.api.access import COOKIE, token_headers

Header = tuple[bytes, bytes]
SERVICE_COOKIE = "service"
"""With the token of one service, for the paths of this service."""
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


def service_token(scope: Scope) -> str:
    """As the address of a notebook has it, as its clients send it, or as a browser keeps it; empty: none."""
    headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
    kind, _, sent = headers.get(b"authorization", b"").decode("latin-1").strip().partition(" ")
    if kind.lower() == "token":
        return sent.strip()
    cookies: dict[str, str] = cookie_parser(headers.get(b"cookie", b"").decode("latin-1"))
    return in_query(scope) or cookies.get(SERVICE_COOKIE, "")


def in_query(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return parse_qs(query.decode("latin-1")).get("token", [""])[0]


def kept_by_browser(scope: Scope, name: str, token: str) -> Header:
    """The header that makes a browser send the token with everything that a page of the service asks for."""
    secure = "; Secure" if scope["scheme"] in ("https", "wss") else ""
    cookie = f"{SERVICE_COOKIE}={token}; Path=/proxy/{name}/; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", cookie.encode("latin-1")


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
    own = (COOKIE.encode(), SERVICE_COOKIE.encode())
    kept = [part for part in cookies if part.partition(b"=")[0].strip() not in own]
    return name, b"; ".join(kept)
