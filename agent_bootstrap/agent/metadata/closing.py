"""Keeps tasks from the metadata service: rules of the kernel's routing, so that no firewall has to be there.

Packets to the service pass that come from the agent's ports, that belong to the machine's own root processes, or that
ask for a name (Google's resolver has the same address). All others are refused, those of bridged containers too, which
this machine only forwards. As soon as a task is root's, the machine's own processes are refused as well, until it
reboots.

A refusal alone would not do: any user may bind a socket to a device, and where rules give such a packet no route, the
kernel takes the destination for a neighbour on that device. So there are routes for each device, of a type to which
TCP does not connect.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from agent_bootstrap.agent.metadata.http1 import PORTS

FIRST = 5311
"""Of our rules in the kernel's list. Before all that route, behind the machine's own addresses."""
ROOT_RULE, BOUND, REFUSAL, END = FIRST + 2, FIRST + 3, FIRST + 4, FIRST + 5
ALWAYS = {"-4": {FIRST, FIRST + 1, BOUND, REFUSAL, END}, "-6": {FIRST, FIRST + 1, REFUSAL, END}}
TABLE = FIRST
"""Of routes for packets that are bound to a device."""
SERVICES_V6 = ("fd00:ec2::254", "fd20:ce::254")
BRIDGE_ADDRESS = "169.254.170.2"
"""Ours, for containers with a network of their own: SDKs take credentials from there, as from the loopback."""
HAS_V6 = "/proc/net/if_inet6"
ROOTS_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
SOME_USER = 65530
LIMIT_S = 10.0
LINK_GROUP = 1
"""RTMGRP_LINK: what the kernel tells of network devices."""
LOOK_AGAIN_S = 60.0


class CannotClose(Exception):
    """Says why."""


def closable_address(url: str) -> str | None:
    """Of a machine's metadata service. None: an emulator's on the loopback. Raises ValueError for a name."""
    address = ip_address(urlsplit(url).hostname or "")
    return None if address.is_loopback else str(address)


class MetadataRules:
    """All raise CannotClose."""

    def __init__(self, address: str) -> None:
        self._addresses = (address, *(SERVICES_V6 if Path(HAS_V6).exists() else ()))
        self._root_too = False
        self._changing = asyncio.Lock()

    async def close(self) -> None:
        """At the agent's start. What an earlier agent has closed stays."""
        if os.geteuid() != 0:
            raise CannotClose("the agent is not root")
        known = await _priorities("-4")
        if REFUSAL in known and ROOT_RULE not in known:
            await self._refuse_root()
        await self._lay({})
        await _ip("-4", "address", "replace", f"{BRIDGE_ADDRESS}/32", "dev", "lo", "scope", "host")
        await self.require(root=False)

    async def require(self, *, root: bool) -> None:
        """Before each task. `root`: it runs as root."""
        _require_ports()
        async with self._changing:
            if root and not self._root_too:
                await self._refuse_root()
            devices = await _devices()
            if not await self._is_closed(devices):
                await self._lay(devices)
                if not await self._is_closed(devices):
                    raise CannotClose("the kernel or iproute2 does not take the rules for it")

    async def changes(self) -> AsyncIterator[None]:
        """One now, one whenever a device changes, and one a minute. The kernel forgets what is not read in time."""
        with socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
        ) as events:
            events.setblocking(False)
            events.bind((0, LINK_GROUP))
            loop = asyncio.get_running_loop()
            while True:
                yield
                with suppress(OSError, TimeoutError):
                    async with asyncio.timeout(LOOK_AGAIN_S):
                        await loop.sock_recv(events, 1 << 16)

    async def _refuse_root(self) -> None:
        self._root_too = True
        for address in self._addresses:
            await _ip(_family(address), "rule", "delete", "priority", str(ROOT_RULE))

    async def _lay(self, devices: Mapping[str, int]) -> None:
        """What is there already stays: the kernel refuses it a second time."""
        for address in self._addresses:
            family = _family(address)
            lines = [*_rules(address, root_passes=not self._root_too)]
            if family == "-4":
                lines += _routes(address, devices)
            await _ip(family, "-force", "-batch", "-", given="\n".join(lines))

    async def _is_closed(self, devices: Iterable[str]) -> bool:
        """The rules are there, and the kernel would not send a packet of a task, bound or not. Sends none."""
        families = {_family(address) for address in self._addresses}
        known, routes = await asyncio.gather(
            asyncio.gather(*map(_priorities, families)),
            asyncio.gather(*(self._routes_of_tasks(each, devices) for each in self._addresses)),
        )
        has_rules = all(
            found >= ALWAYS[family] for family, found in zip(families, known, strict=True)
        )
        return has_rules and not any(routes)

    async def _routes_of_tasks(self, address: str, devices: Iterable[str]) -> list[str]:
        """To the service, by the kernel. A device may be gone meanwhile: then there is none by it."""
        user = 0 if self._root_too else SOME_USER
        packet = f"route get {address} uid {user} ipproto tcp dport 80"
        lines = [packet, *(f"{packet} oif {device}" for device in devices)]
        said = await _ip(
            *(_family(address), "-oneline", "-force", "-batch", "-"),
            given="\n".join(lines),
            may_fail=True,
        )
        return [route for route in said.splitlines() if not route.startswith("broadcast ")]


