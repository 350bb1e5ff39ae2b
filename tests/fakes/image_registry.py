"""A registry of container images on this machine: what pulling one needs of the distribution API, with a login."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

USER, PASSWORD = "ann", "s3cret"


class Registry:
    """Serves what `podman save --format oci-dir` wrote, as `NAME:TAG`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.pulls = 0
        """Manifests that were asked for with a good login."""
        self.goes_on = threading.Event()
        """Cleared: whoever wants a blob waits."""
        self.goes_on.set()

    def manifest(self) -> tuple[str, bytes]:
        index = json.loads((self.folder / "index.json").read_text())
        first = index["manifests"][0]
        return str(first["mediaType"]), self.blob(str(first["digest"]))

    def blob(self, digest: str) -> bytes:
        return (self.folder / "blobs" / digest.replace(":", "/")).read_bytes()


@contextmanager
def serving(folder: Path, port: int) -> Iterator[Registry]:
    registry = Registry(folder, port)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            good = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            if self.headers.get("Authorization") != f"Basic {good}":
                self._error(401, "UNAUTHORIZED", "authentication required")
                return
            parts = self.path.strip("/").split("/")
            if parts == ["v2"]:
                self._send(200, "application/json", b"{}")
            elif parts[-2:] == ["manifests", "1"] or parts[-1].startswith("sha256:"):
                self._serve(parts)
            else:
                self._error(404, "MANIFEST_UNKNOWN", "manifest unknown")

        def _serve(self, parts: list[str]) -> None:
            kind, manifest = registry.manifest()
            if parts[-2] == "manifests":
                registry.pulls += self.command == "GET"
                self._send(200, kind, manifest)
            else:
                registry.goes_on.wait()
                self._send(200, "application/octet-stream", registry.blob(parts[-1]))

        def _error(self, status: int, code: str, message: str) -> None:
            body = {"errors": [{"code": code, "message": message}]}
            self._send(status, "application/json", json.dumps(body).encode())

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Docker-Distribution-API-Version", "registry/2.0")
            if status == 401:
                self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
