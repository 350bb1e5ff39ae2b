"""What master.yaml settles for the tasks of all users: their defaults, what they may mount, and who they run as."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_bootstrap.bind_rules import HostPaths, problem_of
from agent_bootstrap.container_options import SHARED_MODE, OsUser
from agent_bootstrap.privilege_rules import Privileges
from master.allocations.cluster_tasks import ClusterTasks, RequireUser
from master.allocations.identities import WorkspaceUser
from master.allocations.mounts import host_folder
from master.allocations.policy import ClusterPolicy
from master.config import MasterConfig
from master.core.expconf import ClusterDefaults
from master.core.expconf.container_defaults import TaskContainerDefaults
from master.core.expconf.images import image_files
from master.core.expconf.references import PoolSecrets, take_secrets
from windlass.base.errors import InvalidConfig


class TaskSettings:
    """One configuration, as the services that start tasks take it."""

    def __init__(self, config: MasterConfig, data_dir: Path) -> None:
        """Makes the folder that checkpoints go to, unless the configuration names a storage."""
        self._config = config
        self._data_dir = data_dir
        self._own_storage = (data_dir / "checkpoints").resolve()
        self._defaults = _defaults(config, self._storage())

    @property
    def storage(self) -> Mapping[str, Any]:
        """The cluster's `checkpoint_storage`, without its secrets."""
        defaults, _ = next(iter(self._defaults.values()))
        return defaults.checkpoint_storage

    def policy(self) -> ClusterPolicy:
        config = self._config
        return ClusterPolicy(
            defaults={pool: defaults for pool, (defaults, _) in self._defaults.items()},
            default_compute_pool=config.default_compute_pool,
            default_aux_pool=config.default_aux_pool,
            launch_error=config.launch_error,
            max_lost_runs=config.max_lost_runs,
        )

    def cluster_tasks(
        self,
        linked: Callable[[int], OsUser | None],
        of_workspace: Callable[[int], WorkspaceUser | None],
        require_user: RequireUser,
    ) -> ClusterTasks:
        """Whom an administrator linked a user (by id) to, what a workspace (by id) says, who may work where."""
        default = self._config.security.default_task
        containers = {pool.name: pool.containers() for pool in self._config.pools()}
        return ClusterTasks(
            defaults=containers,
            secrets={pool: secrets for pool, (_, secrets) in self._defaults.items()},
            default_user=None if default is None else OsUser(**default.model_dump()),
            linked=linked,
            of_workspace=of_workspace,
            require_user=require_user,
            host_paths={pool: self._host_paths(given) for pool, given in containers.items()},
            privileges={pool: self._privileges(given) for pool, given in containers.items()},
        )

    def _host_paths(self, containers: TaskContainerDefaults) -> HostPaths:
        config = self._config
        storage = config.checkpoint_storage
        folder = str(self._own_storage) if storage is None else host_folder(storage)
        return HostPaths(
            allowed=config.allowed_host_paths,
            forbidden=(str(self._data_dir.absolute()),),
            cluster=(
                *((folder,) if folder else ()),
                *(mount.host_path for mount in containers.bind_mounts),
                *(path for _, path in image_files(containers.image)),
            ),
        )

    def _privileges(self, containers: TaskContainerDefaults) -> Privileges:
        config = self._config
        own = (device.host_path for device in containers.devices)
        return Privileges(
            capabilities=(*config.allowed_capabilities, *containers.add_capabilities),
            devices=(*config.allowed_devices, *own),
        )

    def _storage(self) -> Mapping[str, Any]:
        """Tasks see nothing of the folder around the master's own storage."""
        if self._config.checkpoint_storage is not None:
            return self._config.checkpoint_storage.model_dump(mode="json", exclude_none=True)
        folder = self._own_storage
        folder.mkdir(exist_ok=True)
        if stat.S_IMODE(folder.stat().st_mode) != SHARED_MODE:
            folder.chmod(SHARED_MODE)
        return {"type": "shared_fs", "host_path": str(folder)}


def require_mountable(config: MasterConfig, data_dir: Path) -> None:
    """Refuse mounts of master.yaml that would show the data folder: every task would be refused for them.

    Raises InvalidConfig.
    """
    rules = HostPaths(forbidden=(str(data_dir.absolute()),))
    problems = {
        f"<master.yaml>.{key}: {path} {problem}, or give another --data-dir"
        for key, path in _host_paths(config)
        if (
            problem := problem_of(
                path, rules.model_copy(update={"cluster": (path,)}), as_root=False
            )
        )
    }
    if problems:
        raise InvalidConfig(sorted(problems), what="master configuration")


def _host_paths(config: MasterConfig) -> Iterator[tuple[str, str]]:
    """(key, path)"""
    if config.checkpoint_storage is not None and (folder := host_folder(config.checkpoint_storage)):
        yield "checkpoint_storage.host_path", folder
    for pool in config.pools():
        for mount in pool.containers().bind_mounts:
            yield "task_container_defaults.bind_mounts.host_path", mount.host_path


def _defaults(
    config: MasterConfig, storage: Mapping[str, Any]
) -> Mapping[str, tuple[ClusterDefaults, PoolSecrets]]:
    """By pool: what lies under users' configurations, and the secrets that it only refers to."""
    return {
        pool.name: take_secrets(
            ClusterDefaults(
                task_container_defaults=pool.task_container_defaults,
                checkpoint_storage=storage,
                priority=pool.scheduler.usual_priority,
                notebook_timeout_s=config.notebook_timeout,
                tensorboard_timeout_s=config.tensorboard_timeout,
            )
        )
        for pool in config.pools()
    }
