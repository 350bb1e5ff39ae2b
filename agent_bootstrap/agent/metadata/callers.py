"""Whose the connections to a port of this machine are, as the kernel's table of them says."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TABLE = Path("/proc/net/tcp")
CLOSED = "06"
"""TIME_WAIT: nobody's any more."""

Address = tuple[str, int]


class Connection(NamedTuple):
    local: str
    remote: str
    uid: int


def connections(table: str) -> Iterator[Connection]:
    for line in table.splitlines()[1:]:
        fields = line.split()
        if fields[3] != CLOSED:
            yield Connection(fields[1], fields[2], int(fields[7]))


def held_by_owner_of(peer: Address, ours: Address, table: str) -> int:
    """How many connections to `ours` its user has; one from a network of its own (a container's): its address."""
    here, there = _hex(ours), _hex(peer)
    found = list(connections(table))
    users = {each.local: each.uid for each in found if each.remote == here}
    if there in users:
        return sum(uid == users[there] for uid in users.values())
    host = there.partition(":")[0]
    return sum(
        each.local == here and each.remote not in users and each.remote.startswith(f"{host}:")
        for each in found
    )


def _hex(address: Address) -> str:
    """As in the table: the address as a number of this machine's byte order."""
    host, port = address
    number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    return f"{number:08X}:{port:04X}"
