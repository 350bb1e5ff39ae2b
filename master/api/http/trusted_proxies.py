"""Who called, as a proxy before us says: believed of those that `security.trusted_proxies` names, of nobody else."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.base.network import parse_address

log = structlog.get_logger(__name__)

_FOR, _PROTO, _HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_WEBSOCKET = {"http": "ws", "https": "wss"}
MAX_WARNINGS = 20


class TrustedProxies:
    """ASGI middleware: sets client, scheme and `Host` of a request to what its first trusted proxy saw."""

    def __init__(self, app: ASGIApp, trusted: Sequence[str]) -> None:
        self._app = app
        self._networks = [ipaddress.ip_network(one, strict=False) for one in trusted]
        self._warned: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and scope.get("client"):
            peer = scope["client"][0]
            if self._trusts(peer):
                scope = self._told(scope)
            elif any(name == _FOR for name, _ in scope["headers"]):
                self._warn(peer)
        await self._app(scope, receive, send)

    def _trusts(self, peer: str) -> bool:
        address = parse_address(peer)
        return address is not None and any(address in network for network in self._networks)

    def _told(self, scope: Scope) -> Scope:
        scope = dict(scope)
        proto = _last(scope, _PROTO).lower()
        if proto in _WEBSOCKET:
            scope["scheme"] = _WEBSOCKET[proto] if scope["type"] == "websocket" else proto
        if host := _last(scope, _HOST):
            others = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope["headers"] = [*others, (b"host", host.encode("latin-1"))]
        for hop in reversed(_values(scope, _FOR)):
            address = parse_address(_address(hop))
            if address is None:
                break
            scope["client"] = (str(address), 0)
            if not self._trusts(str(address)):
                break
        return scope

    def _warn(self, peer: str) -> None:
        if peer not in self._warned and len(self._warned) < MAX_WARNINGS:
            self._warned.add(peer)
            log.warning(
                "requests come through a proxy that security.trusted_proxies does not name: "
                "all its callers count as one address",
                proxy=peer,
            )


def _values(scope: Scope, header: bytes) -> list[str]:
    """Of all headers of that name, from left to right."""
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == header]
    return [value.strip() for line in lines for value in line.split(",") if value.strip()]


def _last(scope: Scope, header: bytes) -> str:
    return (_values(scope, header) or [""])[-1]


def _address(hop: str) -> str:
    """Some proxies add a port."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
