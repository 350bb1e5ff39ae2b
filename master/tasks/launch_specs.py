"""What an interactive task's container is given beyond what every task is: the program to run, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent_bootstrap.container_options import AGENT_USER, ContainerOptions, ProxyPort
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.machine import AllocationState
from master.allocations.task_environment import (
    LAUNCHER,
    WORK_DIR,
    common,
    own_mounts,
    own_variables,
)
from master.core.expconf.interactive import TaskConfig
from master.tasks.kinds import LaunchFacts
from master.tasks.state import TaskState
from rm_backends.base import LaunchSpec


def _no_token(task_id: str) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpecs:
    """Builds launch specs. Holds what all interactive tasks of this cluster share."""

    cluster: ClusterTasks = field(default_factory=ClusterTasks)
    service_token: Callable[[str], str] = _no_token
    """Of a task, by its id."""

    def spec(
        self, state: TaskState, owner_name: str, allocation: AllocationState, token: str
    ) -> LaunchSpec:
        config = self.cluster.resolved(state.config, allocation.pool)
        work_dir = self._work_dir(state, owner_name)
        launch = state.kind.launch(
            LaunchFacts(
                config=config,
                details=self.cluster.storage_secrets.resolved(state.details),
                token=self.service_token(state.id),
            )
        )
        environment = {
            **common(
                allocation,
                token,
                task_type=state.type.value,
                user=owner_name,
                work_dir=work_dir,
            ),
            **launch.variables,
            **{name: str(port) for name, port in allocation.ports.items()},
            **self.cluster.peer_network(allocation),
            **own_variables(config, allocation),
        }
        return LaunchSpec(
            allocation_id=allocation.id,
            task_id=allocation.task_id,
            task_type=state.type.value,
            entrypoint=LAUNCHER,
            environment=environment,
            work_dir=work_dir,
            files=(*self.cluster.startup_hook(allocation.current_pool), *launch.files),
            binds=(*state.kind.mounts(state.details), *own_mounts(config, work_dir)),
            options=self._options(state, config, allocation),
        )

    def _options(
        self, state: TaskState, config: TaskConfig, allocation: AllocationState
    ) -> ContainerOptions:
        """With the ports of its kind's services before those that its user asked for."""
        options = self.cluster.options(config, allocation, state.owner)
        services = own_services(state, allocation)
        return options.model_copy(update={"ports": (*services, *options.ports)})

    def _work_dir(self, state: TaskState, owner_name: str) -> str:
        """`$AGENT_USER` is left to the agent where only it knows whom the task runs as."""
        configured = state.config.work_dir
        if configured is None:
            return WORK_DIR
        if (who := self.cluster.os_user(state.owner)) is not None:
            configured = configured.replace(AGENT_USER, who.user)
        return configured.replace("$DET_USER", owner_name)


def own_services(state: TaskState, allocation: AllocationState) -> tuple[ProxyPort, ...]:
    """Ports of what tasks of its kind serve."""
    return tuple(
        ProxyPort(
            port=allocation.ports[service.variable],
            tcp=service.tcp,
            unauthenticated=service.unauthenticated,
        )
        for service in state.kind.services
    )
