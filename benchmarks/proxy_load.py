"""A task that serves HTTP and TCP as fast as it can, and clients of it that cost little, for `bench_proxy`."""

from __future__ import annotations

import http.client
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

MIB = 1 << 20
PIECE = bytes(1 << 16)
SERVER = """
import asyncio, sys
BLOCK = bytes(1 << 20)

async def give(writer, mib):
    for _ in range(mib):
        writer.write(BLOCK)
        await writer.drain()

async def take(reader, size):
    while size > 0:
        size -= len(await reader.read(1 << 18))

async def answer(reader, writer):
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    mib = int(head.split(b"mib=")[1].split()[0])
    if head.startswith(b"POST"):
        await take(reader, mib << 20)
        mib = 0
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % (mib << 20))
    await give(writer, mib)
    writer.close()

async def plain(reader, writer):
    word, mib = (await reader.readline()).split()
    if word == b"down":
        await give(writer, int(mib))
    elif word == b"up":
        await take(reader, int(mib) << 20)
        writer.write(b"k")
    await reader.read()
    writer.close()

async def main():
    await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]), limit=1 << 20)
    await asyncio.start_server(plain, "127.0.0.1", int(sys.argv[2]), limit=1 << 20)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@dataclass(frozen=True)
class Target:
    """A port of the task: itself, or as the master leads to it."""

    host: str
    port: int
    path: str = "/"
    token: str = ""
    """Of the master; empty: this is the port itself."""

    def download(self, mib: int) -> None:
        assert self._ask("GET", mib) == mib * MIB

    def upload(self, mib: int) -> None:
        assert self._ask("POST", mib) == 0

    def receive(self, mib: int) -> None:
        """Over TCP, through the master in a WebSocket."""
        with closing(self.connect()) as tcp:
            tcp.write(b"down %d\n" % mib)
            left = mib * MIB
            while left > 0:
                left -= len(tcp.read())

    def send(self, mib: int) -> None:
        with closing(self.connect()) as tcp:
            tcp.write(b"up %d\n" % mib)
            for _ in range(mib * MIB // len(PIECE)):
                tcp.write(PIECE)
            assert tcp.read() == b"k"

    def connect(self) -> Tcp:
        address = (self.host, self.port)
        return Tunnel(address, self.path, self.token) if self.token else Tcp(address)

    def _ask(self, method: str, mib: int) -> int:
        """The bytes of the answer."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=120)) as connection:
            body: Iterator[bytes] | None = None
            if method == "POST":
                headers["Content-Length"] = str(mib * MIB)
                body = (PIECE for _ in range(mib * MIB // len(PIECE)))
            connection.request(method, f"{self.path}?mib={mib}", body, headers)
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            size = 0
            while block := reply.read(1 << 18):
                size += len(block)
            return size


class Tcp:
    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=120)

    def read(self) -> bytes:
        data = self._socket.recv(1 << 18)
        assert data, "it was closed"
        return data

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()


class Tunnel(Tcp):
    """TCP in a WebSocket. Nothing is masked but by zeros: a client that masks in Python would measure itself."""

    def __init__(self, address: tuple[str, int], path: str, token: str) -> None:
        super().__init__(address)
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {os.urandom(16).hex()[:22]}==\r\n"
            f"Authorization: Bearer {token}\r\n\r\n".encode()
        )
        self._came = self._socket.makefile("rb", 1 << 18)
        status = self._came.readline()
        assert b" 101 " in status, status
        while self._came.readline().strip():
            pass

    def read(self) -> bytes:
        while True:
            kind, size = self._came.read(2)
            if size == 126:
                (size,) = struct.unpack("!H", self._came.read(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._came.read(8))
            data: bytes = self._came.read(size)
            if kind & 15 == 2:
                return data
            assert kind & 15 != 8, data

    def write(self, data: bytes) -> None:
        self._socket.sendall(b"\x82" + struct.pack("!BQ4x", 0x80 | 127, len(data)) + data)

    def close(self) -> None:
        self._came.close()
        super().close()
