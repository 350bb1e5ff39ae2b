"""Addresses of the network interfaces of this machine."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from fcntl import ioctl
from fnmatch import fnmatchcase

from windlass.base.errors import InvalidConfig

_GET_ADDRESS = 0x8915
"""SIOCGIFADDR of Linux."""


def address_of(interface: str, addresses: Mapping[str, str] | None = None) -> str:
    """IPv4, of the first of that name, or that a pattern fits. Raises InvalidConfig with those that there are."""
    found = ipv4_addresses() if addresses is None else addresses
    for name, address in sorted(found.items()):
        if fnmatchcase(name, interface):
            return address
    known = ", ".join(sorted(found)) or "none"
    raise InvalidConfig(
        [
            f'network_interface: this machine has no "{interface}" with an IPv4 address (it has {known})'
        ],
        what="agent options",
    )


def ipv4_addresses() -> Mapping[str, str]:
    """By name; interfaces without one are left out."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with suppress(OSError):
                found[name] = socket.inet_ntoa(ioctl(any_, _GET_ADDRESS, request)[20:24])
    return found
