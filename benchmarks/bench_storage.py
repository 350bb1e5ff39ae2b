"""Upload and download of a checkpoint in a bucket, beside obstore alone and the published package's S3 manager.

Goal: 90 % of obstore alone on the same server, at any size. The server keeps sizes only, so that the clients are what
is measured. All take turns, and the fastest of several rounds counts: the one that other work on the machine disturbed
least. The CPU seconds of the client say the same where it is disturbed all the time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import obstore
from obstore.store import S3Store

from benchmarks.arguments import arguments, exit_code, sized
from windlass.storage import Storage, open_storage

ROOT = Path(__file__).parents[1]
COMPAT = ROOT / ".compat" / "bin" / "python"
GOAL = 0.9
MIB, GIB = 2**20, 2**30
PEER = """
import json, sys, time
from determined.common import storage
manager = storage.build(json.loads(sys.argv[1]), container_path=None)
def timed(call, *arguments):
    cpu, start = time.process_time(), time.monotonic()
    call(*arguments)
    return time.monotonic() - start, time.process_time() - cpu
print(json.dumps([timed(manager.upload, sys.argv[2], "peer"), timed(manager.download, "peer", sys.argv[3])]))
"""


@dataclass(frozen=True, order=True)
class Taken:
    seconds: float
    cpu: float


def timed(call: Callable[[], object]) -> Taken:
    before, start = os.times(), time.monotonic()
    call()
    seconds, after = time.monotonic() - start, os.times()
    return Taken(seconds, after.user + after.system - before.user - before.system)


def bare_download(store: S3Store, key: str, target: Path) -> None:
    with target.open("wb") as file:
        for chunk in obstore.get(store, key).stream(min_chunk_size=8 * MIB):
            file.write(chunk)


def measure(url: str, folder: Path, size: int, rounds: int) -> dict[str, Taken]:
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
    source, copy = folder / "model", folder / "copy"
    source.mkdir()
    write_model(source / "weights", size)
    taken: dict[str, list[Taken]] = {}
    for number in range(rounds):
        calls: dict[str, Callable[[], object]] = {
            "upload obstore": lambda: obstore.put(bare, "bare", source / "weights"),
            "upload ours": partial(ours.upload, source, f"{size}-{number}"),
            "download obstore": lambda: bare_download(bare, "bare", copy / "weights"),
            "download ours": partial(ours.download, f"{size}-{number}", copy),
        }
        for name, call in calls.items():
            copy.mkdir()
            taken.setdefault(name, []).append(timed(call))
            shutil.rmtree(copy)
    fastest = {name: min(times) for name, times in taken.items()}
    if COMPAT.exists():
        fastest |= published(section, source, folder / "peer")
    return fastest


def published(section: Mapping[str, str], source: Path, copy: Path) -> dict[str, Taken]:
    command: list[str | Path] = [COMPAT, "-c", PEER, json.dumps(dict(section)), source, copy]
    environment = {
        **os.environ,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",  # the server knows plain bodies only
    }
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    shutil.rmtree(copy)
    up, down = json.loads(done.stdout)
    return {"upload published": Taken(*up), "download published": Taken(*down)}


def write_model(path: Path, size: int) -> None:
    with path.open("wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))


def shown(gib: float, seconds: Mapping[str, Taken]) -> int:
    """Prints a line for each way; how many missed the goal."""
    missed = 0
    for way in ("upload", "download"):
        share = seconds[f"{way} obstore"].seconds / seconds[f"{way} ours"].seconds
        missed += share < GOAL
        rates = "".join(
            f"  {who} {gib * GIB / taken.seconds / 1e6:5.0f} MB/s ({taken.cpu:5.2f} s CPU)"
            for who in ("ours", "obstore", "published")
            if (taken := seconds.get(f"{way} {who}")) is not None
        )
        print(f"  {gib:4g} GiB {way:8}{rates}: {share:4.0%} of obstore alone", flush=True)
    return missed


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--gib", type=float, nargs="+", default=sized([0.5, 1, 4], [0.01]))
    parser.add_argument("--rounds", type=int, default=sized(3, 1))
    options = parser.parse_args()
    print(f"one file, fastest of {options.rounds}; goal {GOAL:.0%}; load {os.getloadavg()[0]:.1f}")
    missed = 0
    command = [sys.executable, "-m", "benchmarks.object_server"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for gib in options.gib:
            with tempfile.TemporaryDirectory(prefix="windlass-bench-") as name:
                missed += shown(gib, measure(url, Path(name), int(gib * GIB), options.rounds))
        server.terminate()
    return exit_code(not missed)


if __name__ == "__main__":
    sys.exit(main())
