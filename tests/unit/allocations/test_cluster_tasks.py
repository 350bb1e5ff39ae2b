"""What the cluster's operator says of all tasks: whom they run as, and what they may mount."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import OsUser
from agent_bootstrap.privilege_rules import Privileges
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.identities import TaskOwner, WorkspaceUser, merged
from master.allocations.machine import AllocationState
from master.core.jobs import JobType
from master.experiments.submission.creation import NewExperiment
from master.store import tables
from master.store.unit_of_work import UnitOfWork
from master.tasks.service import NewTask
from master.workspaces.agent_users import AgentUsers
from rm_backends.base import Abilities
from tests.fakes.actors import ADMIN, DETERMINED
from tests.fakes.scripted_cluster import ScriptedCluster
from windlass.base.clock import ManualClock
from windlass.base.errors import InvalidConfig

ANN = OsUser(uid=1000, gid=1000, user="ann", group="ann")
NOBODY = OsUser(uid=99, gid=99, user="nobody", group="nobody")
ROOT = OsUser()
TRIAL = """
entrypoint: python3 train.py
searcher: {{name: single, metric: loss}}
checkpoint_storage: {storage}
bind_mounts: {mounts}
"""


LAB: dict[str, Any] = {"gid": 500, "group": "lab"}
SLEEP = "entrypoint: sleep 1\nsearcher: {name: single, metric: loss}\n"
IN_HOME = {"entrypoint": ["true"], "work_dir": "/home/$AGENT_USER"}


def admin_is(who: OsUser | None) -> Callable[[int], OsUser | None]:
    return lambda user_id: who if user_id == ADMIN.user_id else None


@pytest.mark.parametrize(
    ("linked", "default", "runs_as"),
    [
        (ANN, NOBODY, ANN),
        (ANN, None, ANN),
        (None, NOBODY, NOBODY),
        (None, None, None),
        (ROOT, NOBODY, ROOT),
        (None, ROOT, ROOT),
    ],
)
def test_the_link_is_stronger_than_the_clusters_default(
    linked: OsUser | None, default: OsUser | None, runs_as: OsUser | None
) -> None:
    tasks = ClusterTasks(default_user=default, linked=admin_is(linked))
    assert tasks.os_user(TaskOwner(ADMIN.user_id, 1)) == runs_as
    assert tasks.runs_as_root(TaskOwner(ADMIN.user_id, 1)) is (runs_as == ROOT)
    assert tasks.os_user(TaskOwner(DETERMINED.user_id, 1)) == default


@pytest.mark.parametrize(
    ("workspace", "others", "runs_as"),
    [
        ({}, (ANN, NOBODY), ANN),
        (LAB, (ANN, NOBODY), ANN.model_copy(update=LAB)),
        (LAB, (None, NOBODY), NOBODY.model_copy(update=LAB)),
        ({"uid": 7, "user": "eve"} | LAB, (ANN,), OsUser(uid=7, user="eve", **LAB)),
        ({"uid": 0}, (ANN,), ANN.model_copy(update={"uid": 0})),
        # What nobody says is of a user without rights, never of root.
        (LAB, (None, None), OsUser(uid=65530, user="task", **LAB)),
        (LAB, (), OsUser(uid=65530, user="task", **LAB)),
        ({}, (None, None), None),
    ],
)
def test_a_workspace_is_stronger_than_the_link_field_by_field(
    workspace: dict[str, Any], others: tuple[OsUser | None, ...], runs_as: OsUser | None
) -> None:
    assert merged(WorkspaceUser(**workspace), *others) == runs_as
    assert merged(None, *others) == next((who for who in others if who), None)


@pytest.mark.slow
async def test_the_workspace_of_a_task_counts_for_every_kind_and_after_a_restart(
    tmp_path: Path, clock: ManualClock
) -> None:
    users = AgentUsers()
    tasks = ClusterTasks(linked=admin_is(ANN), of_workspace=users.of)
    expected = ANN.model_copy(update={"gid": 500, "group": "lab"})
    async with cluster_with(tmp_path, clock, tasks) as cluster:
        lab = {"id": 2, "name": "lab", "user_id": 1, "agent_user_group": LAB}
        uow = UnitOfWork()
        uow.insert(tables.Workspace, lab)
        uow.insert(tables.Project, {"id": 2, "workspace_id": 2, "name": "p", "user_id": 1})
        await cluster.store.commit(uow)
        new = NewExperiment(config=SLEEP, project_id=2)
        await cluster.experiments.create(new, by=ADMIN)
        launched = await cluster.commands.launch(
            NewTask(type=JobType.COMMAND, config=IN_HOME, workspace_id=2), by=ADMIN
        )
        elsewhere = await launch(cluster, **IN_HOME)
    async with cluster_with(tmp_path, clock, tasks) as cluster:
        await users.load(cluster.store)
        await cluster.grant()
        for id_ in (launched.id, elsewhere.id):
            await cluster.grant(of=running(cluster, id_))
        ran_as = {spec.task_id: spec.options.os_user for spec in cluster.rm.specs.values()}
        assert ran_as.pop(elsewhere.id) == ANN
        assert set(ran_as) == {launched.id, cluster.trial.task_id}
        assert set(ran_as.values()) == {expected}


async def test_who_may_be_root_in_a_workspace_is_held_to_the_clusters_own_paths(
    tmp_path: Path, clock: ManualClock
) -> None:
    rules = HostPaths(cluster=("/ckpt",))
    tasks = ClusterTasks(
        of_workspace=lambda id_: WorkspaceUser(uid=0) if id_ == 1 else None,
        host_paths={"default": rules},
    )
    async with cluster_with(tmp_path, clock, tasks) as cluster:
        config = {"entrypoint": ["true"], "bind_mounts": mount("/data")}
        with pytest.raises(InvalidConfig, match="runs as root, only /ckpt"):
            await cluster.commands.check(NewTask(type=JobType.COMMAND, config=config), by=ADMIN)
        with pytest.raises(InvalidConfig, match="runs as root, only /ckpt"):
            await cluster.create(SLEEP + f"bind_mounts: {mount('/data')}")
        elsewhere = NewTask(type=JobType.COMMAND, config=config, workspace_id=2)
        assert (await cluster.commands.check(elsewhere, by=ADMIN)).pool == "default"


def running(cluster: ScriptedCluster, task_id: str) -> AllocationState:
    live = cluster.commands.live(task_id)
    assert live is not None
    assert live.state.open_allocation is not None
    return live.state.open_allocation


@asynccontextmanager
async def cluster_with(
    tmp_path: Path, clock: ManualClock, tasks: ClusterTasks
) -> AsyncIterator[ScriptedCluster]:
    cluster = await ScriptedCluster.start(tmp_path, clock, cluster_tasks=tasks)
    try:
        yield cluster
    finally:
        await cluster.crash()


async def test_tasks_of_every_kind_are_sent_with_their_owners_identity_and_the_rules(
    tmp_path: Path, clock: ManualClock
) -> None:
    rules = HostPaths(allowed=("/data",))
    tasks = ClusterTasks(linked=admin_is(ANN), host_paths={"default": rules})
    async with cluster_with(tmp_path, clock, tasks) as cluster:
        await cluster.create(TRIAL.format(storage="{type: shared_fs, host_path: /data}", mounts=[]))
        await cluster.grant()
        launched = await launch(cluster, entrypoint=["true"], work_dir="/home/$AGENT_USER")
        live = cluster.commands.live(launched.id)
        assert live is not None
        await cluster.grant(of=live.state.open_allocation)
        for spec in cluster.rm.specs.values():
            assert (spec.options.os_user, spec.options.host_paths) == (ANN, rules)
        assert {spec.task_type for spec in cluster.rm.specs.values()} == {"TRIAL", "COMMAND"}
        assert "/home/ann" in {spec.work_dir for spec in cluster.rm.specs.values()}


async def launch(cluster: ScriptedCluster, **config: Any) -> Any:
    return await cluster.commands.launch(NewTask(type=JobType.COMMAND, config=config), by=ADMIN)


def mount(path: str) -> list[dict[str, str]]:
    return [{"host_path": path, "container_path": "x"}]


async def test_a_bad_mount_is_refused_at_submission_with_field_value_and_list(
    tmp_path: Path, clock: ManualClock
) -> None:
    tasks = ClusterTasks(host_paths={"default": HostPaths(allowed=("/data", "/scratch"))})
    async with cluster_with(tmp_path, clock, tasks) as cluster:
        mounts = [*mount("/data/a"), *mount("/etc"), *mount("/proc/1")]
        storage = "{type: shared_fs, host_path: /home}"
        with pytest.raises(InvalidConfig) as refused:
            await cluster.create(TRIAL.format(storage=storage, mounts=mounts))
        assert refused.value.problems == (
            "<config>.bind_mounts[1].host_path: /etc is not in allowed_host_paths of master.yaml: /data, /scratch",
            "<config>.bind_mounts[2].host_path: /proc/1 is in /proc: every task has its own",
            "<config>.checkpoint_storage.host_path: /home is not in allowed_host_paths of master.yaml: /data, /scratch",
        )
        with pytest.raises(InvalidConfig, match=r"<config>\.bind_mounts\[0\]\.host_path: / is the"):
            await launch(cluster, entrypoint=["true"], bind_mounts=mount("/"))
        config = TRIAL.format(storage="{type: directory, container_path: /etc}", mounts=[])
        with pytest.raises(InvalidConfig, match=r"checkpoint_storage\.container_path: /etc is not"):
            await cluster.create(config)
        assert cluster.rm.requests == {}


async def test_only_who_runs_as_root_is_held_to_the_clusters_own_paths(
    tmp_path: Path, clock: ManualClock
) -> None:
    rules = HostPaths(cluster=("/ckpt",))
    tasks = ClusterTasks(linked=admin_is(ROOT), host_paths={"default": rules})
    async with cluster_with(tmp_path, clock, tasks) as cluster:
        new = NewTask(
            type=JobType.COMMAND, config={"entrypoint": ["true"], "bind_mounts": mount("/data")}
        )
        with pytest.raises(InvalidConfig, match=r"runs as root, only /ckpt: name it in allowed"):
            await cluster.commands.check(new, by=ADMIN)
        assert (await cluster.commands.check(new, by=DETERMINED)).pool == "default"


async def test_the_folder_of_the_master_is_refused_and_its_storage_is_not(
    tmp_path: Path, clock: ManualClock
) -> None:
    own = tmp_path / "master"
    (own / "checkpoints").mkdir(parents=True)
    rules = HostPaths(forbidden=(str(own),), cluster=(str(own / "checkpoints"),))
    async with cluster_with(
        tmp_path, clock, ClusterTasks(host_paths={"default": rules})
    ) as cluster:
        (tmp_path / "link").symlink_to(own)
        for path in (own, own / "secret", tmp_path, tmp_path / "link"):
            with pytest.raises(InvalidConfig, match="a folder of Windlass itself"):
                await launch(cluster, entrypoint=["true"], bind_mounts=mount(str(path)))
        await launch(cluster, entrypoint=["true"], bind_mounts=mount(str(own / "checkpoints")))


async def test_capabilities_and_devices_are_refused_unless_the_cluster_allows_them(
    tmp_path: Path, clock: ManualClock
) -> None:
    rules = Privileges(capabilities=("CAP_IPC_LOCK",), devices=("/dev/fuse",))
    device = {"host_path": "/dev/kmsg", "container_path": "/dev/kmsg"}
    async with cluster_with(
        tmp_path, clock, ClusterTasks(privileges={"default": rules})
    ) as cluster:
        asked = {
            "environment": {"add_capabilities": ["ipc_lock", "SYS_ADMIN"]},
            "resources": {"devices": [device]},
        }
        with pytest.raises(InvalidConfig) as refused:
            await launch(cluster, entrypoint=["true"], **asked)
        assert refused.value.problems == (
            "<config>.environment.add_capabilities[1]: SYS_ADMIN is not in allowed_capabilities of master.yaml: "
            "CAP_IPC_LOCK; leave it out, or ask the operator to add it",
            "<config>.resources.devices[0].host_path: /dev/kmsg is not in allowed_devices of master.yaml: /dev/fuse; "
            "leave it out, or ask the operator to add it",
        )
        config = TRIAL.format(storage="{type: shared_fs, host_path: /data}", mounts=[])
        with pytest.raises(InvalidConfig, match=r"add_capabilities\[0\]: SYS_ADMIN is not in"):
            await cluster.create(config + "environment: {add_capabilities: [SYS_ADMIN]}\n")
        assert cluster.rm.requests == {}
        allowed = {"environment": {"add_capabilities": ["IPC_LOCK"]}}
        launched = await launch(cluster, entrypoint=["true"], **allowed)
        live = cluster.commands.live(launched.id)
        assert live is not None
        await cluster.grant(of=live.state.open_allocation)
        assert [spec.options.privileges for spec in cluster.rm.specs.values()] == [rules]


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("{type: s3, bucket: B A D}", "bucket: 'B A D' is not the name of a bucket: it has only"),
        ("{type: s3, bucket: a/b}", "bucket: 'a/b' is not .*; folders go into `prefix`"),
        (
            "{type: s3, bucket: b, endpoint_url: minio}",
            "endpoint_url: 'minio' is no URL: it begins",
        ),
        ("{type: gcs, bucket: Upper}", "bucket: 'Upper' is not .* only lower-case letters"),
        ("{type: gcs, bucket: ''}", "bucket: '' is not the name of a bucket"),
        (
            "{type: azure, container: a--b, account_url: 'https://a.blob.core.windows.net'}",
            "container: 'a--b' is not the name of a container",
        ),
        ("{type: directory, container_path: /proc}", "container_path: /proc is in /proc: every"),
    ],
)
async def test_storage_that_nobody_can_have_is_refused_with_field_value_and_way_out(
    tmp_path: Path, clock: ManualClock, storage: str, said: str
) -> None:
    async with cluster_with(tmp_path, clock, ClusterTasks()) as cluster:
        with pytest.raises(InvalidConfig, match=rf"<config>\.checkpoint_storage\.{said}"):
            await cluster.create(TRIAL.format(storage=storage, mounts=[]))
        for name in ("my.bucket_1-x", "b"):
            good = f"{{type: s3, bucket: {name}}}"
            await cluster.experiments.check(TRIAL.format(storage=good, mounts=[]), by=ADMIN)


async def test_storage_that_no_task_can_write_is_refused_where_the_master_sees_that(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Agents beside the master that run as its user see what it sees."""
    (tmp_path / "file").write_text("")
    config = TRIAL.format(
        storage=f"{{type: shared_fs, host_path: {tmp_path}/file/a, storage_path: b}}", mounts=[]
    )
    async with cluster_with(tmp_path, clock, ClusterTasks()) as cluster:
        await cluster.experiments.check(config, by=ADMIN)
        cluster.rm.able = Abilities(shares_user=True)
        said = rf"checkpoint_storage\.host_path: {tmp_path}/file is not a directory, in which .*/a/b is"
        with pytest.raises(InvalidConfig, match=said):
            await cluster.experiments.check(config, by=ADMIN)
        good = TRIAL.format(storage=f"{{type: shared_fs, host_path: {tmp_path}/new}}", mounts=[])
        await cluster.experiments.check(good, by=ADMIN)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/proc", "is in /proc"), ("/proc/self/x", "is in /proc"), ("//", "is the whole container")],
)
async def test_a_mount_does_not_cover_what_every_task_has(
    tmp_path: Path, clock: ManualClock, path: str, said: str
) -> None:
    async with cluster_with(tmp_path, clock, ClusterTasks()) as cluster:
        mounts = [{"host_path": "/data", "container_path": path}]
        with pytest.raises(
            InvalidConfig, match=rf"bind_mounts\[0\]\.container_path: {path} {said}"
        ):
            await launch(cluster, entrypoint=["true"], bind_mounts=mounts)
