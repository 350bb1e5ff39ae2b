"""One HTTP request to a task, and its answer: bodies go both ways as they come."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import h11
from starlette.types import Receive, Scope, Send

from agent_bootstrap.channels.streams import Stream
from master.api.proxy.headers import Header, from_task, to_task

MAX_HEAD_BYTES = 256 * 1024


class NoTaskAnswer(Exception):
    """The task did not answer, or not in HTTP. Says why; nothing was sent to the client."""


class CutShort(Exception):
    """The answer ended in the middle: the client has the first part of it."""


def begin(scope: Scope) -> tuple[h11.Connection, bytes]:
    """The task's end of a request, and the head of that. Raises NoTaskAnswer."""
    task = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
    try:
        return task, task.send(_request(scope)) or b""
    except h11.LocalProtocolError as error:
        raise NoTaskAnswer(str(error)) from None


async def exchange(task: h11.Connection, receive: Receive, send: Send, stream: Stream) -> None:
    """What follows the head. Raises NoTaskAnswer, CutShort."""
    sending = asyncio.create_task(_send_body(task, receive, stream))
    try:
        await _pass_answer(task, stream, send)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def _request(scope: Scope) -> h11.Request:
    target = scope.get("raw_path") or scope["path"].encode()
    if query := scope["query_string"]:
        target += b"?" + query
    headers: list[Header] = [*to_task(scope), (b"connection", b"close")]
    return h11.Request(method=scope["method"], target=target, headers=headers)


async def _send_body(task: h11.Connection, receive: Receive, stream: Stream) -> None:
    """Until the end of the body, or the client is gone: then the stream ends under the answer."""
    with suppress(h11.LocalProtocolError, OSError):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                stream.close()
                return
            if body := message.get("body", b""):
                await stream.write(task.send(h11.Data(data=body)) or b"")
            if not message.get("more_body", False):
                break
        await stream.write(task.send(h11.EndOfMessage()) or b"")
        while (await receive())["type"] != "http.disconnect":
            pass
        stream.close()


async def _pass_answer(task: h11.Connection, stream: Stream, send: Send) -> None:
    started = False
    try:
        while True:
            event = task.next_event()
            if event is h11.NEED_DATA:
                task.receive_data(await stream.read())
            elif isinstance(event, h11.Response):
                headers = from_task(event.headers)
                status = event.status_code
                await send({"type": "http.response.start", "status": status, "headers": headers})
                started = True
            elif isinstance(event, h11.Data):
                body = bytes(event.data)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            elif isinstance(event, h11.EndOfMessage):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            elif not isinstance(event, h11.InformationalResponse):
                raise ConnectionError("it closed the connection without an answer")
    except (h11.RemoteProtocolError, OSError) as error:
        raise (CutShort if started else NoTaskAnswer)(str(error)) from None
