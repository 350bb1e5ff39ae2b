"""`windlass hpc status`: what it says of a master that runs, and of a batch system that does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from master.hpc.place import MasterFolder, MasterRecord
from tests.command_line import run_here

CLUSTER = "c0ffee00-1"


class Info(BaseHTTPRequestHandler):
    """Of a master, for whoever asks whether it runs."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"cluster_id": CLUSTER}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Info)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def place_of(folder: Path, url: str, qstat: str) -> Path:
    """Of a master on a site whose qstat does that."""
    command = folder / "bin" / "qstat"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\n{qstat}\n")
    command.chmod(0o755)
    place = MasterFolder(folder / "windlass")
    place.make()
    running = MasterRecord(
        host="login1",
        folder=folder / "data",
        url=url,
        cluster_id=CLUSTER,
        system="pbs",
        path=str(command.parent),
    )
    place.note(running)
    return place.path


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_batch_system_that_does_not_answer_is_an_error(
    tmp_path: Path, url: str, more: tuple[str, ...]
) -> None:
    place = place_of(tmp_path, url, 'echo "qstat: cannot connect to server pbs1" >&2; exit 255')
    done = run_here(("hpc", "status", "--dir", str(place), *more), {"HOME": str(tmp_path)})
    assert done.returncode == 1
    assert (
        "Its batch jobs are not known: qstat: qstat: cannot connect to server pbs1" in done.stderr
    )
    if more:
        assert json.loads(done.stdout)["isUp"]
    else:
        assert f"The master runs on login1, at {url}" in done.stdout
        assert "No batch jobs" not in done.stdout


def test_a_master_without_jobs_is_none(tmp_path: Path, url: str) -> None:
    place = place_of(tmp_path, url, "echo '{}'")
    done = run_here(("hpc", "status", "--dir", str(place)), {"HOME": str(tmp_path)})
    assert (done.returncode, "No batch jobs" in done.stdout) == (0, True), done.stderr
