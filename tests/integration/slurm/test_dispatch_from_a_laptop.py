"""A trial on a Slurm whose nodes reach nothing but the login node: the master is on a laptop, by SSH alone.

laptop 10.77.0.1 ── 10.77.0.2 login node and nodes, in a network namespace; no address of them is the master's
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.namespaces import Namespace, works
from tests.real_cluster import RealCluster, eventually
from tests.slurm import free_slurm, require_slurm
from tests.sshd import MISSING, SSHD, Login, login_node

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(SSHD is None, reason=MISSING),
    pytest.mark.skipif(not works(), reason="network namespaces cannot be made here"),
]
MODEL = Path(__file__).parent / "model"
LAPTOP, SITE = "10.77.0.1", "10.77.0.2"


@contextmanager
def site(folder: Path) -> Iterator[Login]:
    """A login node with Slurm, on a network of its own."""
    require_slurm()
    there = Namespace()
    link = ["ip", "link", "add", "vlaptop", "type", "veth", "peer", "name", "eth0"]
    subprocess.run([*link, "netns", str(there.pid)], check=True)
    subprocess.run(["ip", "addr", "add", f"{LAPTOP}/24", "dev", "vlaptop"], check=True)
    subprocess.run(["ip", "link", "set", "vlaptop", "up"], check=True)
    there.sh(f"ip addr add {SITE}/24 dev eth0 && ip link set eth0 up")
    slurm = there.run(lambda: free_slurm(folder / "slurm", nodes=1))
    try:
        there.run(slurm.start)
        with login_node(folder / "at", slurm.environment, address=SITE, started=there.run) as login:
            yield login
    finally:
        there.run(slurm.stop)
        there.end()


def config(folder: Path) -> dict[str, Any]:
    return {
        "name": "far",
        "entrypoint": "python3 train.py",
        "hyperparameters": {"gate": "/gates/open"},
        "bind_mounts": [{"host_path": str(folder), "container_path": "/gates"}],
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": 2, "resource_pool": "batch"},
        "max_restarts": 0,
    }


def test_a_laptop_is_cut_off(tmp_path: Path) -> None:
    jobs, gates = tmp_path / "jobs", tmp_path / "gates"
    gates.mkdir()
    tmp_path.chmod(0o755)
    with site(tmp_path) as login:
        user, _, host = login.sshd.spec.partition("@")
        provider = {
            "type": "slurm",
            "partition": "gpu",
            "job_storage_root": str(jobs),
            "python": sys.executable,
            "ssh": {
                "host": host,
                "user": user,
                "key_file": str(login.key),
                "known_hosts": str(login.known_hosts),
            },
        }
        settings = {
            "resource_pools": [{"pool_name": "batch", "provider": provider}],
            "security": {"tls": {"self_signed": True}},
            "allowed_host_paths": [str(gates)],
        }
        with RealCluster.self_signed(tmp_path / "cluster", settings) as cluster:
            experiment = cluster.submit(config(gates), MODEL)

            def log() -> str:
                return "".join(cluster.logs_of(t["id"]) for t in cluster.trials(experiment))

            def notes() -> str:
                agents = cluster.get("/api/v1/agents")["agents"]
                return "; ".join(note for agent in agents for note in agent.get("notes", ()))

            eventually("it runs", lambda: "run 1, from" in log(), patience_s=180.0)
            assert "reaches the master by relay (direct: cannot reach https://127.0.0.1:" in notes()
            before = (jobs / "relay.json").read_bytes()
            login.sshd.cut()
            eventually("another relay runs", lambda: _is_new(jobs / "relay.json", before))
            (gates / "open").touch()
            assert cluster.wait(experiment)["state"] == "STATE_COMPLETED", log()
            (trial,) = cluster.trials(experiment)
            assert trial["restarts"] == 0
            eventually("the directory of its job is gone", lambda: not list(jobs.glob("wl-*")))
        eventually("nothing of the relay is left", lambda: not _relays(jobs))


def _is_new(notice: Path, before: bytes) -> bool:
    return notice.exists() and notice.read_bytes() != before


def _relays(jobs: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if {"agent_bootstrap.relay", str(jobs)} <= set(process.info["cmdline"] or ())
    ]
