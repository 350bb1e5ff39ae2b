"""The published client, unmodified, as an operator uses it: machines and slots out of service and back."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually

COMPAT = Path(__file__).parents[2] / ".compat" / "bin"

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("agents")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DET_LABEL", "rack=a12,loud")
            cluster.start_agent("node", slots=2)
        yield cluster


def det(cluster: RealCluster, *arguments: str, user: str = "admin") -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    environment.update(cluster.login_as(user))
    done = subprocess.run(
        [COMPAT / "det", "-m", cluster.url, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    return done.returncode, done.stdout, done.stderr


def ok(cluster: RealCluster, *arguments: str) -> str:
    code, out, errors = det(cluster, *arguments)
    assert code == 0, out + errors
    return out


def slots(cluster: RealCluster) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(ok(cluster, "slot", "list", "--json"))
    return listed


def service(cluster: RealCluster) -> tuple[bool, bool]:
    (agent,) = json.loads(ok(cluster, "agent", "list", "--json"))
    return agent["enabled"], agent["draining"]


class Gate:
    """What tasks wait at: each keeps a connection until `open`."""

    def __init__(self) -> None:
        self._waiting = socket.create_server(("127.0.0.1", 0))
        self._waiting.setblocking(False)
        address = self._waiting.getsockname()
        self.wait = f"import socket; socket.create_connection({address!r}).recv(1)"

    def open(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._waiting.accept()[0].close()

    def close(self) -> None:
        self._waiting.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.close()


def submit(cluster: RealCluster, gate: Gate) -> int:
    """An experiment whose trial runs until the gate opens."""
    model = cluster.folder / "model"
    model.mkdir(exist_ok=True)
    config = {
        "name": "gated",
        "entrypoint": ["python3", "-c", gate.wait],
        "searcher": {"name": "single", "metric": "loss"},
        "max_restarts": 0,
    }
    return cluster.submit(config, model)


def test_slots_and_agents_out_of_service_and_back(cluster: RealCluster, gate: Gate) -> None:
    assert [(s["slot_id"], s["task_name"]) for s in slots(cluster)] == [
        ("0", "FREE"),
        ("1", "FREE"),
    ]
    experiment = submit(cluster, gate)
    name = f"Trial 1 (Experiment {experiment})"
    eventually("it runs on slot 0", lambda: slots(cluster)[0]["task_name"] == name)

    assert "Disabled slot 0 of agent node" in ok(cluster, "slot", "disable", "node", "0")
    eventually("it runs on slot 1", lambda: slots(cluster)[1]["task_name"] == name)
    first = eventually("slot 0 is empty", lambda: [s for s in slots(cluster) if is_free(s)])[0]
    assert (first["slot_id"], first["enabled"], first["draining"]) == ("0", False, False)

    still_there = ok(cluster, "agent", "disable", "--drain", "node")
    assert "Tasks still in progress on draining nodes." in still_there
    assert name in still_there
    assert service(cluster) == (False, True)
    gate.open()
    assert cluster.wait(experiment)["state"] == "STATE_COMPLETED"
    assert cluster.trials(experiment)[0]["restarts"] == 0
    eventually("nothing is left to drain", lambda: service(cluster) == (False, False))
    assert [s["draining"] for s in slots(cluster)] == [True, True]
    assert "No tasks in progress" in ok(cluster, "agent", "disable", "--drain", "--all")

    ok(cluster, "agent", "enable", "node")
    assert [s["enabled"] for s in slots(cluster)] == [False, True], "slots are apart from agents"
    ok(cluster, "slot", "enable", "node", "0")
    assert [s["enabled"] for s in slots(cluster)] == [True, True]
    assert service(cluster) == (True, False)
    (agent,) = cluster.client.agents()
    assert agent["labels"] == ["rack=a12", "loud"]


def is_free(slot: dict[str, Any]) -> bool:
    return bool(slot["task_name"] == "FREE")


def test_what_cannot_be_done_is_said(cluster: RealCluster) -> None:
    for user, arguments, told in (
        ("determined", ("agent", "disable", "node"), "user does not have permission"),
        ("determined", ("slot", "disable", "node", "0"), "user does not have permission"),
        ("admin", ("slot", "disable", "node", "7"), "agent 'node': slot '7' not found"),
        ("admin", ("agent", "disable", "nowhere"), "agent 'nowhere' not found"),
    ):
        code, out, errors = det(cluster, *arguments, user=user)
        assert code != 0
        assert told in out + errors
    assert [s["enabled"] for s in slots(cluster)] == [True, True]
