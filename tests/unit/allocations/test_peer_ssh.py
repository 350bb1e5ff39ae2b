"""The keys by which the containers of one gang log in to each other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.peer_ssh import CLIENT_CONFIG, SSH_DIR, PeerKeys
from master.core.expconf.container_defaults import TaskContainerDefaults
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock

CONFIG = """
entrypoint: python3 train.py
searcher: {name: single, metric: loss}
checkpoint_storage: {type: shared_fs, host_path: /ckpt}
resources: {slots_per_trial: 2}
"""


def public_key(keys: PeerKeys, allocation_id: str, tmp_path: Path) -> str:
    """As OpenSSH itself derives it from the private one."""
    private = tmp_path / allocation_id
    files = {file.path: file for file in keys.files(allocation_id)}
    private.write_bytes(files[f"{SSH_DIR}/id_rsa"].content)
    private.chmod(files[f"{SSH_DIR}/id_rsa"].mode)
    told = subprocess.run(["ssh-keygen", "-y", "-f", private], check=True, capture_output=True)
    assert files[f"{SSH_DIR}/authorized_keys"].content == told.stdout
    return told.stdout.decode()


def test_each_allocation_has_a_key_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    keys = PeerKeys(b"of the cluster")
    first = public_key(keys, "1.a.0", tmp_path)
    assert first.startswith("ssh-ed25519 ")
    assert public_key(PeerKeys(b"of the cluster"), "1.a.0", tmp_path) == first
    assert public_key(keys, "1.a.1", tmp_path) != first
    assert public_key(PeerKeys(b"of another"), "1.a.0", tmp_path) != first


def test_nothing_of_it_is_readable_for_others_but_the_settings_of_the_client() -> None:
    files = {file.path: file for file in PeerKeys(b"s").files("1.a.0")}
    open_to_all = [path for path, file in files.items() if file.mode & 0o077]
    assert open_to_all == ["/etc/ssh/ssh_config"]
    assert files["/etc/ssh/ssh_config"].content == CLIENT_CONFIG.encode()


@pytest.mark.parametrize("agents", [1, 2])
async def test_only_containers_with_peers_get_keys(
    tmp_path: Path, clock: ManualClock, agents: int
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        await cluster.create(CONFIG)
        await cluster.grant(agents)
        given = {file.path for file in cluster.rm.specs[cluster.run.id].files}
        assert ({f"{SSH_DIR}/id_rsa", f"{SSH_DIR}/sshd_config"} <= given) is (agents == 2)
    finally:
        await cluster.crash()


@pytest.mark.parametrize("agents", [1, 2])
async def test_containers_with_peers_are_told_of_the_network_between_them(
    tmp_path: Path, clock: ManualClock, agents: int
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        await cluster.create(CONFIG)
        await cluster.grant(agents)
        run = cluster.run
        defaults = TaskContainerDefaults(
            dtrain_network_interface="ib0", gloo_port_range="20000:20100"
        )
        told = ClusterTasks(defaults={run.pool: defaults}).peer_network(run)
        expected = {
            "DET_INTER_NODE_NETWORK_INTERFACE": "ib0",
            "NCCL_SOCKET_IFNAME": "ib0",
            "GLOO_SOCKET_IFNAME": "ib0",
            "GLOO_PORT_RANGE": "20000:20100",
        }
        assert told == (expected if agents == 2 else {})
        assert ClusterTasks().peer_network(run) == {}
    finally:
        await cluster.crash()
