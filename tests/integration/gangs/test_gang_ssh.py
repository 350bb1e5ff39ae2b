"""A gang on two nodes: its containers log in to each other, and the published package's launchers start ranks so.

What launchers call are recorders (`launchers/bin`), which start ranks as the real programs do: through real sshd.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jails import open_way_to
from tests.nodes import Network, network
from tests.published import COMPAT, needs_published
from tests.real_cluster import RealCluster

HERE = Path(__file__).parent
LAUNCHERS = ("torch", "horovod", "deepspeed")

pytestmark = [
    pytest.mark.slow,
    needs_published,
    pytest.mark.skipif(
        shutil.which("sshd", path="/usr/sbin:/usr/bin") is None, reason="sshd is not installed"
    ),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Network]:
    with network(2) as net:
        yield net


@pytest.fixture(scope="module")
def cluster(nodes: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    config = {
        "host": "0.0.0.0",  # noqa: S104  (the nodes come over a bridge)
        "task_container_defaults": {"dtrain_network_interface": "eth0"},
        "resource_pools": [{"pool_name": "default"}],
    }
    open_way_to(COMPAT / "python")
    with RealCluster(tmp_path_factory.mktemp("gangs"), config) as cluster:
        for node in nodes.nodes:
            python = {"python": str(COMPAT / "python")}
            inside = nodes.inside(node)
            cluster.start_agent(node, slots=1, via=inside, host=nodes.master, options=python)
        yield cluster


def log_of(cluster: RealCluster, model: str, entrypoint: str) -> str:
    """Of a trial in two containers. It must succeed."""
    config = {
        "name": model,
        "entrypoint": entrypoint,
        "searcher": {"name": "single", "metric": "loss", "max_length": 1},
        "resources": {"slots_per_trial": 2},
        "max_restarts": 0,
    }
    experiment = cluster.submit(config, HERE / model)
    ended = cluster.wait(experiment)
    (trial,) = cluster.trials(experiment)
    log = cluster.logs_of(trial["id"])
    assert ended["state"] == "STATE_COMPLETED", log
    return log


def test_containers_of_one_gang_log_in_to_each_other_and_nobody_else_does(
    cluster: RealCluster,
) -> None:
    log = log_of(cluster, "peers", "python3 train.py")
    assert "own key: from the peer" in log, log
    assert "other key: " in log
    assert "Permission denied (publickey)" in log
    assert "other host: Host key verification failed." in log


@pytest.fixture(scope="module")
def log(cluster: RealCluster) -> str:
    """Of a trial that runs all launchers, one after the other."""
    return log_of(cluster, "launchers", "sh launch_all.sh")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_rank_runs_on_each_node(nodes: Network, log: str, launcher: str) -> None:
    found = re.findall(rf"{launcher}: rank (\d) of 2 on (\S+), all: (.*)", log)
    (chief, other) = sorted(
        (rank, node, json.loads(all_.replace("'", '"'))) for rank, node, all_ in found
    )
    assert (chief[0], other[0]) == ("0", "1")
    assert {chief[1], other[1]} == set(nodes.nodes)
    assert chief[2] == other[2] == [chief[1], other[1]]


def recorded(log: str, program: str) -> list[list[str]]:
    calls = [json.loads(line) for line in re.findall(r"recorded (\[.*\])", log)]
    return [call[1:] for call in calls if call[0] == program]


def value(call: list[str], option: str) -> str:
    return call[call.index(option) + 1]


def test_torchs_launcher_gets_the_chiefs_address_on_each_node(nodes: Network, log: str) -> None:
    calls = recorded(log, "run.py")
    assert sorted(value(call, "--node_rank") for call in calls) == ["0", "1"]
    for call in calls:
        assert (value(call, "--nnodes"), value(call, "--nproc_per_node")) == ("2", "1")
        assert value(call, "--master_addr").startswith(nodes.master.rsplit(".", 1)[0])
        assert int(value(call, "--master_port")) >= 29400
        assert "--rdzv_backend=static" in call


def test_horovodrun_gets_hosts_our_port_and_the_interface(nodes: Network, log: str) -> None:
    (call,) = recorded(log, "horovodrun")
    own, other = value(call, "-H").split(",")
    assert own == "localhost:1"
    assert re.fullmatch(rf"{re.escape(nodes.master.rsplit('.', 1)[0])}\.[23]:1", other)
    assert value(call, "-np") == "2"
    assert int(value(call, "-p")) >= 12350
    assert value(call, "--network-interface") == "eth0"
    assert "--mpi-args=--mca btl tcp,self" in call


def test_deepspeed_gets_a_file_of_hosts_and_pdsh_our_port(nodes: Network, log: str) -> None:
    (call,) = recorded(log, "deepspeed")
    assert re.fullmatch(r"/tmp/hostfile-\S+\.txt", value(call, "-H"))
    assert "--no_ssh_check" in call
    (call,) = recorded(log, "pdsh")
    subnet = nodes.master.rsplit(".", 1)[0]
    assert set(value(call, "-w").split(",")) == {f"{subnet}.2", f"{subnet}.3"}
