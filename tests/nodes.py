"""Two machines on one: network namespaces with an address each, on a bridge that the master listens on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Network:
    master: str
    """The address at which nodes reach what runs outside of them."""
    nodes: tuple[str, ...]
    """Names of the namespaces."""

    def inside(self, node: str) -> tuple[str, ...]:
        """What to put before a command that is to run on a node."""
        return ("ip", "netns", "exec", node)


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)


@contextmanager
def network(count: int) -> Iterator[Network]:
    """Needs root and iproute2; skips with the reason else."""
    if os.geteuid() or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    mark = f"wl{os.getpid()}"
    subnet = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
    nodes = tuple(f"{mark}n{number}" for number in range(count))
    try:
        _ip("link", "add", mark, "type", "bridge")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no bridge can be made here: {error.stderr.decode().strip()}")
    try:
        _ip("addr", "add", f"{subnet}.1/24", "dev", mark)
        _ip("link", "set", mark, "up")
        for number, node in enumerate(nodes):
            _ip("netns", "add", node)
            outside = f"{mark}v{number}"
            _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", node)
            _ip("link", "set", outside, "master", mark, "up")
            _ip("-n", node, "addr", "add", f"{subnet}.{number + 2}/24", "dev", "eth0")
            _ip("-n", node, "link", "set", "eth0", "up")
            _ip("-n", node, "link", "set", "lo", "up")
        yield Network(master=f"{subnet}.1", nodes=nodes)
    finally:
        for node in nodes:
            subprocess.run(("ip", "netns", "del", node), check=False, capture_output=True)
        _ip("link", "del", mark)
