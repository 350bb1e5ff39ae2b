"""EC2's metadata service for several machines: http://127.0.0.1:PORT/INSTANCE takes the place of 169.254.169.254."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "session-token"


class Ec2Metadata:
    def __init__(self, url: str) -> None:
        self._url = url
        self.answers: dict[tuple[str, str], str] = {}
        """(instance, path below meta-data) -> what is answered; any other is 404."""
        self.tokens = [TOKEN]
        """The last one counts."""
        self.only = ""
        """The one machine that asks: paths begin with no name then, as in reality."""
        self.is_down = False
        """Every question is answered with 503."""

    def url(self, instance_id: str) -> str:
        return f"{self._url}/{instance_id}"

    def add_role(self, instance_id: str, role: str, hours: float = 6) -> None:
        """With credentials."""
        ends = datetime.now(UTC) + timedelta(hours=hours)
        said = {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": f"AK-of-{instance_id}",
            "SecretAccessKey": "secret",
            "Token": "session",
            "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "LastUpdated": "2026-01-01T00:00:00Z",
        }
        self.answers[instance_id, "iam/security-credentials/"] = role
        self.answers[instance_id, f"iam/security-credentials/{role}"] = json.dumps(said)

    def interrupt(self, instance_id: str, seconds: float) -> None:
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        said = {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        self.answers[instance_id, "spot/instance-action"] = json.dumps(said)


@contextmanager
def ec2_metadata(listening: socket.socket | None = None) -> Iterator[Ec2Metadata]:
    """`listening`: where it is asked; None: at a port of the loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            if metadata.is_down:
                self._say(503, "")
                return
            if not self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
                self._say(400, "")
                return
            self._say(200, metadata.tokens[-1])

        def do_GET(self) -> None:
            before = f"/{metadata.only}" if metadata.only else ""
            _, instance_id, path = f"{before}{self.path}".split("/", 2)
            path = path.removeprefix("latest/meta-data/")
            if self.headers.get("X-aws-ec2-metadata-token") != metadata.tokens[-1]:
                self._say(401, "")
                return
            found = metadata.answers.get((instance_id, path))
            self._say(404 if found is None else 200, found or "")

        def _say(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
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
    metadata = Ec2Metadata(f"http://{address}:{port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield metadata
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
