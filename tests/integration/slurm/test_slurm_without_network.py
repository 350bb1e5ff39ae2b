"""Trials on nodes that open no connection to their master: Slurm's own pipe into the job, and files."""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.gated_trial import MODEL, all_logs, gated_trial, slurm_master
from tests.real_cluster import RealCluster, eventually
from tests.shells import ALIAS, ClusterShell
from tests.slurm import Slurm
from windlass.base.errors import WindlassError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(("way", "slots"), [("relay", 4), ("srun", 4), ("files", 1)])
def test_a_trial_by_it_and_nothing_is_left(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, slots: int
) -> None:
    for name, value in slurm.environment.items():
        monkeypatch.setitem(os.environ, name, value)
    jobs, gates = tmp_path / "jobs", tmp_path / "gates"
    gates.mkdir()
    tmp_path.chmod(0o755)
    gates.chmod(0o755)
    (gates / "open").touch()
    settings = slurm_master(jobs, gates, channels=[way])
    settings["security"] = {"tls": {"self_signed": True}}
    with RealCluster.self_signed(tmp_path / "cluster", settings) as cluster:
        id_ = cluster.submit(gated_trial(gates, slots=slots), MODEL)

        assert cluster.wait(id_)["state"] == "STATE_COMPLETED", all_logs(cluster, id_)
        assert "run 1, from step 0" in all_logs(cluster, id_)
        _reach_a_port(cluster)
        _use_a_shell(cluster, tmp_path)
        eventually("its jobs are over", lambda: not slurm.jobs())
        eventually("its directories are gone", lambda: not list(jobs.glob("wl-*")))
        eventually("nobody asks any more", lambda: not list(jobs.glob("asks/*")))
    eventually("nothing of it runs", lambda: not _named(str(jobs)))


def _reach_a_port(cluster: RealCluster) -> None:
    """What a command in a job serves comes through the master."""
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    config = {
        "entrypoint": ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"],
        "environment": {"proxy_ports": [{"proxy_port": port, "default_service_id": True}]},
        "resources": {"slots": 1},
    }
    session = cluster.client.session
    command = session.post("/api/v1/commands", {"config": config})["command"]["id"]

    def looked() -> str:
        """An HTTP server that knows nothing of where it is."""
        try:
            session.get(f"/proxy/{command}/")
        except WindlassError as error:
            return error.message
        return ""

    eventually("the port answers", lambda: "File not found" in looked())
    session.post(f"/api/v1/commands/{command}/kill", {})


def _use_a_shell(cluster: RealCluster, folder: Path) -> None:
    """A command, and a file there and back."""
    shell = ClusterShell(cluster, "--config", "resources.slots=1")
    sent, back = folder / "sent", folder / "back"
    sent.write_bytes(os.urandom(1_000_000))
    shell.copy(str(sent), f"{ALIAS}:copy")
    said = shell.open("sha256sum copy").decode().split()
    assert said == [hashlib.sha256(sent.read_bytes()).hexdigest(), "copy"]
    shell.copy(f"{ALIAS}:copy", str(back))
    assert back.read_bytes() == sent.read_bytes()
    shell.kill()


def _named(word: str) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(word in one for one in process.info["cmdline"] or ())
        and "agent_bootstrap" in " ".join(process.info["cmdline"] or ())
    ]
