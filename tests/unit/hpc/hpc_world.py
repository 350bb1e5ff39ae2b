"""A cluster with shared home, two GPU partitions and one without: what the tests of `windlass hpc` change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from master.hpc.site.facts import Facts, Folder
from provisioner.batch.base import Queue, SiteFacts

HOME = Folder(path="/home/me/windlass", origin="$HOME", file_system="nfs4", free_bytes=10**12)
DISK = Folder(
    path="/var/tmp/windlass-1000", origin="/var/tmp", file_system="xfs", free_bytes=10**11
)
GPU = Queue(
    name="gpu",
    is_default=True,
    nodes=16,
    idle_nodes=3,
    gpus_per_node=4,
    gpu_types=frozenset({"a100"}),
    cpus_per_node=64,
    memory_mib_per_node=512_000,
    max_walltime_s=48 * 3600,
)
SHORT = replace(GPU, name="short", is_default=False, max_walltime_s=3600, default_walltime_s=600)
CPU = Queue(name="cpu", nodes=100, cpus_per_node=48, memory_mib_per_node=192_000)
QUEUES = {queue.name: queue for queue in (GPU, SHORT, CPU)}


def facts(**changes: Any) -> Facts:
    found = Facts(
        user="me",
        host="login1",
        system="slurm",
        site=SiteFacts(version="23.02.1", queues=QUEUES),
        shared=(HOME,),
        local=(replace(HOME, path="/home/me/.local/share/windlass/hpc"), DISK),
        address="10.0.0.5",
        python="/home/me/venv/bin/python",
        python_folder=HOME,
        isolation="bubblewrap",
        kernel="4.18.0",
    )
    return replace(found, **changes)
