"""A machine boots by its user data alone, and is an agent of a real master with TLS."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.fakes.cloud_machine import CloudMachine, metadata_service
from tests.launch_user_data import UserData, user_data_of
from tests.real_cluster import WINDLASS, RealCluster, eventually


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    issued = authority.issue()
    files = {"cert": str(issued.cert), "key": str(issued.key), "ca": str(authority.root)}
    folder = tmp_path_factory.mktemp("boot")
    with RealCluster(folder, {"security": {"tls": files}}, trust=authority.root) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def user_data_for(cluster: RealCluster, authority: Authority) -> UserData:
    return user_data_of(cluster, authority, patience_s=60)


def test_a_machine_boots_joins_once_and_gives_nothing_away(
    cluster: RealCluster, user_data_for: UserData, tmp_path: Path
) -> None:
    script = user_data_for("i-1")
    path = f"{Path(WINDLASS).parent}:{os.environ['PATH']}"
    with metadata_service("i-1") as metadata:
        machine = CloudMachine(tmp_path / "machine", metadata)
        try:
            console = machine.boot(script, path=path)
            assert machine.exit_code == 0, console
            assert "i-1 has joined" in console
            eventually("its agent is connected", lambda: "i-1" in cluster.agents())
            (agent,) = [a for a in cluster.client.agents() if a["id"] == "i-1"]
            assert len(agent["slots"]) == 2
            assert not (machine.state / "token").exists()
            assert machine.home.settings["metadata_service"] == metadata

            assert "has its agent already" in machine.boot(script, path=path), "a reboot"
            (machine.state / "joined").unlink()
            assert "i-1 has joined" in machine.boot(script, path=path), "after a crash"
            assert not machine.has_ended_itself
            assert len(machine.home.agents()) == 1

            thief = CloudMachine(tmp_path / "thief", metadata)
            console = thief.boot(script, path=path)
            assert thief.has_ended_itself
            assert "'i-1' has joined already: the token of its launch is spent" in console
        finally:
            machine.stop()


def test_the_token_of_one_launch_is_for_no_other_machine(
    cluster: RealCluster, user_data_for: UserData, tmp_path: Path
) -> None:
    with metadata_service("i-3") as metadata:
        machine = CloudMachine(tmp_path / "machine", metadata)
        console = machine.boot(user_data_for("i-2"))
    assert machine.has_ended_itself
    assert "the join token is not for agent 'i-3'" in console
    assert "i-3" not in cluster.agents()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_wheels_of_the_master_are_installed_without_a_package_index(
    cluster: RealCluster, user_data_for: UserData, tmp_path: Path
) -> None:
    python = shutil.which("python3.11", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("wheels of this machine need a Python 3.11 outside of the environment")
    with metadata_service("i-4") as metadata:
        machine = CloudMachine(tmp_path / "machine", metadata)
        machine.home.program("pip", "exit 9")
        try:
            console = machine.boot(user_data_for("i-4"), path="/usr/bin:/bin", limit_s=280)
            assert machine.exit_code == 0, console
            eventually("its agent is connected", lambda: "i-4" in cluster.agents())
            (agent,) = machine.home.agents()
            assert agent.cmdline()[0].startswith(str(machine.prefix))
        finally:
            machine.stop()
