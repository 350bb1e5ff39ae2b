"""By which names browsers may reach this master.

A page of somebody else can have its own name resolve to our address. Its requests are then of the same origin as the
page, and reach what only this machine may; but they carry that name in `Host`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.types import Scope

from windlass.base.network import parse_address


class KnownHosts:
    """Loopback names, this machine's name, `names`, and the very address that a request came in at.

    A name that begins with a dot stands for all below it. `more`: names of the certificate, which may change.
    """

    def __init__(self, names: Iterable[str], *, more: Callable[[], Iterable[str]] = tuple) -> None:
        self._more = more
        given = {name.lower().rstrip(".") for name in names if name}
        self._names = {socket.gethostname().lower(), *given}
        self._suffixes = tuple(name for name in given | {".localhost"} if name.startswith("."))

    def knows(self, scope: Scope) -> bool:
        """By the `Host` of a request. Without one: no."""
        host = host_in(scope)
        name = _without_port(host).lower().rstrip(".")
        address = parse_address(name)
        if address is not None:
            here = parse_address((scope.get("server") or ("",))[0] or "")
            return (
                address.is_loopback
                or address == here
                or name in self._names
                or any(address == parse_address(other) for other in self._more())
            )
        return (
            name == "localhost"
            or name in self._names
            or name.endswith(self._suffixes)
            or any(_covers(other.lower(), name) for other in self._more())
        )


def _covers(certified: str, name: str) -> bool:
    """`*.example.org` stands for one label, as in certificates."""
    if certified.startswith("*."):
        label, dot, rest = name.partition(".")
        return bool(label and dot) and rest == certified[2:]
    return certified == name


def host_in(scope: Scope) -> str:
    """With its port; empty if there is none, or more than one."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    return given[0].decode("latin-1").strip() if len(given) == 1 else ""


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""


def origin_of(url: str) -> str:
    """As browsers write it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() and ":" not in name else host
