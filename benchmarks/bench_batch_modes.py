"""What a trial costs in dispatch and in pilot mode on a real Slurm of this machine, beside a bare `sbatch`.

    trial to trial      from one trial's first line to the next one's, one at a time, less one start of the interpreter
    job to first line   from the start of the job's own process to the first line of the user
    memory              of a node's host and agent, while a trial runs (PSS: what is shared is divided)

Goal: trial to trial of a pilot is 1/20 of that of dispatch. Needs Slurm (`make .make/slurm`).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.arguments import arguments, sized
from benchmarks.calibration import print_calibration
from tests.real_cluster import RealCluster, eventually
from tests.slurm import Slurm, require_slurm, running_slurm

GOAL = 20.0
POOL: dict[str, Any] = {"type": "slurm", "partition": "gpu", "slot_type": "cpu"}
MARK = "agent_bootstrap.host"


def gaps(stamps: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(stamps)]


def interpreter_s() -> float:
    """Its start, on this machine, now."""
    taken = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def read(stamps: Path) -> list[float]:
    return [int(word) / 1e9 for word in stamps.read_text().split()] if stamps.exists() else []


def submit(cluster: RealCluster, pool: str, trials: int, folder: Path, script: str) -> int:
    model = folder / "model"
    model.mkdir(parents=True)
    folder.chmod(0o777)  # tasks write there
    (model / "trial.sh").write_text(script)
    search = {"name": "random", "metric": "loss", "max_trials": trials, "max_concurrent_trials": 1}
    config = {
        "name": f"bench {pool}",
        "entrypoint": "sh trial.sh",
        "bind_mounts": [{"host_path": str(folder), "container_path": "/bench"}],
        "searcher": search,
        "resources": {"slots_per_trial": 1, "resource_pool": pool},
        "max_restarts": 0,
    }
    return cluster.submit(config, model)


def trial_to_trial(cluster: RealCluster, pool: str, trials: int) -> list[float]:
    folder = cluster.folder / f"stamps-{pool}"
    experiment = submit(cluster, pool, trials, folder, "date +%s%N >>/bench/stamps\n")
    assert cluster.wait(experiment, patience_s=600)["state"] == "STATE_COMPLETED"
    stamps = read(folder / "stamps")
    assert len(stamps) == trials
    return gaps(stamps)[1:]  # the first pilot has to come


def has_run(stamps: Path, jobs: int) -> bool:
    return len(read(stamps)) >= jobs


def bare_sbatch(slurm: Slurm, folder: Path, jobs: int) -> list[float]:
    stamps = folder / "stamps-sbatch"
    for number in range(jobs):
        slurm.run("sbatch", "--output=/dev/null", f"--wrap=date +%s%N >>{stamps}")
        eventually("it ran", partial(has_run, stamps, number + 1))
    return gaps(read(stamps))


def hosts(cluster: RealCluster) -> list[psutil.Process]:
    found = []
    for process in cluster.processes():
        with suppress(psutil.Error):
            if MARK in process.cmdline():
                found.append(process)
    return found


def one_job(cluster: RealCluster, pool: str) -> tuple[float, float, float]:
    """Seconds from the job's first process to the user's first line; MiB of host and of agent meanwhile."""
    folder = cluster.folder / f"one-{pool}"
    script = "date +%s%N >>/bench/stamps\nwhile [ ! -e /bench/open ]; do sleep 0.1; done\n"
    experiment = submit(cluster, pool, 1, folder, script)
    eventually("it runs", lambda: read(folder / "stamps"))
    (host,) = hosts(cluster)
    (agent,) = [p for p in host.children() if "agent_bootstrap.agent" in p.cmdline()]
    seconds = read(folder / "stamps")[0] - host.create_time()
    memory = [p.memory_full_info().pss / 2**20 for p in (host, agent)]
    (folder / "open").touch()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    eventually("its job is over", lambda: not hosts(cluster))
    return seconds, memory[0], memory[1]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=sized(12, 3))
    trials = parser.parse_args().trials
    try:
        require_slurm()
    except pytest.skip.Exception as error:
        print(f"not measured: {error}")
        return
    print_calibration()
    with tempfile.TemporaryDirectory(prefix="wb-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with running_slurm(folder / "site") as slurm:
            os.environ["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
            pilot = {**POOL, "mode": "pilot", "slots_per_node": 4, "walltimes": ["1h"]}
            pools = [
                {"pool_name": "dispatch", "provider": POOL},
                {"pool_name": "pilot", "provider": pilot, "max_idle_agent_period": "2s"},
            ]
            settings = {"resource_pools": pools, "allowed_host_paths": [str(folder)]}
            with RealCluster(folder / "cluster", settings) as cluster:
                start_s = interpreter_s()
                print(f"start of the interpreter: {start_s * 1000:.0f} ms")
                bare = statistics.median(bare_sbatch(slurm, folder, trials))
                print(f"bare sbatch, one after the other: {bare:.2f} s")
                medians = {}
                for pool in ("dispatch", "pilot"):
                    seconds, host, agent = one_job(cluster, pool)
                    found = trial_to_trial(cluster, pool, trials)
                    medians[pool] = max(0.0, statistics.median(found) - start_s)
                    print(
                        f"{pool}: trial to trial {statistics.median(found):.2f} s, over the interpreter "
                        f"{medians[pool]:.2f} s (of {len(found)}: {min(found):.2f} to {max(found):.2f}); "
                        f"job start to first line {seconds:.2f} s; "
                        f"memory of host {host:.0f} MiB, of agent {agent:.0f} MiB"
                    )
    ratio = medians["dispatch"] / max(medians["pilot"], 1e-9)
    print(
        f"dispatch / pilot: {ratio:.1f} (goal: {GOAL:.0f}; {'within' if ratio >= GOAL else 'OVER'})"
    )


if __name__ == "__main__":
    main()
