"""What the cluster says of every task's container, and what it becomes together with the task's own configuration."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from agent_bootstrap.bind_rules import HostPaths
from agent_bootstrap.container_options import (
    ContainerLimits,
    ContainerOptions,
    Device,
    OsUser,
    ProxyPort,
    RegistryLogin,
)
from agent_bootstrap.privilege_rules import Privileges
from agent_bootstrap.protocol import RegistryCredentials
from master.allocations.identities import TaskOwner, WorkspaceUser, merged
from master.allocations.machine import AllocationState
from master.allocations.task_environment import TaskConfig, has_peers, slot_kind, startup_hook
from master.core.expconf.container_defaults import TaskContainerDefaults
from master.core.expconf.models import environment
from master.core.expconf.models.environment import RegistryAuth
from master.core.expconf.references import PoolSecrets
from rm_backends.base import BatchOptions, TaskFile


def registry_login(auth: RegistryAuth) -> RegistryCredentials:
    """`auth`, as in Docker's config.json, stands for user name and password where these are not given."""
    username, password = auth.username or "", auth.password or ""
    if auth.auth and not (username or password):
        username, password = _decoded(auth.auth)
    return RegistryCredentials(
        server=auth.serveraddress or "",
        username=username,
        password=password,
        identity_token=auth.identitytoken or "",
        registry_token=auth.registrytoken or "",
    )


def _decoded(text: str) -> tuple[str, str]:
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    username, _, password = decoded.partition(":")
    return username, password.rstrip("\0")


HOST_NETWORK = "host"
INTERFACE_VARIABLES = (
    "DET_INTER_NODE_NETWORK_INTERFACE",
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
)
"""Of the published launchers, of NCCL, and of gloo."""
C = TypeVar("C", bound=TaskConfig)


RequireUser: TypeAlias = Callable[[str, OsUser | None, BatchOptions], Awaitable[None]]
"""Of a pool, and whom the owner of the work is linked to: raises PermissionDenied if it takes no work of them."""


async def anybody(_pool: str, _who: OsUser | None, _batch: BatchOptions) -> None:
    """Where no pool looks at that."""


def no_link(_: int) -> OsUser | None:
    return None


