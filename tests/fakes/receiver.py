"""A receiver of webhooks: a real server on 127.0.0.1 that answers as told, and remembers what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    port: int = 0
    answers: list[str] = field(default_factory=list)
    """Heads of the next answers, such as `503 X` or `302 X\\r\\nLocation: http://x`; then 200. Empty: it closes."""
    received: list[Received] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared: callers wait."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def until(self, number: int) -> None:
        """Return when so many calls came."""
        while len(self.received) < number:
            self.came.clear()
            await self.came.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.received.append(Received(first.split()[1], headers, body))
            self.came.set()
            await self.may_answer.wait()
            answer = self.answers.pop(0) if self.answers else "200 OK"
            if answer:
                writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    made.may_answer.set()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        made.may_answer.set()
        server.close()
