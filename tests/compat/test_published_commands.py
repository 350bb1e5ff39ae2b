"""Each verb of `det cmd`, of the published client, unmodified, against a real master with a real agent."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.jails import virtualenv
from tests.real_cluster import PATIENCE_S, RealCluster, eventually
from windlass.sdk.interactive import COMMAND

COMPAT = Path(__file__).parents[2] / ".compat" / "bin"
HELD = "echo begun; exec sleep 600"
"""Runs until it is killed."""

pytestmark = pytest.mark.skipif(
    not (COMPAT / "det").exists(), reason="the published client is not installed: run make test"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("command-verbs")
    with RealCluster(folder, {"resource_pools": [{"pool_name": "default"}]}) as cluster:
        cluster.start_agent("node", slots=2)
        yield cluster


def attempt(cluster: RealCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`det cmd`, with a home of its own so that it has no stored login."""
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [COMPAT / "det", "-m", cluster.url, "cmd", *arguments],
        env={
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            **cluster.login_as(),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def det(cluster: RealCluster, *arguments: str) -> str:
    done = attempt(cluster, *arguments)
    assert done.returncode == 0, done.stdout
    return done.stdout


def command(cluster: RealCluster, command_id: str) -> dict[str, Any]:
    return cluster.client.interactive(COMMAND).one(command_id)


def ended(cluster: RealCluster, command_id: str) -> str:
    """The exit status, once there is one."""
    return eventually(
        f"command {command_id} is over", lambda: command(cluster, command_id)["exitStatus"]
    )


@pytest.fixture
def held(cluster: RealCluster) -> Iterator[str]:
    """The id of a command that runs for ever."""
    command_id = det(cluster, "run", "-d", HELD).split()[-1]
    eventually(
        "it has begun",
        lambda: any("|| begun" in str(e["message"]) for e in cluster.client.task_logs(command_id)),
    )
    yield command_id
    cluster.client.interactive(COMMAND).kill(command_id)
    ended(cluster, command_id)


def test_run_shows_the_output_until_the_end(cluster: RealCluster) -> None:
    said = det(cluster, "run", "echo", "hi there")
    launched = re.search(r"Launched command \(id: (\S+), name: (Command \(.+\))\)\.", said)
    assert launched is not None, said
    assert re.search(r"\|\| hi there$", said, re.MULTILINE), said
    assert ended(cluster, launched[1]) == "success"
    assert command(cluster, launched[1])["description"] == launched[2]
    assert "|| hi there" in det(cluster, "logs", launched[1])


def test_one_string_is_for_the_shell_and_slots_are_really_given(cluster: RealCluster) -> None:
    program = "echo sum $((1 + 2)) slots $DET_SLOT_IDS"
    said = det(cluster, "run", "--config", "resources.slots=2", program)
    assert re.search(r"sum 3 slots \[0, ?1\]", said), said


def test_a_command_runs_in_the_python_that_its_configuration_names(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """The published client knows no such keys, and sends them on as they are."""
    venv = virtualenv(tmp_path / "venv")
    config = tmp_path / "config.yaml"
    settings = {"python": str(venv), "prologue": ["export FROM=prologue"]}
    config.write_text(yaml.safe_dump({"environment": settings, "resources": {"slots": 0}}))
    program = "python3 -c \"import os, sys; print(sys.prefix, os.environ['FROM'])\""
    said = det(cluster, "run", "--config-file", str(config), program)
    assert f"{venv} prologue" in said, said
    refused = attempt(cluster, "run", "--config", "environment.python=bin/python", "true")
    assert "environment.python" in refused.stdout
    assert "is not a Python" in refused.stdout


def test_included_files_keep_the_name_of_their_folder(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.txt").write_text("content of x\n")
    aux = ("--config", "resources.slots=0")
    assert "content of x" in det(
        cluster, "run", *aux, "-i", str(tmp_path / "data"), "cat", "data/x.txt"
    )


def test_list_describe_and_config(cluster: RealCluster, held: str) -> None:
    assert held in det(cluster, "list", "-q").split()
    assert held in det(cluster, "list")
    listed = json.loads(det(cluster, "list", "--all", "--json"))
    own = next(item for item in listed if item["id"] == held)
    assert (own["state"], own["username"]) == ("RUNNING", "determined")
    assert own["workspaceName"] == "Uncategorized"
    described = json.loads(det(cluster, "describe", held[:8], "--json"))
    assert (described["id"], described["resourcePool"]) == (held, "default")
    config = yaml.safe_load(det(cluster, "config", held))
    assert (config["entrypoint"], config["resources"]["slots"]) == ([HELD], 1)


def test_a_priority_out_of_bounds_changes_nothing(cluster: RealCluster, held: str) -> None:
    assert "Set priority of command" in det(cluster, "set", "priority", held, "10")
    refused = attempt(cluster, "set", "priority", held, "100").stdout
    assert "1 (most important) to 99, but is 100" in refused
    assert cluster.client.interactive(COMMAND).get(held)["config"]["resources"]["priority"] == 10


def test_kill_ends_it_and_again_is_no_error(cluster: RealCluster, held: str) -> None:
    assert f"Killed command {held}" in det(cluster, "kill", held[:8])
    assert ended(cluster, held) == "killed by determined"
    assert "Killed command" in det(cluster, "kill", held)
    eventually(
        "the slots are free",
        lambda: not cluster.get("/api/v1/agents")["agents"][0]["containers"],
    )


def test_a_failing_command_is_followed_to_its_end(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("in a file\n")
    said = det(cluster, "run", "--context", str(tmp_path), "cat a.txt; exit 3")
    assert "|| in a file" in said
    assert "resources failed with non-zero exit code: " in said
    assert "Task log stream ended" in said
    assert "task failed with exit code 3" in det(cluster, "list")


def test_more_slots_than_there_are_are_refused(cluster: RealCluster) -> None:
    refused = attempt(cluster, "run", "--config", "resources.slots=99", "true")
    assert refused.returncode != 0
    assert "Requested 99 slots on one agent; the largest agent of pool 'default'" in refused.stdout


def test_a_config_that_cannot_be_is_refused_with_the_way_out(cluster: RealCluster) -> None:
    before = len(cluster.client.interactive(COMMAND).listed())
    refused = attempt(cluster, "run", "--config", "resources.slot=1", "date")
    assert refused.returncode != 0
    assert 'additionalProperties "slot" not allowed; did you mean "slots"?' in refused.stdout
    assert len(cluster.client.interactive(COMMAND).listed()) == before
