"""A master that says what a test tells it to, on 127.0.0.1, and remembers what it was asked."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.certificates import Issued
from windlass.sdk.credentials import TokenCache

WAIT_S = 90.0
"""Only a broken test waits that long."""


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


Answer = tuple[int, Any]
"""Status and body: a JSON value, or bytes as they are."""
Handler = Callable[[Asked], Answer]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ScriptedMaster:
    """Unknown calls are answered 404. Handlers run in the server's threads and may block."""

    def __init__(self, port: int = 0, *, tls: Issued | None = None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.asked: list[Asked] = []
        self.cookie = ""
        """Set by every answer."""
        self._changed = threading.Condition()
        self._handlers: list[tuple[str, re.Pattern[str], Handler]] = []
        owner = self

        class _Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                raw = self.rfile.read(length)
                parts = urlsplit(self.path)
                asked = Asked(
                    self.command,
                    parts.path,
                    parse_qs(parts.query),
                    {k.lower(): v for k, v in self.headers.items()},
                    json.loads(raw) if raw else None,
                )
                status, body = owner.answer(asked)
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(data)))
                    if owner.cookie:
                        self.send_header("Set-Cookie", owner.cookie)
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    self.close_connection = True  # the client has gone: some tests want that

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if tls is not None:
            self.show(tls)
            self._server.socket = self._context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def show(self, tls: Issued) -> None:
        """This certificate from now on."""
        self._context.load_cert_chain(tls.cert, tls.key)

    def on(self, method: str, path: str, handler: Handler | Any) -> None:
        """Answer `method path` (a regular expression) by a function, or by 200 and a constant. The newest rule wins."""
        answer: Handler = handler if callable(handler) else lambda _: (200, handler)
        self._handlers.insert(0, (method, re.compile(path), answer))

    def answer(self, asked: Asked) -> Answer:
        with self._changed:
            self.asked.append(asked)
            self._changed.notify_all()
        for method, path, handler in self._handlers:
            if method == asked.method and path.fullmatch(asked.path):
                return handler(asked)
        return 404, {"error": {"code": 5, "reason": "NotFound", "error": f"{asked.path} not found"}}

    def calls(self, method: str, path: str) -> list[Asked]:
        pattern = re.compile(path)
        return [a for a in list(self.asked) if a.method == method and pattern.fullmatch(a.path)]

    def wait_for(self, method: str, path: str, count: int = 1) -> list[Asked]:
        with self._changed:
            found = self._changed.wait_for(
                lambda: len(self.calls(method, path)) >= count, timeout=WAIT_S
            )
        assert found, f"{method} {path} was not called {count} times"
        return self.calls(method, path)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class TrialMaster:
    """A scripted master that runs one trial: accepts its reports, preempts it when told to."""

    def __init__(self, server: ScriptedMaster) -> None:
        self.server = server
        self.preempt = threading.Event()
        self.over = threading.Event()
        server.on("POST", r"/api/v1/runs/start", {"storageId": 7})
        server.on("GET", r"/api/v1/allocations/[^/]+/signals/preemption", self._preemption)
        for path in (
            r"/api/v1/trials/5/(metrics|progress|early_exit|runner/metadata)",
            r"/api/v1/checkpoints",
            r"/api/v1/allocations/[^/]+/signals/ack_preemption",
        ):
            server.on("POST", path, {})

    def _preemption(self, asked: Asked) -> Answer:
        if int(asked.query["timeout_seconds"][0]) > 0:
            while not self.preempt.wait(0.02) and not self.over.is_set():
                pass
        told = {"deadline": "2026-01-01T12:00:00.000000Z", "reason": "machine ends"}
        return 200, {"preempt": True, **told} if self.preempt.is_set() else {"preempt": False}

    def reports(self) -> list[tuple[str, object]]:
        """(last part of the path, body) of every POST, in the order of arrival."""
        posts = [a for a in self.server.asked if a.method == "POST"]
        return [(a.path.rpartition("/")[2], a.body) for a in posts]


def trial_environment(url: str, root: Path) -> dict[str, str]:
    storage = root / "shared"
    storage.mkdir(exist_ok=True)
    return {
        "DET_MASTER": url,
        "DET_CLUSTER_ID": "c1",
        "DET_AGENT_ID": "agent-0",
        "DET_SLOT_IDS": "[0]",
        "DET_TASK_ID": "1.a1b2",
        "DET_ALLOCATION_ID": "1.a1b2.1",
        "DET_SESSION_TOKEN": "secret",
        "DET_TASK_TYPE": "TRIAL",
        "DET_RESOURCES_ID": "cA-0",
        "DET_RESOURCES_TYPE": "docker-container",
        "DET_CONTAINER_ID": "cA-0",
        "DET_EXPERIMENT_ID": "3",
        "DET_TRIAL_ID": "5",
        "DET_TRIAL_RUN_ID": "1",
        "DET_TRIAL_SEED": "42",
        "DET_STEPS_COMPLETED": "0",
        "DET_HPARAMS": json.dumps({"lr": 0.1}),
        "DET_EXPERIMENT_CONFIG": json.dumps(
            {
                "entrypoint": ["python3", "train.py"],
                "checkpoint_storage": {"type": "directory", "container_path": str(storage)},
                "searcher": {"name": "single", "metric": "loss", "max_length": {"epochs": 4}},
            }
        ),
        "DET_RUN_DIR": str(root / "run"),
        "DET_WORKDIR": str(root / "run" / "workdir"),
    }


def log_in(master: ScriptedMaster) -> None:
    """The user of these tests is `determined`, with a token that the master takes."""
    user = {"username": "determined", "id": 2}
    master.on("POST", "/api/v1/auth/login", {"token": "t", "user": user})
    master.on("GET", "/api/v1/me", {"user": user})
    TokenCache().remember(master.url, "determined", "t")