def _require_ports() -> None:
    if int(ROOTS_PORTS.read_text()) < 1024:
        raise CannotClose(f"{ROOTS_PORTS} lets any user have the agent's ports: set 1024")


def _rules(address: str, *, root_passes: bool) -> list[str]:
    """Lines of `ip -batch`. Network managers leave alone what is of the kernel's protocol."""
    passes = {
        FIRST: "ipproto tcp dport 53",
        FIRST + 1: f"iif lo ipproto tcp sport {PORTS[0]}-{PORTS[-1]}",
        ROOT_RULE: "iif lo uidrange 0-0",
    }
    if not root_passes:
        del passes[ROOT_RULE]
    lines = [f"rule add priority {END} protocol kernel nop"]
    for priority, who in passes.items():
        lines.append(f"rule add priority {priority} to {address} {who} protocol kernel goto {END}")
    tcp = f"to {address} ipproto tcp protocol kernel"
    if _family(address) == "-4":
        lines.append(f"rule add priority {BOUND} iif lo {tcp} lookup {TABLE}")
    return [*lines, f"rule add priority {REFUSAL} {tcp} prohibit"]


def _routes(address: str, devices: Mapping[str, int]) -> list[str]:
    """One of each device: they go with it."""
    return [
        f"route replace broadcast {address} dev {device} table {TABLE} metric {index} protocol kernel"
        for device, index in devices.items()
    ]


async def _devices() -> dict[str, int]:
    """The numbers of those that are up, by name. Nothing can be bound to others."""
    said = await _ip("-json", "link", "show", "up")
    return {
        link["ifname"]: link["ifindex"]
        for link in json.loads(said or "[]")
        # For each that is down iproute2 prints {}.
        if link and "LOOPBACK" not in link["flags"]
    }


async def _priorities(family: str) -> set[int]:
    """Of the rules that the kernel has."""
    said = await _ip(family, "-json", "rule", "show")
    return {rule["priority"] for rule in json.loads(said or "[]")}


def _family(address: str) -> str:
    return "-6" if ":" in address else "-4"


async def _ip(*words: str, given: str = "", may_fail: bool = False) -> str:
    """What it prints; empty if it fails, unless it may. Raises CannotClose if there is no such program."""
    try:
        program = await asyncio.create_subprocess_exec(
            "ip",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        raise CannotClose(f"ip (iproute2) cannot be run: {error.strerror}") from None
    try:
        async with asyncio.timeout(LIMIT_S):
            said, _ = await program.communicate(given.encode())
    except TimeoutError:
        program.kill()
        raise CannotClose(f"ip (iproute2) has not ended after {LIMIT_S:.0f} s") from None
    return said.decode() if may_fail or program.returncode == 0 else ""
