"""Storage sections without keys: the SDKs of both harnesses find what the agent hands their task."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.agent.metadata.kinds import Cloud, TaskMetadata
from agent_bootstrap.agent.metadata.tasks import MetadataOfTasks
from agent_bootstrap.protocol import ContainerSpec
from tests.fakes.ec2_metadata import ec2_metadata
from tests.fakes.gce.metadata import gce_metadata
from tests.published import COMPAT, needs_published
from windlass.base.clock import SystemClock

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "tests" / "compat" / "published_storage.py"
OURS = """
import json, sys
from pathlib import Path
from windlass.storage import open_storage
open_storage(json.loads(sys.argv[1]), shared_fs_at=None).upload(Path(sys.argv[2]), "folder")
"""
OUR_GOOGLE = """
import sys
from obstore.store import GCSStore
# As windlass.storage opens it where no emulator is named: an emulator asks for no credentials.
store = GCSStore("bucket", config={"base_url": sys.argv[1]}, client_options={"allow_http": True})
store.put("folder/state", b"1")
"""
THEIR_GOOGLE = """
import sys
from google.cloud import storage
client = storage.Client(client_options={"api_endpoint": sys.argv[1]})
client.bucket("bucket").blob("folder/state").upload_from_string("1")
"""


@dataclass
class Recorder:
    """A storage that takes everything, and remembers with what credentials."""

    url: str
    seen: list[str] = field(default_factory=list)


@contextmanager
def recorder() -> Iterator[Recorder]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._take(b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")

        def do_POST(self) -> None:
            self._take(b"{}")

        def do_PUT(self) -> None:
            self._take(b"")

        def _take(self, body: bytes) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            session = self.headers.get("x-amz-security-token", "")
            if self.command != "GET":
                found.seen.append(f"{self.headers.get('Authorization')} {session}".strip())
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Type", "application/json" if body == b"{}" else "text/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Recorder(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def task_on(cloud: Cloud, url: str, folder: Path) -> AsyncIterator[dict[str, str]]:
    """The environment of a task."""
    tasks = MetadataOfTasks(
        TaskMetadata.STORAGE,
        cloud,
        url,
        work_dir=folder,
        secret="s",
        clock=SystemClock(),
        proxies={},
    )
    await tasks.open(lambda id_: id_ == "c1")
    spec = ContainerSpec(
        container_id="c1",
        allocation_id="t.1",
        task_id="t",
        task_type="TRIAL",
        entrypoint=("true",),
        environment={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )
    given = tasks.given_to(spec)
    environment = dict(given.environment)
    for number, file in enumerate(given.files):
        path = folder / f"file-{number}"
        path.write_text(base64.b64decode(file.content_b64).decode())
        environment = {k: str(path) if v == file.path else v for k, v in environment.items()}
    try:
        yield environment
    finally:
        await tasks.close()


async def run(words: Sequence[str | Path], environment: dict[str, str]) -> None:
    def now() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, check=False, timeout=100
        )

    done = await asyncio.to_thread(now)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is uploaded."""
    made = tmp_path / "checkpoint"
    made.mkdir()
    (made / "state").write_text("1")
    return made


def s3(url: str) -> str:
    return json.dumps({"type": "s3", "bucket": "bucket", "endpoint_url": url})


@pytest.mark.parametrize(
    "harness", ["ours", pytest.param("published", marks=[needs_published, pytest.mark.slow])]
)
async def test_s3_without_keys(harness: str, tmp_path: Path, folder: Path) -> None:
    with recorder() as storage, ec2_metadata() as metadata:
        metadata.add_role("i-1", "agents")
        async with task_on(Cloud.AWS, metadata.url("i-1"), tmp_path) as environment:
            words = {
                "ours": [sys.executable, "-P", "-c", OURS, s3(storage.url), str(folder)],
                "published": [
                    COMPAT / "python",
                    PUBLISHED,
                    s3(storage.url),
                    "upload",
                    "folder",
                    str(folder),
                ],
            }[harness]
            await run(words, environment | {"AWS_REGION": "us-east-1"})
    assert storage.seen
    for seen in storage.seen:
        assert "Credential=AK-of-i-1/" in seen
        assert seen.endswith(" session")


@pytest.mark.parametrize(
    "harness", ["ours", pytest.param("published", marks=[needs_published, pytest.mark.slow])]
)
async def test_google_storage_without_keys(harness: str, tmp_path: Path) -> None:
    with recorder() as storage, gce_metadata() as metadata:
        metadata.add_account("gpu-1")
        async with task_on(Cloud.GCP, metadata.url("gpu-1"), tmp_path) as environment:
            words = {
                "ours": [sys.executable, "-P", "-c", OUR_GOOGLE, storage.url],
                "published": [COMPAT / "python", "-c", THEIR_GOOGLE, storage.url],
            }[harness]
            await run(words, environment)
    assert storage.seen
    assert set(storage.seen) == {"Bearer token-of-gpu-1"}
