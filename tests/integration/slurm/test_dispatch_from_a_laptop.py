"""A trial on a Slurm whose nodes reach nothing but the login node: the master is on a laptop, by SSH alone.

laptop 10.77.0.1 ── 10.77.0.2 login node and nodes, in a network namespace; no address of them is the master's
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.gated_trial import MODEL, all_logs, gated_trial, slurm_master
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


def test_a_laptop_is_cut_off(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("l")  # short: in it are socket files of Slurm
    jobs, gates = folder / "jobs", folder / "gates"
    gates.mkdir()
    folder.chmod(0o755)
    with site(folder) as login:
        settings = slurm_master(jobs, gates, ssh=login.provider_settings())
        settings["security"] = {"tls": {"self_signed": True}}
        with RealCluster.self_signed(folder / "cluster", settings) as cluster:
            experiment = cluster.submit(gated_trial(gates, slots=2), MODEL)

            def log() -> str:
                return all_logs(cluster, experiment)

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
