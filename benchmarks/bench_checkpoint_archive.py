"""How fast a checkpoint comes through the master, and what memory that takes.

    python -m benchmarks.bench_checkpoint_archive [--gib 2]

Goal: 100 MB/s in each format for weights that do not shrink, in memory that does not grow with them (master and worker
together). Peer: reading the same file with `dd`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

import psutil

from benchmarks.arguments import arguments, sized
from tests.real_cluster import RealCluster

GOAL = 100.0
PIECE = 64 * 1024 * 1024
CONFIG = {
    "name": "archive",
    "entrypoint": "true",
    "searcher": {"name": "single", "metric": "loss"},
    "hyperparameters": {},
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--gib", type=float, default=sized(2.0, 0.0625))
    size = int(parser.parse_args().gib * 1024**3)
    with tempfile.TemporaryDirectory() as folder, RealCluster(Path(folder), {}) as cluster:
        cluster.start_agent("node", slots=1)
        checkpoint = stored(cluster, size)
        weights = cluster.data_dir / "checkpoints" / checkpoint / "weights.bin"
        began = time.monotonic()
        subprocess.run(
            ["dd", f"if={weights}", "of=/dev/null", "bs=1M"], check=True, capture_output=True
        )
        print(f"dd          {size / 1e6 / (time.monotonic() - began):7.0f} MB/s")
        for accept in ("application/x-tar", "application/gzip", "application/zip"):
            speed, grown = downloaded(cluster, checkpoint, accept, size)
            name = accept.partition("/")[2]
            print(f"{name:<10}  {speed:7.0f} MB/s (goal {GOAL:.0f}), memory +{grown / 1e6:.0f} MB")


def stored(cluster: RealCluster, size: int) -> str:
    """A checkpoint with one file of random bytes, and an experiment that it belongs to."""
    with tempfile.TemporaryDirectory() as model:
        experiment = cluster.submit(CONFIG, Path(model))
    cluster.client.act(experiment, "kill")
    cluster.wait(experiment)
    trial = cluster.trials(experiment)[0]
    checkpoint = str(uuid.uuid4())
    path = cluster.data_dir / "checkpoints" / checkpoint
    path.mkdir(parents=True)
    piece = os.urandom(PIECE)
    with (path / "weights.bin").open("wb") as file:
        for _ in range(size // PIECE):
            file.write(piece)
    cluster.client.session.post(
        "/api/v1/checkpoints",
        {
            "uuid": checkpoint,
            "taskId": trial["taskIds"][0],
            "state": "STATE_COMPLETED",
            "resources": {"weights.bin": str(size)},
            "metadata": {"steps_completed": 1},
        },
    )
    return checkpoint


def downloaded(cluster: RealCluster, checkpoint: str, accept: str, size: int) -> tuple[float, int]:
    """MB/s of content, and by how much master and worker grew meanwhile."""
    master = psutil.Process(cluster.master_pid)
    before, most, done = memory(master), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.1):
            most = max(most, memory(master))

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.monotonic()
    with cluster.client.session.download(f"/checkpoints/{checkpoint}", accept=accept) as pieces:
        received = sum(map(len, pieces))
    took = time.monotonic() - began
    done.set()
    watching.join()
    assert received >= size
    return size / 1e6 / took, most - before


def memory(process: psutil.Process) -> int:
    """Resident bytes of a process with its children."""
    total = process.memory_info().rss
    for child in process.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


if __name__ == "__main__":
    main()
