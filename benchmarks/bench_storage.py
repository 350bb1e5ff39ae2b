"""Upload and download of a checkpoint in a bucket, beside obstore alone and the published package's S3 manager.

Goal: 90 % of obstore alone on the same server. The server is a small one of ours that keeps objects in memory and
checks nothing, so that the clients are what is measured. 512 MiB by default: what runs in under a minute on two cores
that the server shares; `--gib 4` for more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import obstore
from obstore.store import S3Store

from windlass.storage import Storage, open_storage

ROOT = Path(__file__).parents[1]
COMPAT = ROOT / ".compat" / "bin" / "python"
GOAL = 0.9
SERVER = """
import sys
from tests.fakes.gcs_server import gcs_server
with gcs_server() as server:
    server.create("bucket")
    print(server.url, flush=True)
    sys.stdin.read()
"""
PEER = """
import json, sys, time
from determined.common import storage
manager = storage.build(json.loads(sys.argv[1]), container_path=None)
start = time.monotonic(); manager.upload(sys.argv[2], "peer"); up = time.monotonic() - start
start = time.monotonic(); manager.download("peer", sys.argv[3]); down = time.monotonic() - start
print(json.dumps([up, down]))
"""


def timed(call: Callable[[], object]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def bare_download(store: S3Store, key: str, target: Path) -> None:
    with target.open("wb") as file:
        for chunk in obstore.get(store, key).stream(min_chunk_size=8 * 2**20):
            file.write(chunk)


def measure(url: str, folder: Path, size: int, rounds: int) -> dict[str, float]:
    login = {"access_key": "k", "secret_key": "s", "endpoint_url": url}
    section = {"type": "s3", "bucket": "bucket", **login}
    ours: Storage = open_storage(section)
    bare = S3Store(
        "bucket",
        endpoint=url,
        access_key_id="k",
        secret_access_key="s",  # noqa: S106 - the server checks nothing
        region="us-east-1",
        client_options={"allow_http": True, "timeout": "5m"},
    )
    source = folder / "model"
    source.mkdir()
    write_model(source / "weights", size)
    seconds: dict[str, list[float]] = {}
    for number in range(rounds):
        copy = folder / f"copy-{number}"
        # They take turns: whatever else the machine does, it does to both.
        for name, call in {
            "upload_obstore": lambda: obstore.put(bare, "bare", source / "weights"),
            "upload_ours": lambda number=number: ours.upload(source, f"ours-{number}"),
            "download_obstore": lambda: bare_download(bare, "bare", folder / "bare"),
            "download_ours": lambda number=number, copy=copy: ours.download(f"ours-{number}", copy),
        }.items():
            seconds.setdefault(name, []).append(timed(call))
        (copy / "weights").unlink()
    result = {name: statistics.median(times) for name, times in seconds.items()}
    if COMPAT.exists():
        command = [COMPAT, "-c", PEER, json.dumps(section), source, folder / "peer"]
        environment = {
            **os.environ,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",  # the server knows plain bodies only
        }
        done = subprocess.run(command, env=environment, capture_output=True, check=True)
        result["upload_published"], result["download_published"] = json.loads(done.stdout)
    return result


def write_model(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // 2**20):
            file.write(os.urandom(2**20))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    size = int(options.gib * 2**30)
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as name:
        command = [sys.executable, "-c", SERVER]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            seconds = measure(url, Path(name), size, options.rounds)
            server.terminate()
    print(f"{options.gib:g} GiB, one file, median of {options.rounds}")
    for what, taken in seconds.items():
        print(f"  {what:20} {taken:6.2f} s  {size / taken / 1e6:6.0f} MB/s")
    missed = 0
    for way in ("upload", "download"):
        share = seconds[f"{way}_obstore"] / seconds[f"{way}_ours"]
        missed += share < GOAL
        print(f"  {way}: {share:.0%} of obstore alone (goal {GOAL:.0%})")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
