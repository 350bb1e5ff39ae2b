"""What a machine asks of a master before it has an agent, over real HTTPS; answers as a test wants them."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

from agent_bootstrap.scripts.boot_files import BootSettings, archive
from agent_bootstrap.scripts.user_data import BOOT_PATH
from tests.certificates import Issued


@dataclass
class BootMaster:
    url: str
    token: str
    settings: BootSettings = field(default_factory=BootSettings)
    answers: list[tuple[int, str]] = field(default_factory=list)
    """Status and message of the next requests for files, before the right answer."""
    stages: list[tuple[str, str, str]] = field(default_factory=list)
    """Machine, stage, details."""
    fetched: int = 0
    bake: bool = False
    """Its machines become images."""
    asked: list[str] = field(default_factory=list)
    """Paths."""
    wheels: dict[str, bytes] = field(default_factory=dict)
    """What it serves."""
    refusals: list[int] = field(default_factory=list)
    """Answers to the next words that everything is installed."""


@contextmanager
def boot_master(certificate: Issued, token: str) -> Iterator[BootMaster]:
    master = BootMaster("", token)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            master.asked.append(self.path)
            if self.headers.get("Authorization") != f"Bearer {master.token}":
                self._answer(403, json.dumps({"message": "not the token of a launch"}).encode())
            elif master.answers:
                status, message = master.answers.pop(0)
                self._answer(status, json.dumps({"message": message}).encode())
            elif "/wheels" in self.path:
                self._answer(200, self._wheels(urlsplit(self.path).path.rpartition("/")[2]))
            else:
                master.fetched += 1
                self._answer(200, archive(master.settings, bake=master.bake))

        def _wheels(self, name: str) -> bytes:
            listed = [f"{sha256(x).hexdigest()}  {n}\n" for n, x in sorted(master.wheels.items())]
            return "".join(listed).encode() if name == "wheels" else master.wheels[name]

        def do_POST(self) -> None:
            said = self.rfile.read(int(self.headers["Content-Length"])).decode()
            where = urlsplit(self.path)
            asked = parse_qs(where.query)
            assert where.path == f"{BOOT_PATH}/stage"
            master.stages.append((asked["instance"][0], asked["stage"][0], said))
            refused = (
                master.refusals.pop(0) if asked["stage"] == ["baked"] and master.refusals else 0
            )
            self._answer(refused or 200, b"{}")

        def _answer(self, status: int, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    master.url = f"https://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield master
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
