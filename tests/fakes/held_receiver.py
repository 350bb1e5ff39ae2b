"""A receiver of webhooks in a thread, for masters in other processes: it keeps the first caller waiting."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class HeldReceiver:
    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self.called = threading.Event()
        self.may_answer = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append(json.loads(body))
                receiver.called.set()
                receiver.may_answer.wait(60)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """The output of tests has other things to say."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"


@contextmanager
def held_receiver() -> Iterator[HeldReceiver]:
    made = HeldReceiver()
    serving = threading.Thread(target=made.server.serve_forever)
    serving.start()
    try:
        yield made
    finally:
        made.may_answer.set()
        made.server.shutdown()
        serving.join()
        made.server.server_close()
