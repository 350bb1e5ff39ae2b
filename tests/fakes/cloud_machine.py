"""A machine of a cloud, as far as a folder is one: a metadata service that says what it is called, a systemd of its
own, and user data that really runs."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.agent_home import AgentHome

SESSION = "a-session-of-the-metadata-service"


class _Metadata(http.server.BaseHTTPRequestHandler):
    """As AWS (version 2 only) and GCP answer."""

    instance = ""

    def do_PUT(self) -> None:
        wants = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self._answer(200 if wants and self.path == "/latest/api/token" else 400, SESSION)

    def do_GET(self) -> None:
        aws = self.headers.get("X-aws-ec2-metadata-token") == SESSION
        gcp = self.headers.get("Metadata-Flavor") == "Google"
        known = {
            "/latest/meta-data/instance-id": aws,
            "/computeMetadata/v1/instance/name": gcp,
        }
        self._answer(200 if known.get(self.path) else 401, self.instance)

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def metadata_service(instance: str) -> Iterator[str]:
    """Its URL."""
    handler = type("Metadata", (_Metadata,), {"instance": instance})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class CloudMachine:
    """Its agent's slots are pretended. `boot` may be called again: a reboot."""

    def __init__(
        self, folder: Path, metadata: str, agent: Sequence[str] = (), via: Sequence[str] = ()
    ) -> None:
        """`metadata`: empty: at its real address. `agent`: what is said of the machine in its agent.yaml, as key=value.
        `via`: what to put before its programs."""
        self.home = AgentHome(folder / "home")
        self.state = folder / "boot"
        self.prefix = folder / "prefix"
        self.root = folder / "root"
        """What a bake takes for the machine's own root."""
        self.metadata = metadata
        self._agent = ("artificial_slots=2", *agent)
        self._via = via
        self._ended = folder / "ended"

    def put_in_image(self, version: str) -> None:
        """What a stand-in for podman copies out of the image of the agent's software."""
        programs = self.home.home / "image/current/bin"
        programs.mkdir(parents=True, exist_ok=True)
        program = programs / "windlass"
        program.write_text(f'#!/bin/sh\n[ "$1" != --version ] || echo "windlass {version}"\n')
        program.chmod(0o755)

    def boot(self, user_data: str, *, path: str = "", limit_s: float = 110) -> str:
        """Run the script to its end; what its console shows. `path`: where its programs are."""
        script = self.home.home / "user-data"
        script.write_text(user_data)
        script.chmod(0o700)
        environ = self.home.environ | {
            "WINDLASS_BOOT_DIR": str(self.state),
            "WINDLASS_ROOT": str(self.root),
            "WINDLASS_END_MACHINE": f"touch {self._ended}",
            "WINDLASS_PREFIX": str(self.prefix),
            "WINDLASS_AGENT_CONFIG": str(self.home.config),
            "WINDLASS_JOIN_OPTIONS": " ".join(["--user", *(f"--set {x}" for x in self._agent)]),
        }
        if self.metadata:
            environ["WINDLASS_METADATA"] = self.metadata
        if path:
            environ["PATH"] = f"{self.home.bin}:{path}"
        done = subprocess.run(
            [*self._via, script],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=limit_s,
            cwd=self.home.home,
        )
        self.exit_code = done.returncode
        return done.stdout.decode()

    def wake(self, metadata: str) -> None:
        """As another machine with the same disk."""
        self._ended.unlink()
        self.metadata = metadata

    @property
    def has_ended_itself(self) -> bool:
        return self._ended.exists()

    def stop(self) -> None:
        """What systemd keeps there."""
        self.home.end()
