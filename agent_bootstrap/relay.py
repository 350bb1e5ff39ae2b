"""A relay on a login node: nodes of this master's jobs connect to it, and reach the master's port, nothing else.

usage: python -P -m agent_bootstrap.relay --root DIR [--port N] [--host NAME ...]

Its input and output are the pipe to the master, who started it: here, or through SSH. It ends with them.

DIR/relay.json (written; private): {"hosts": [...], "port": N}: where nodes find it
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from agent_bootstrap.channels.mux import Mux
from agent_bootstrap.channels.standard_streams import standard_pipe
from agent_bootstrap.channels.streams import SocketStream, join
from agent_bootstrap.channels.tickets import GREETING, MAX_LINE, NOTICE, is_good, nonce
from agent_bootstrap.channels.transport_server import TransportServer
from agent_bootstrap.interfaces import ipv4_addresses
from windlass.base.files import write_atomic

SHOW_S = 10.0
"""For a node to show that it may."""
MAX_UNKNOWN = 64
"""Connections of one address that have not shown it yet: clients elsewhere keep no node out."""
MAX_CONNECTIONS = 4096


class Relay:
    """Serves until its pipe is over."""

    def __init__(self, root: Path, mux: Mux) -> None:
        self._root = root
        self._mux = mux
        self._unknown: Counter[str] = Counter()
        self._open = 0

    async def serve(self, port: int, hosts: list[str]) -> None:
        """Raises OSError if the port is taken."""
        server = await asyncio.start_server(
            self._take,
            "0.0.0.0",  # noqa: S104  (nodes are on another network)
            port,
            family=socket.AF_INET,
            limit=MAX_LINE,
        )
        told = {"hosts": hosts or own_addresses(), "port": server.sockets[0].getsockname()[1]}
        notice = json.dumps(told).encode()
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(self._root / NOTICE, notice)
        desk = asyncio.create_task(TransportServer(self._root, self._mux.open).run())
        try:
            await self._mux.run()
        finally:
            desk.cancel()
            await asyncio.gather(desk, return_exceptions=True)
            server.close()
            with suppress(OSError):
                if (self._root / NOTICE).read_bytes() == notice:
                    (self._root / NOTICE).unlink()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("",))[0])
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS and self._unknown[address] < MAX_UNKNOWN:
                await self._converse(reader, writer, address)
        except (OSError, ValueError, TimeoutError):
            pass  # the node's problem: it learns of it by the close
        finally:
            self._open -= 1
            writer.close()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        stream = SocketStream(reader, writer)
        self._unknown[address] += 1
        try:
            async with asyncio.timeout(SHOW_S):
                fresh = nonce()
                await stream.write(f"{GREETING} {fresh}\n".encode())
                line = (await reader.readline()).decode("ascii").strip()
                may = await asyncio.to_thread(is_good, line, self._root, fresh)
        finally:
            self._unknown[address] -= 1
            if not self._unknown[address]:
                del self._unknown[address]
        if not may:
            await stream.write(
                b"no it does not know this job: its token is not good, or it is over\n"
            )
            return
        try:
            onward = await self._mux.open()
        except OSError as error:
            await stream.write(f"no {' '.join(str(error).split())}\n".encode())
            return
        await stream.write(b"ok\n")
        await join(stream, onward)


def own_addresses() -> list[str]:
    """Of this machine's interfaces (IPv4), then its name."""
    return [*dict.fromkeys(ipv4_addresses().values()), socket.gethostname()]


async def _main(root: Path, port: int, hosts: list[str]) -> int:
    mux = Mux(await standard_pipe())
    try:
        await Relay(root, mux).serve(port, hosts)
    except OSError as error:
        print(f"the relay cannot listen: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="agent_bootstrap.relay", description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", action="append", default=[])
    given = parser.parse_args()
    os.umask(0o077)
    return asyncio.run(_main(given.root.absolute(), given.port, given.host))


if __name__ == "__main__":
    sys.exit(main())