def says_nothing(_: int) -> WorkspaceUser | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTasks:
    """From master.yaml, but for whom users are linked to and what workspaces say."""

    defaults: Mapping[str, TaskContainerDefaults] = field(default_factory=dict)
    default_user: OsUser | None = None
    """`security.default_task`; None: it is not written."""
    linked: Callable[[int], OsUser | None] = no_link
    """Whom an administrator linked a user (by id) to."""
    of_workspace: Callable[[int], WorkspaceUser | None] = says_nothing
    """What a workspace (by id) says of whom its tasks run as."""
    require_user: RequireUser = anybody
    host_paths: Mapping[str, HostPaths] = field(default_factory=dict)
    """By pool: what its tasks may mount."""
    privileges: Mapping[str, Privileges] = field(default_factory=dict)
    """By pool: which capabilities and devices its tasks may have."""
    secrets: Mapping[str, PoolSecrets] = field(default_factory=dict)
    """By pool: what references in the configurations of its tasks stand for."""

    def os_user(self, owner: TaskOwner) -> OsUser | None:
        """Whom the tasks of an owner run as. None: nobody said, and the agent takes somebody without rights."""
        return merged(
            self.of_workspace(owner.workspace_id), self.linked(owner.user_id), self.default_user
        )

    def linked_user(self, owner: TaskOwner) -> OsUser | None:
        """Whom an administrator named for just this owner. None: nobody."""
        return merged(self.of_workspace(owner.workspace_id), self.linked(owner.user_id))

    async def require_linked(self, pool: str, owner: TaskOwner, batch: BatchOptions) -> None:
        """Where jobs of a pool are of their users. Raises PermissionDenied for one who may have none, and Unsatisfiable
        for an account that is not theirs."""
        await self.require_user(pool, self.linked_user(owner), batch)

    def runs_as_root(self, owner: TaskOwner) -> bool:
        who = self.os_user(owner)
        return who is not None and who.uid == 0

    def host_paths_of(self, pool: str) -> HostPaths:
        return self.host_paths.get(pool) or HostPaths()

    def privileges_of(self, pool: str) -> Privileges:
        return self.privileges.get(pool) or Privileges()

    @property
    def storage_secrets(self) -> PoolSecrets:
        """Those of the cluster's checkpoint storage, which all pools share."""
        return next(iter(self.secrets.values()), PoolSecrets())

    def resolved(self, config: C, pool: str) -> C:
        """A configuration as its task is given it: with the secrets that master.yaml has now."""
        secrets = self.secrets.get(pool)
        if secrets is None or not secrets.values:
            return config
        return type(config).from_json(secrets.resolved(config.to_json()))

    def registry_login(self, config: TaskConfig, pool: str) -> RegistryCredentials | None:
        """With the secrets that master.yaml has now."""
        if config.environment.registry_auth is None:
            return None
        auth = self.resolved(config, pool).environment.registry_auth
        return None if auth is None else registry_login(auth)

    def startup_hook(self, pool: str) -> tuple[TaskFile, ...]:
        return startup_hook(self._of(pool).startup_hook)

    def peer_network(self, allocation: AllocationState) -> dict[str, str]:
        """What the containers of a gang are told of the network between them; a task may say otherwise."""
        if not has_peers(allocation):
            return {}
        defaults = self._of(allocation.current_pool)
        values = {"GLOO_PORT_RANGE": defaults.gloo_port_range}
        interface = defaults.dtrain_network_interface
        if interface is not None:
            values |= dict.fromkeys(INTERFACE_VARIABLES, interface)
        return {name: value for name, value in values.items() if value}

    def options(
        self, config: TaskConfig, allocation: AllocationState, owner: TaskOwner
    ) -> ContainerOptions:
        """In `config` the image, devices and capabilities of the pool are merged already."""
        where, resources = config.environment, config.resources
        defaults = self._of(allocation.pool)
        kind = slot_kind(allocation)
        image: str = getattr(where.image, kind)
        return ContainerOptions(
            image=image,
            image_is_default=image == getattr(environment.Image(), kind),
            force_pull_image=where.force_pull_image,
            registry_login=_login(where.registry_auth, allocation.task_id),
            shm_bytes=resources.shm_size or defaults.shm_size_bytes,
            devices=tuple(Device(**device.model_dump()) for device in resources.devices),
            add_capabilities=where.add_capabilities,
            drop_capabilities=where.drop_capabilities,
            # Parts of one task find each other by the addresses of their nodes.
            network=HOST_NETWORK if has_peers(allocation) else defaults.network_mode,
            ports=tuple(proxied_ports(config).values()),
            published_ports=dict(where.ports),
            limits=_limits(resources.limits),
            python=where.python or "",
            prologue=where.prologue,
            os_user=self.os_user(owner),
            host_paths=self.host_paths_of(allocation.pool),
            privileges=self.privileges_of(allocation.pool),
        )

    def _of(self, pool: str) -> TaskContainerDefaults:
        return self.defaults.get(pool) or TaskContainerDefaults()


def _limits(wanted: environment.TaskLimits) -> ContainerLimits:
    return ContainerLimits(cpus=wanted.cpus, memory_bytes=wanted.memory, pids=wanted.pids)


def _login(auth: environment.RegistryAuth | None, task_id: str) -> RegistryLogin | None:
    if auth is None:
        return None
    return RegistryLogin(reference=task_id, server=auth.serveraddress or "")


def proxied_ports(config: TaskConfig) -> dict[str, ProxyPort]:
    """Those that the user asked for, by number; empty: by the task's id alone."""
    return {
        "" if port.default_service_id else str(port.proxy_port): ProxyPort(
            port=port.proxy_port, tcp=port.proxy_tcp, unauthenticated=port.unauthenticated
        )
        for port in config.environment.proxy_ports
    }
