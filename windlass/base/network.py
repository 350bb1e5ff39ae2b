"""Which addresses are of this machine alone."""

from __future__ import annotations

import ipaddress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(text: str) -> IpAddress | None:
    """IPv4 in IPv6 clothes is IPv4. None for what is no address."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Of a host to listen on or to call: an address, or the name `localhost`."""
    address = parse_address(host)
    return address.is_loopback if address else host.lower() == "localhost"
