"""What the cluster says of every task's container, and what it becomes together with the task's own configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_bootstrap.container_options import (
    ContainerOptions,
    Device,
    OsUser,
    ProxyPort,
    RegistryLogin,
)
from master.allocations.machine import AllocationState
from master.allocations.task_environment import slot_kind, startup_hook
from master.core.expconf.container_defaults import TaskContainerDefaults
from rm_backends.base import TaskFile
from windlass.base.json_types import JsonMapping

HOST_NETWORK = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTasks:
    """From master.yaml: `task_container_defaults` by pool, and `security.default_task`."""

    defaults: Mapping[str, TaskContainerDefaults] = field(default_factory=dict)
    os_user: OsUser = field(default_factory=OsUser)

    def startup_hook(self, pool: str) -> tuple[TaskFile, ...]:
        return startup_hook(self._of(pool).startup_hook)

    def options(self, config: JsonMapping, allocation: AllocationState) -> ContainerOptions:
        """`config`: a complete one, in which the image, devices and capabilities of the pool are merged already."""
        environment, resources = config["environment"], config["resources"]
        defaults = self._of(allocation.pool)
        has_peers = len(allocation.containers) > 1
        return ContainerOptions(
            image=environment["image"][slot_kind(allocation)],
            force_pull_image=environment["force_pull_image"],
            registry_login=_login(environment.get("registry_auth"), allocation.task_id),
            shm_bytes=resources.get("shm_size") or defaults.shm_size_bytes,
            devices=tuple(Device.model_validate(device) for device in resources["devices"]),
            add_capabilities=tuple(environment["add_capabilities"]),
            drop_capabilities=tuple(environment["drop_capabilities"]),
            # Parts of one task find each other by the addresses of their nodes.
            network=HOST_NETWORK if has_peers else defaults.network_mode,
            ports=tuple(_port(port) for port in environment["proxy_ports"]),
            os_user=self.os_user,
        )

    def _of(self, pool: str) -> TaskContainerDefaults:
        return self.defaults.get(pool) or TaskContainerDefaults()


def _login(auth: JsonMapping | None, task_id: str) -> RegistryLogin | None:
    if not auth:
        return None
    return RegistryLogin(reference=task_id, server=auth.get("serveraddress") or "")


def _port(port: JsonMapping) -> ProxyPort:
    return ProxyPort(
        port=port["proxy_port"], tcp=port["proxy_tcp"], unauthenticated=port["unauthenticated"]
    )
