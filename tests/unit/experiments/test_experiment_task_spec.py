"""What a trial's containers are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent_bootstrap.container_options import (
    CheckpointFolder,
    ContainerOptions,
    Device,
    OsUser,
    ProxyPort,
    RegistryLogin,
)
from agent_bootstrap.privilege_rules import Privileges
from agent_bootstrap.protocol import RegistryCredentials
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.identities import TaskOwner
from master.core.expconf import ClusterDefaults
from master.core.expconf.container_defaults import TaskContainerDefaults
from master.core.expconf.interactive import complete_task
from master.core.expconf.kinds import CommandConfig
from master.core.expconf.references import take_secrets
from rm_backends.base import Lost
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock

CONFIG = """
entrypoint: python3 train.py
searcher: {{name: single, metric: loss}}
checkpoint_storage: {storage}
bind_mounts:
  - {{host_path: /nfs/team, container_path: /mnt/team}}
"""


@pytest.mark.parametrize(
    ("storage", "binds"),
    [
        ("{type: shared_fs, host_path: /ckpt}", [("/ckpt", "/determined_shared_fs")]),
        ("{type: directory, container_path: /ckpt}", [("/ckpt", "/ckpt")]),
        ("{type: directory, container_path: /mnt/teams}", [("/mnt/teams", "/mnt/teams")]),
        ("{type: directory, container_path: /mnt/team}", []),
        ("{type: directory, container_path: /mnt/team/ckpt}", []),
    ],
)
async def test_a_directory_that_the_tasks_own_mounts_supply_need_not_be_on_the_machine(
    tmp_path: Path, clock: ManualClock, storage: str, binds: list[tuple[str, str]]
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        await cluster.create(CONFIG.format(storage=storage))
        await cluster.grant()
        given = cluster.rm.specs[cluster.run.id].binds
        expected = [*binds, ("/nfs/team", "/mnt/team")]
        assert [(bind.source, bind.target) for bind in given] == expected
    finally:
        await cluster.crash()


OPTIONS = """
entrypoint: python3 train.py
searcher: {name: single, metric: loss}
checkpoint_storage: {type: shared_fs, host_path: /ckpt}
resources: {slots_per_trial: 1, shm_size: 64MiB, devices: ["/dev/infiniband:/dev/ib:rw"]}
environment:
  image: {cpu: mine:cpu, cuda: mine:cuda}
  force_pull_image: true
  registry_auth: {username: me, password: hunter2, serveraddress: registry.example}
  add_capabilities: [IPC_LOCK]
  drop_capabilities: [NET_RAW]
  proxy_ports: [{proxy_port: 8265, proxy_tcp: true}]
"""


async def test_a_runtime_is_told_what_the_configuration_asks_for_and_no_secret(
    tmp_path: Path, clock: ManualClock
) -> None:
    allowed = Privileges(capabilities=("IPC_LOCK",), devices=("/dev/infiniband",))
    tasks = ClusterTasks(privileges={"default": allowed})
    cluster = await ScriptedCluster.start(tmp_path, clock, cluster_tasks=tasks)
    try:
        await cluster.create(OPTIONS)
        await cluster.grant()
        options = cluster.rm.specs[cluster.run.id].options
        assert options == ContainerOptions(
            image="mine:cpu",
            force_pull_image=True,
            registry_login=RegistryLogin(reference=cluster.run.task_id, server="registry.example"),
            shm_bytes=64 * 2**20,
            devices=(Device(host_path="/dev/infiniband", container_path="/dev/ib", mode="rw"),),
            add_capabilities=("IPC_LOCK",),
            drop_capabilities=("NET_RAW",),
            network="bridge",
            ports=(ProxyPort(port=8265, tcp=True),),
            os_user=None,
            privileges=allowed,
            checkpoints=CheckpointFolder(
                host_path="/ckpt", experiment_id=1, trial_id=cluster.trial.id
            ),
        )
        assert "hunter2" not in options.model_dump_json()
        login = RegistryCredentials(username="me", password="hunter2", server="registry.example")
        assert cluster.allocations.registry_login(cluster.run.id) == login
        await cluster.allocations.handle(Lost(allocation_id=cluster.run.id, reason="gone"))
        assert cluster.allocations.registry_login(f"{cluster.run.task_id}.1") is None, "it is over"
    finally:
        await cluster.crash()


async def test_the_cluster_says_what_the_configuration_leaves_out(
    tmp_path: Path, clock: ManualClock
) -> None:
    cluster = await ScriptedCluster.start(tmp_path, clock)
    try:
        await cluster.create(CONFIG.format(storage="{type: shared_fs, host_path: /ckpt}"))
        await cluster.grant()
        given = cluster.run
        config = cluster.only.config
        defaults = {given.pool: TaskContainerDefaults(shm_size_bytes=1024, network_mode="team-net")}
        tasks = ClusterTasks(
            defaults=defaults, default_user=OsUser(uid=7, gid=8, user="u", group="g")
        )
        alone = tasks.options(config, given, TaskOwner(1, 1))
        assert (alone.shm_bytes, alone.network, alone.os_user) == (
            1024,
            "team-net",
            OsUser(uid=7, gid=8, user="u", group="g"),
        )
        gang = replace(given, containers=given.containers * 2)
        assert tasks.options(config, gang, TaskOwner(1, 1)).network == "host", (
            "its parts meet at their nodes"
        )
        assert ClusterTasks().options(config, given, TaskOwner(1, 1)).shm_bytes == 4 * 2**30
    finally:
        await cluster.crash()


def test_the_clusters_own_login_is_the_one_that_master_yaml_has_now() -> None:
    def pool(password: str) -> ClusterDefaults:
        login = {"username": "site", "password": password}
        return ClusterDefaults(task_container_defaults={"registry_auth": login})

    defaults, _ = take_secrets(pool("of last year"))
    config = complete_task(CommandConfig, {"entrypoint": ["true"]}, defaults=defaults)
    _, secrets = take_secrets(pool("of this year"))
    cluster = ClusterTasks(secrets={"default": secrets})
    assert cluster.registry_login(config, "default") == RegistryCredentials(
        server="docker.io", username="site", password="of this year"
    )
    nobody = complete_task(CommandConfig, {"entrypoint": ["true"]}, defaults=ClusterDefaults())
    assert cluster.registry_login(nobody, "default") is None
