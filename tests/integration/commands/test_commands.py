"""Commands on a real cluster of processes: what they print, how they end, and a master that dies meanwhile."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.real_cluster import RealCluster, eventually
from windlass.base.errors import InvalidArgument, WindlassError

Json = dict[str, Any]
URL = "/api/v1/commands"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    config = {"resource_pools": [{"pool_name": "default"}], "task_container_defaults": {}}
    with RealCluster(tmp_path_factory.mktemp("commands"), config) as cluster:
        cluster.start_agent("node-1", slots=2)
        yield cluster


def launch(
    cluster: RealCluster, *entrypoint: str, files: tuple[Json, ...] = (), **config: Any
) -> str:
    body = {"config": {"entrypoint": list(entrypoint), **config}, "files": list(files)}
    return str(cluster.client.session.post(URL, body)["command"]["id"])


def look(cluster: RealCluster, command_id: str) -> Json:
    return dict(cluster.get(f"{URL}/{command_id}")["command"])


def over(cluster: RealCluster, command_id: str) -> Json:
    """The command once it has ended. The master may be away meanwhile."""

    def ended() -> Json | None:
        try:
            command = look(cluster, command_id)
        except WindlassError:
            return None
        return command if command["state"] == "STATE_TERMINATED" else None

    return eventually(f"command {command_id} ends", ended)


def log(cluster: RealCluster, command_id: str, *, follow: bool = False) -> list[str]:
    """What its program printed. Following ends when the command has."""
    query = {"follow": "true"} if follow else None
    entries = cluster.client.session.stream(f"/api/v1/tasks/{command_id}/logs", query)
    return [str(e["log"]).rstrip("\n") for e in entries if e["source"] != "master"]


def listed(cluster: RealCluster) -> list[str]:
    return [str(command["id"]) for command in cluster.get(URL)["commands"]]


def printed(cluster: RealCluster, command_id: str, text: str) -> None:
    eventually(f"it prints {text}", lambda: text in log(cluster, command_id))


def test_a_command_without_a_program_runs_the_hooks_and_ends_well(cluster: RealCluster) -> None:
    command_id = str(cluster.client.session.post(URL, {"config": {}})["command"]["id"])
    assert over(cluster, command_id)["exitStatus"] == "success"


def test_a_command_prints_and_ends_with_its_exit_code(cluster: RealCluster) -> None:
    command_id = launch(cluster, "echo hello from $DET_TASK_TYPE; echo oops >&2; exit 3")
    assert {"hello from COMMAND", "oops"} <= set(log(cluster, command_id, follow=True))
    command = over(cluster, command_id)
    assert command["exitStatus"].startswith("task failed with exit code 3")
    task = cluster.get(f"/api/v1/tasks/{command_id}")["task"]
    assert (task["taskType"], task["allocations"][0]["statusCode"]) == ("TASK_TYPE_COMMAND", 3)
    assert task["endTime"] is not None

    fine = launch(cluster, "printf", "%s|", "one word", "$HOME")
    assert log(cluster, fine, follow=True) == ["one word|$HOME|"]
    assert over(cluster, fine)["exitStatus"] == "success"


def test_a_command_finds_its_files_and_acts_as_its_owner(cluster: RealCluster) -> None:
    script = b"""
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["DET_MASTER"] + "/api/v1/me",
    headers={"Authorization": "Bearer " + os.environ["DET_USER_TOKEN"]},
)
me = json.load(urllib.request.urlopen(request))["user"]["username"]
print(open("data/input.txt").read(), me, os.getcwd() == os.environ["DET_WORKDIR"])
"""
    files = (
        file("data", directory=True),
        file("data/input.txt", b"forty-two"),
        file("main.py", script),
    )
    command_id = launch(cluster, "python3", "main.py", files=files, resources={"slots": 0})
    assert log(cluster, command_id, follow=True) == ["forty-two determined True"]
    assert over(cluster, command_id)["exitStatus"] == "success"


def test_a_killed_command_says_who_killed_it_and_gives_its_slots_back(cluster: RealCluster) -> None:
    command_id = launch(cluster, "echo up; sleep 600", resources={"slots": 2})
    printed(cluster, command_id, "up")
    waiting = launch(cluster, "echo my turn", resources={"slots": 2})
    assert look(cluster, waiting)["waitingReason"]
    followed: list[str] = []
    follower = threading.Thread(
        target=lambda: followed.extend(log(cluster, command_id, follow=True))
    )
    follower.start()
    cluster.client.session.post(f"{URL}/{command_id}/kill")
    assert over(cluster, command_id)["exitStatus"] == "killed by determined"
    follower.join(timeout=30)
    assert not follower.is_alive()
    assert followed == ["up"]
    assert log(cluster, waiting, follow=True) == ["my turn"]
    assert over(cluster, waiting)["exitStatus"] == "success"


def test_a_command_outlives_its_master_and_the_queue_keeps_its_order(cluster: RealCluster) -> None:
    gate = cluster.folder / "gate"
    gate.mkdir()
    mount = {"host_path": str(gate), "container_path": "gate"}
    running = launch(
        cluster,
        "echo before; while [ ! -e gate/open ]; do sleep 0.1; done; echo after; exit 4",
        bind_mounts=[mount],
        resources={"slots": 2},
    )
    printed(cluster, running, "before")
    second = launch(cluster, "echo second", resources={"slots": 2})
    third = launch(cluster, "echo third", resources={"slots": 2})
    cluster.client.session.post(f"{URL}/{second}/set_priority", {"priority": 7})
    cluster.kill_master()
    cluster.start_master()
    assert look(cluster, running)["state"] == "STATE_RUNNING"
    assert cluster.get(f"{URL}/{second}")["config"]["resources"]["priority"] == 7
    (gate / "open").touch()
    assert over(cluster, running)["exitStatus"].startswith("task failed with exit code 4")
    assert log(cluster, running, follow=True) == ["before", "after"]
    for command_id in (second, third):
        assert over(cluster, command_id)["exitStatus"] == "success"
    starts = [
        cluster.get(f"/api/v1/tasks/{id_}")["task"]["allocations"][0]["startTime"]
        for id_ in (running, second, third)
    ]
    assert starts == sorted(starts)
    assert listed(cluster)[-3:] == [running, second, third]


def test_what_could_never_run_is_refused(cluster: RealCluster) -> None:
    before = listed(cluster)
    with pytest.raises(InvalidArgument, match="slots"):
        launch(cluster, "true", resources={"slots": 64})
    assert listed(cluster) == before


def file(path: str, content: bytes = b"", *, directory: bool = False) -> Json:
    """As the published command line sends it: `mtime` is a number."""
    return {
        "path": path,
        "type": 53 if directory else 48,
        "content": base64.b64encode(content).decode(),
        "mtime": 1742464800,
        "mode": 0o40755 if directory else 0o100644,
        "uid": 0,
        "gid": 0,
    }
