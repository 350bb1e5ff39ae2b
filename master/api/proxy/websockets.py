"""WebSockets to a task: to a WebSocket of its own, or to a plain TCP port."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress

from starlette.types import Message, Receive, Scope, Send
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from agent_bootstrap.channels.streams import Stream
from master.api.proxy.headers import from_task, to_task
from master.api.proxy.http import NoTaskAnswer

NORMAL, GOING_AWAY, INTERNAL = 1000, 1001, 1011
MAX_CLOSE_BYTES = 123
"""Of the reason in a close frame."""
TOO_BIG = 1009
MAX_FROM_TASK_BYTES = 64 * 1024 * 1024
"""Of one message of a task: it is held until it is whole. Plots in notebooks have some MiB."""
DRAIN_S = 30.0
"""For a task to take what a client sent before it left."""
_HANDSHAKE = frozenset(
    {
        *(b"sec-websocket-key", b"sec-websocket-version", b"sec-websocket-extensions"),
        *(b"sec-websocket-protocol", b"host", b"content-length", b"transfer-encoding"),
    }
)
_UNSAID_CODES = (1005, 1006)
"""No close frame may carry them."""


async def to_tcp(receive: Receive, send: Send, stream: Stream) -> None:
    """Binary frames are bytes of the connection. It is closed (1000) when the task has sent all.

    An empty frame of the client says that it has sent all, and still listens.
    """
    await receive()  # websocket.connect
    await send({"type": "websocket.accept"})

    async def take() -> None:
        while (message := await receive())["type"] != "websocket.disconnect":
            if data := _bytes(message):
                await stream.write(data)
            else:
                await stream.end()
        await stream.end()

    async def give() -> Message:
        while data := await stream.read():
            await _unless_gone(send, {"type": "websocket.send", "bytes": data})
        return _closed(NORMAL)

    await _carry(take(), give(), send)


async def _carry(
    take: Coroutine[None, None, None], give: Coroutine[None, None, Message], send: Send
) -> None:
    """Both ways, until one of them is over. What a client sent before it left still reaches the task.

    `take`: from the client, until it has left. `give`: from the task, until it has sent all; how that is told.
    """
    taking, giving = asyncio.create_task(take), asyncio.create_task(give)
    try:
        await asyncio.wait([taking, giving], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([giving], timeout=DRAIN_S)
        if not (taking.done() and taking.exception() is None):  # the client is still there
            await _unless_gone(send, _close(giving))
    finally:
        for task in (taking, giving):
            task.cancel()
        await asyncio.gather(taking, giving, return_exceptions=True)


def _close(giving: asyncio.Task[Message]) -> Message:
    """What the client is told. Raises what is no fault of the connection."""
    if not giving.done():
        return _closed(GOING_AWAY, "the task takes nothing any more")
    error = giving.exception()
    if isinstance(error, OSError):
        return _closed(GOING_AWAY, str(error))
    return giving.result()


def _closed(code: int, reason: str = "") -> Message:
    short = reason.encode()[:MAX_CLOSE_BYTES].decode(errors="ignore")
    return {"type": "websocket.close", "code": code, "reason": short}


async def _unless_gone(send: Send, message: Message) -> None:
    with suppress(OSError):  # as servers raise it for a client that has left
        await send(message)


def _bytes(message: Message) -> bytes:
    data = message.get("bytes")
    return data if data is not None else str(message.get("text") or "").encode()


class Bridge:
    """Between a client's WebSocket and one of the task's, opened first. Raises NoAnswer before the client has one."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, stream: Stream) -> None:
        self._receive = receive
        self._send = send
        self._stream = stream
        self._scope = scope
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        host = dict(scope["headers"]).get(b"host", b"localhost").decode("latin-1")
        self._task = ClientProtocol(
            parse_uri(f"ws://{host}{path}" + (f"?{query}" if query else "")),
            subprotocols=[Subprotocol(name) for name in scope.get("subprotocols", ())] or None,
            max_size=MAX_FROM_TASK_BYTES,
        )
        self._parts: list[bytes] = []
        self._is_text = False
        self._flushing = asyncio.Lock()

    async def run(self) -> None:
        await self._receive()  # websocket.connect
        await self._shake_hands()
        await _carry(self._take(), self._give(), self._send)

    async def _give(self) -> Message:
        while await self._pass_frames() and (data := await self._stream.read()):
            self._task.receive_data(data)
            await self._flush()
        return self._close_message()

    async def _shake_hands(self) -> None:
        request = self._task.connect()
        for name, value in to_task(self._scope):
            if name not in _HANDSHAKE:
                request.headers[name.decode("latin-1")] = value.decode("latin-1")
        self._task.send_request(request)
        try:
            await self._flush()
            while not (events := self._task.events_received()):
                data = await self._stream.read()
                if not data:
                    raise NoTaskAnswer("it closed the connection without an answer")
                self._task.receive_data(data)
        except OSError as error:
            raise NoTaskAnswer(str(error)) from None
        if self._task.handshake_exc is not None:
            raise NoTaskAnswer(_why(self._task.handshake_exc, events[0]))
        answer = events[0]
        headers = [
            (name, value)
            for name, value in from_task(
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in (
                    answer.headers.raw_items() if isinstance(answer, Response) else ()
                )
            )
            if not name.startswith(b"sec-websocket-") and name != b"content-length"
        ]
        accepted = {"type": "websocket.accept", "headers": headers}
        await self._send({**accepted, "subprotocol": self._task.subprotocol})
        await self._pass(events[1:])

    async def _pass_frames(self) -> bool:
        await self._pass(self._task.events_received())
        return self._task.close_rcvd is None and self._task.parser_exc is None

    async def _pass(self, events: Sequence[object]) -> None:
        for event in events:
            if not isinstance(event, Frame) or event.opcode not in (
                *(Opcode.TEXT, Opcode.BINARY, Opcode.CONT),
            ):
                continue
            if event.opcode is not Opcode.CONT:
                self._is_text = event.opcode is Opcode.TEXT
            self._parts.append(bytes(event.data))
            if event.fin:
                data, self._parts = b"".join(self._parts), []
                body = {"text": data.decode(errors="replace")} if self._is_text else {"bytes": data}
                await _unless_gone(self._send, {"type": "websocket.send", **body})

    async def _take(self) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            if self._task.state is not State.OPEN:
                continue  # the task has closed it, and the client will see so
            if message.get("text") is not None:
                self._task.send_text(str(message["text"]).encode())
            else:
                self._task.send_binary(message.get("bytes") or b"")
            await self._flush()
        if self._task.state is not State.OPEN:
            return
        code = message.get("code", NORMAL)
        self._task.send_close(NORMAL if code in _UNSAID_CODES else code)
        await self._flush()

    async def _flush(self) -> None:
        # A long message takes many writes, and no pong may come between them.
        async with self._flushing:
            for data in self._task.data_to_send():
                if data:
                    await self._stream.write(data)

    def _close_message(self) -> Message:
        close = self._task.close_rcvd
        if isinstance(self._task.parser_exc, PayloadTooBig):
            most = MAX_FROM_TASK_BYTES // 1024**2
            return _closed(TOO_BIG, f"the task sent a message of more than {most} MiB")
        if close is None:
            return _closed(INTERNAL, "the task is gone")
        return _closed(NORMAL if close.code in _UNSAID_CODES else close.code, close.reason)


def _why(error: Exception, answer: object) -> str:
    if isinstance(answer, Response):
        return f"it answered HTTP {answer.status_code} to a WebSocket"
    return str(error) if isinstance(error, InvalidHandshake) else "it answered no WebSocket"
