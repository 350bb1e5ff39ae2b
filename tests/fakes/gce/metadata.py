"""Compute Engine's metadata service for several machines.

http://127.0.0.1:PORT/MACHINE takes the place of http://169.254.169.254.
Values have etags, and `wait_for_change` waits, as there.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

DEFAULTS = {"instance/preempted": "FALSE", "instance/maintenance-event": "NONE"}
ROOT = "/computeMetadata/v1/"
ACCOUNT = "instance/service-accounts/default"
CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class GceMetadata:
    def __init__(self, url: str) -> None:
        self._url = url
        self._values: dict[tuple[str, str], str] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.waiting = 0
        """Requests that wait for a change now."""
        self.polls: Counter[tuple[str, str]] = Counter()
        """(machine, path) -> how often it was asked."""
        self.only = ""
        """The one machine that asks: paths begin with no name then, as in reality."""
        self.is_down = False
        """Every question is answered with 503."""
        self.token_scopes: list[str] = []
        """Of the tokens that were asked for."""

    def url(self, machine: str) -> str:
        return f"{self._url}/{machine}"

    def set(self, machine: str, path: str, value: str) -> None:
        with self._changed:
            self._values[machine, path] = value
            self._changed.notify_all()

    def preempt(self, machine: str) -> None:
        self.set(machine, "instance/preempted", "TRUE")

    def add_account(self, machine: str, *scopes: str) -> None:
        """A service account, with a token."""
        about = {"email": "agents@acme.example", "scopes": scopes or [CLOUD_SCOPE], "aliases": []}
        self.set(machine, f"{ACCOUNT}/", json.dumps(about))
        token = {"access_token": f"token-of-{machine}", "expires_in": 3000, "token_type": "Bearer"}
        self.set(machine, f"{ACCOUNT}/token", json.dumps(token))
        self.set(machine, "project/project-id", "acme")

    def answer(self, machine: str, path: str, query: dict[str, list[str]]) -> str | None:
        """None: there is no such thing."""
        known = query.get("last_etag", [""])[0]
        limit_s = float(query.get("timeout_sec", ["60"])[0])
        if path.endswith("/token"):
            self.token_scopes += query.get("scopes", [])
        with self._changed:
            self.polls[machine, path] += 1
            if "wait_for_change" in query:
                self.waiting += 1
                self._changed.wait_for(
                    lambda: self._closed or etag(self._value(machine, path)) != known, limit_s
                )
                self.waiting -= 1
            return self._value(machine, path)

    def _value(self, machine: str, path: str) -> str | None:
        return self._values.get((machine, path), DEFAULTS.get(path))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def etag(value: str | None) -> str:
    return hashlib.sha256((value or "").encode()).hexdigest()[:16]


@contextmanager
def gce_metadata(listening: socket.socket | None = None) -> Iterator[GceMetadata]:
    """`listening`: where it is asked; None: at a port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            where = urlsplit(self.path)
            before = f"/{metadata.only}" if metadata.only else ""
            _, machine, path = f"{before}{where.path}".split("/", 2)
            if metadata.is_down:
                self._say(503, None)
            elif self.headers.get("Metadata-Flavor") != "Google":
                self._say(403, None)
            else:
                path = f"/{path}".removeprefix(ROOT)
                found = metadata.answer(machine, path, parse_qs(where.query))
                self._say(404 if found is None else 200, found)

        def _say(self, status: int, text: str | None) -> None:
            body = (text or "").encode()
            with suppress(OSError):  # whoever waited may have gone
                self.send_response(status)
                self.send_header("Metadata-Flavor", "Google")
                self.send_header("ETag", etag(text))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=listening is None)
    if listening is not None:
        server.socket.close()
        server.socket = listening
    address, port = server.socket.getsockname()
    metadata = GceMetadata(f"http://{address}:{port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield metadata
    finally:
        metadata.close()
        server.shutdown()
        server.server_close()
        thread.join()
