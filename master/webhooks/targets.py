"""Which addresses webhooks may call: not those of the master's own machine, nor where clouds keep credentials."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from windlass.base.errors import InvalidArgument

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_PORTS = {"http": 80, "https": 443}
_METADATA = (ipaddress.ip_network("fd00:ec2::/32"), ipaddress.ip_network("100.100.100.200/32"))
"""Of AWS by IPv6, and of Alibaba; those of others are link-local."""
_WITH_IPV4 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96"))
"""Networks of which the last 32 bits are an IPv4 address: that of translators, and an old one."""
MAX_URL = 2_000
"""Characters."""


class Refused(Exception):
    """It may not be called. Says why."""


class Endpoint(NamedTuple):
    """Where to connect to."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Targets:
    """`webhooks.allowed_targets` of master.yaml."""

    allowed: Sequence[str] = ()
    """Names of hosts, and networks. Without any, everything may be called but what is local."""

    def require_url(self, url: str) -> None:
        """Raises InvalidArgument for what no webhook could call."""
        if len(url) > MAX_URL:
            raise InvalidArgument(f"url: has {len(url)} characters, more than {MAX_URL}")
        parts = _parts(url)
        if parts is None:
            raise InvalidArgument(
                "url: valid url required: it begins with http:// or https:// and names a host"
            )
        if parts.username is not None or parts.password is not None:
            raise InvalidArgument("url: must not hold a name or a password: the list shows it")
        host = parts.hostname or ""
        if (address := _literal(host)) is not None and (why := self._problem(host, address)):
            raise InvalidArgument(f"url: {why}")

    async def resolve(self, url: str) -> Endpoint:
        """The first address of its host that may be called. Raises Refused, OSError if the host has none."""
        parts = _parts(url)
        if parts is None:
            raise Refused("its URL names no host")
        host = parts.hostname or ""
        port = parts.port or _PORTS[parts.scheme]
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        why = f"{host} has no address"
        for *_, place in found:
            address = ipaddress.ip_address(str(place[0]).partition("%")[0])
            problem = self._problem(host, address)
            if problem is None:
                return Endpoint(str(address), port)
            why = problem
        raise Refused(why)

    def _problem(self, host: str, address: Address) -> str | None:
        """Why it may not be called."""
        address = _within(address)
        if host.lower() in (name.lower() for name in self.allowed) or any(
            address in network for network in self._networks()
        ):
            return None
        if self.allowed:
            return f"{host} ({address}) is not in webhooks.allowed_targets of master.yaml"
        for kind, is_one in (
            ("loopback", address.is_loopback),
            ("link-local", address.is_link_local or any(address in one for one in _METADATA)),
            ("unspecified", address.is_unspecified),
            ("multicast", address.is_multicast),
        ):
            if is_one:
                return (
                    f"{host} is a {kind} address ({address}), which webhooks do not call unless "
                    "webhooks.allowed_targets of master.yaml names it"
                )
        return None

    def _networks(self) -> list[Network]:
        found: list[Network] = []
        for one in self.allowed:
            try:
                found.append(ipaddress.ip_network(one, strict=False))
            except ValueError:  # a name
                continue
        return found


def _parts(url: str) -> SplitResult | None:
    """None for what is no URL of a web server."""
    try:
        parts = urlsplit(url)
        _ = parts.port
        (parts.hostname or "").encode("idna")  # what is looked up
    except ValueError:
        return None
    return parts if parts.scheme in _PORTS and parts.hostname and url.isprintable() else None


def _within(address: Address) -> Address:
    """The IPv4 address that is reached by an IPv6 address, if one is."""
    if (
        not isinstance(address, ipaddress.IPv6Address)
        or address.is_loopback
        or address.is_unspecified
    ):
        return address
    if (inner := address.ipv4_mapped or address.sixtofour) is not None:
        return inner
    if any(address in network for network in _WITH_IPV4):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
