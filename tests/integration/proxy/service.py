"""Runs as a task: HTTP and WebSockets on one port, plain TCP on another, with services that are odd on purpose.

usage: python3 service.py HTTP_PORT TCP_PORT
"""

import asyncio
import hashlib
import json
import sys

import h11
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websockets

BLOCK = bytes(range(256)) * 256


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    peer = h11.Connection(h11.SERVER)
    try:
        request = await next_event(peer, reader)
        if isinstance(request, h11.Request):
            await route(peer, request, reader, writer)
            await writer.drain()
    except (h11.ProtocolError, ConnectionError):
        pass
    finally:
        writer.close()


async def next_event(peer: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := peer.next_event()) is h11.NEED_DATA:
        peer.receive_data(await reader.read(65536))
    return event


async def route(
    peer: h11.Connection,
    request: h11.Request,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    path = request.target.decode().partition("/proxy/")[2].partition("/")[2]
    name, _, argument = path.partition("?")[0].partition("/")
    if name == "silent":
        waiting.add(reader)
        await reader.read()
        waiting.remove(reader)
    elif name == "waiting":
        tell(peer, writer, len(waiting))
    elif name == "longer":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour and more" + BLOCK)
    elif name == "bad-chunks":
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n")
    elif name == "two-lengths":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nfour5")
    elif name == "long-head":
        writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Pad: %s\r\n" % bytes(120) * 10_000)
    elif name == "early":
        tell(peer, writer, {"early": True}, 413)
    elif name == "dies":
        writer.write(peer.send(h11.Response(status_code=200, headers=[("content-length", "1000")])))
        writer.write(peer.send(h11.Data(data=b"half")))
    elif name == "garbage":
        writer.write(b"this is no HTTP\r\n\r\n")
    elif name == "counted":
        tell(peer, writer, counted)
    elif name == "none":
        writer.write(peer.send(h11.Response(status_code=304, headers=[("etag", '"1"')])))
    elif name == "chunks":
        writer.write(
            peer.send(h11.Response(status_code=200, headers=[("transfer-encoding", "chunked")]))
        )
        for _ in range(int(argument)):
            writer.write(peer.send(h11.Data(data=BLOCK)))
            await writer.drain()
        writer.write(peer.send(h11.EndOfMessage()))
    elif name == "upload":
        digest, size = hashlib.sha256(), 0
        while isinstance(event := await next_event(peer, reader), h11.Data):
            digest.update(event.data)
            size += len(event.data)
        tell(peer, writer, {"sha256": digest.hexdigest(), "size": size})
    else:
        headers = [[name.decode(), value.decode()] for name, value in request.headers]
        target = request.target.decode()
        tell(
            peer, writer, {"method": request.method.decode(), "target": target, "headers": headers}
        )


def tell(
    peer: h11.Connection, writer: asyncio.StreamWriter, said: object, status: int = 200
) -> None:
    body = json.dumps(said).encode()
    headers = [("content-length", str(len(body))), ("set-cookie", "a=1"), ("set-cookie", "b=2")]
    writer.write(peer.send(h11.Response(status_code=status, headers=headers)))
    if peer.their_state is not h11.ERROR:
        writer.write(peer.send(h11.Data(data=body)) or b"")


def offered_first(_: ServerConnection, offered: list[str]) -> str | None:
    """None is fine, too: else clients that ask for none are refused."""
    return offered[0] if offered else None


async def echo_frames(socket: ServerConnection) -> None:
    assert socket.request is not None
    await socket.send(json.dumps({"path": socket.request.path, "subprotocol": socket.subprotocol}))
    async for message in socket:
        match message:
            case "close":
                await socket.close(4321, "as you wish")
                return
            case "die":
                socket.transport.abort()
                return
            case "headers":
                await socket.send(json.dumps(list(socket.request.headers.raw_items())))
            case _:
                await socket.send(message)


counted: list[object] = []
waiting: set[asyncio.StreamReader] = set()


async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The first line says what the rest is for."""
    match await reader.readline():
        case b"echo\n":
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        case b"count\n":
            data = await reader.read()
            counted[:] = [len(data), hashlib.sha256(data).hexdigest()]
        case b"flood\n":
            while not reader.at_eof():
                writer.write(BLOCK)
                await writer.drain()
        case b"last\n":
            writer.write(b"words")
            writer.write_eof()
            await reader.read()
    writer.close()


async def main() -> None:
    http, tcp, sockets = (int(port) for port in sys.argv[1:])
    await asyncio.start_server(answer, "127.0.0.1", http)
    await asyncio.start_server(plain, "127.0.0.1", tcp)
    options = {"subprotocols": ["echo"], "select_subprotocol": offered_first, "max_size": None}
    async with serve_websockets(echo_frames, "127.0.0.1", sockets, **options):
        print("serving", flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
