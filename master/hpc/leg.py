"""One leg of a master that is a batch job: submits the next one, runs the master, ends it when the site says so.

usage: python -P -m master.hpc.leg PLACE NUMBER
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

from master.hpc.as_job import MasterJobSpec, folder_of, read_leg, submit
from master.hpc.place import MasterFolder, MasterRecord
from master.hpc.private import id_of, start
from master.hpc.site.gather import address_towards
from windlass.base.errors import BatchSystemError, WindlassError
from windlass.deploy.local.cluster import LocalCluster
from windlass.deploy.local.folder import ClusterFolder

CLUSTER = "cluster"
"""The folder of the master's data, in the shared one."""
TOLD_TO_END = (signal.SIGTERM, signal.SIGINT)


def run(place: MasterFolder, number: int) -> None:
    """Returns when the site ends the job, or the user has ended the master."""
    known = place.running()
    if known is None or not known.is_up:
        print("the master was stopped: nothing to do", flush=True)
        return
    leg = read_leg(place)
    _submit_next(place, leg, number)
    folder = ClusterFolder(folder_of(place) / CLUSTER)
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    cluster = LocalCluster(folder)
    try:
        address = address_towards(_submitted_from())
        started, _ = start(place, folder, restart=True, say=print, host=address)
        place.note(
            MasterRecord(
                host=socket.gethostname(),
                folder=folder.path,
                url=started.options.url,
                cluster_id=id_of(folder, started.options),
                system=leg.system,
                path=leg.path,
                job=leg.name,
            )
        )
        print(f"the master is up at {started.options.url}", flush=True)
        while True:
            signal.pause()
    finally:
        cluster.down()


def _submit_next(place: MasterFolder, leg: MasterJobSpec, number: int) -> None:
    """A site may forbid it from within jobs: then this leg is the last one."""
    job = os.environ.get("SLURM_JOB_ID") or os.environ.get("PBS_JOBID") or ""
    node = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    try:
        asyncio.run(submit(place, leg, number + 1, after=job, node=node))
    except (BatchSystemError, OSError) as error:
        print(f"no leg follows this one: {error}", flush=True)


def _submitted_from() -> tuple[str, ...]:
    names = (os.environ.get("SLURM_SUBMIT_HOST"), os.environ.get("PBS_O_HOST"))
    return tuple(filter(None, names))


if __name__ == "__main__":
    os.umask(0o077)
    for number in TOLD_TO_END:
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        run(MasterFolder(Path(sys.argv[1])), int(sys.argv[2]))
    except WindlassError as error:
        sys.exit(f"error: {error.message}")
