"""Keeps tasks from the metadata service: rules of the kernel's routing, so that no firewall has to be there.

Packets to the service pass that carry the agent's mark, that belong to the machine's own root processes, or that ask
for a name (Google's resolver has the same address). All others are refused, those of bridged containers too, which this
machine only forwards. As soon as a task is root's, root's processes need the mark as well, until the machine reboots.
"""

from __future__ import annotations

import asyncio
import json
import os
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from agent_bootstrap.agent.metadata.http1 import MARK

FIRST = 5301
"""Of our rules in the kernel's list. Before all that route, behind the machine's own addresses."""
ROOT_RULE, REFUSAL, END = FIRST + 2, FIRST + 3, FIRST + 4
ALWAYS = {FIRST, FIRST + 1, REFUSAL, END}
SERVICES_V6 = ("fd00:ec2::254", "fd20:ce::254")
BRIDGE_ADDRESS = "169.254.170.2"
"""Ours, for containers with a network of their own: SDKs take credentials from there, as from the loopback."""
HAS_V6 = "/proc/net/if_inet6"
SOME_USER = 65530
LIMIT_S = 10.0


class CannotClose(Exception):
    """Says why."""


def closable_address(url: str) -> str | None:
    """Of a machine's metadata service. None: an emulator's on the loopback. Raises ValueError for a name."""
    address = ip_address(urlsplit(url).hostname or "")
    return None if address.is_loopback else str(address)


class Closing:
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
        self._root_too = REFUSAL in known and ROOT_RULE not in known
        await self._lay()
        await _ip("-4", "address", "replace", f"{BRIDGE_ADDRESS}/32", "dev", "lo", "scope", "host")
        await self.require(root=False)

    async def require(self, *, root: bool) -> None:
        """Before each task. `root`: it runs as root."""
        async with self._changing:
            if root and not self._root_too:
                self._root_too = True
                for address in self._addresses:
                    await _ip(_family(address), "rule", "delete", "priority", str(ROOT_RULE))
            user = 0 if self._root_too else SOME_USER
            if not await self._is_closed(user):
                await self._lay()
                if not await self._is_closed(user):
                    raise CannotClose("the kernel or iproute2 does not take the rules for it")

    async def _lay(self) -> None:
        """What is there already stays: the kernel refuses it a second time."""
        for address in self._addresses:
            lines = _rules(address, root_passes=not self._root_too)
            await _ip(_family(address), "-force", "-batch", "-", given="\n".join(lines))

    async def _is_closed(self, user: int) -> bool:
        """The rules are there, and the kernel would not send a packet of that user. Sends none."""
        packet = ("uid", str(user), "ipproto", "tcp", "dport", "80")
        families = {_family(address) for address in self._addresses}
        known, routes = await asyncio.gather(
            asyncio.gather(*map(_priorities, families)),
            asyncio.gather(*(_ip(_family(a), "route", "get", a, *packet) for a in self._addresses)),
        )
        return all(found >= ALWAYS for found in known) and not any(routes)


def _rules(address: str, *, root_passes: bool) -> list[str]:
    """Lines of `ip -batch`. Network managers leave alone what is of the kernel's protocol."""
    passes = {
        FIRST: "ipproto tcp dport 53",
        FIRST + 1: f"fwmark {MARK:#x}",
        ROOT_RULE: "iif lo uidrange 0-0",
    }
    if not root_passes:
        del passes[ROOT_RULE]
    lines = [f"rule add priority {END} protocol kernel nop"]
    for priority, who in passes.items():
        lines.append(f"rule add priority {priority} to {address} {who} protocol kernel goto {END}")
    refused = f"to {address} ipproto tcp protocol kernel prohibit"
    return [*lines, f"rule add priority {REFUSAL} {refused}"]


async def _priorities(family: str) -> set[int]:
    """Of the rules that the kernel has."""
    said = await _ip(family, "-json", "rule", "show")
    return {rule["priority"] for rule in json.loads(said or "[]")}


def _family(address: str) -> str:
    return "-6" if ":" in address else "-4"


async def _ip(*words: str, given: str = "") -> str:
    """What it prints; empty if it fails. Raises CannotClose if there is no such program."""
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
    return said.decode() if program.returncode == 0 else ""
