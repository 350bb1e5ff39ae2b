"""A proxy before a storage that answers some requests itself, or cuts them off."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """What a request gets instead of an answer. Status 0: half of the answer, and the connection ends."""

    status: int
    code: str = ""
    done: bool = False
    """The storage did what it was asked for all the same."""
    more: str = ""
    """Elements after the code."""

    @property
    def answer(self) -> bytes:
        return f"<Error><Code>{self.code}</Code>{self.more}</Error>".encode()


@dataclass
class FaultyProxy:
    target: str
    url: str = ""
    fault: Callable[[str, str], Fault | None] = lambda method, path: None
    """(method, path with query) -> None: pass it on."""
    fault_from: Callable[[int], Fault | None] = lambda start: None
    """The same of the first byte of a request for a range: several are asked for at once, in any order."""
    seen: list[tuple[str, str]] = field(default_factory=list)

    def times(self, count: int, fault: Fault, method: str = "") -> None:
        """The next `count` requests (of this method) fail."""
        left = [count]
        lock = threading.Lock()

        def choose(asked: str, path: str) -> Fault | None:
            with lock:
                if left[0] == 0 or (method and asked != method):
                    return None
                left[0] -= 1
                return fault

        self.fault = choose


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.proxy.seen.append((self.command, self.path))
        fault = self.proxy.fault(self.command, self.path)
        if fault is None and (asked := re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")):
            fault = self.proxy.fault_from(int(asked[1]))
        if fault is not None and fault.status and not fault.done:
            self._send(fault.status, fault.answer, [])
            return
        parts = urlsplit(self.proxy.target)
        connection = HTTPConnection(parts.hostname or "", parts.port)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if fault is not None and fault.done:
            self._send(fault.status, fault.answer, [])
            return
        if fault is not None:
            self.close_connection = True
        self._send(answer.status, data, answer.getheaders(), cut=fault is not None)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on

    def _send(
        self, status: int, data: bytes, headers: list[tuple[str, str]], *, cut: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if self.command == "HEAD":
            length = {name.lower(): value for name, value in headers}.get("content-length")
            self.send_header("Content-Length", length or "0")
        else:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):  # a client that has gone
                self.wfile.write(data[: len(data) // 2] if cut else data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def faulty_proxy(target: str) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(target)
    handler = type("BoundHandler", (_Handler,), {"proxy": proxy})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
