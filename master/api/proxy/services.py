"""What a name after `/proxy/` leads to: a port of a task that runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_bootstrap.container_options import ProxyPort
from master.api.services import ApiContext
from master.api.targets import live_workspace, shown_by
from master.auth.actions import Action, Target
from master.auth.permissions import allowed
from master.auth.principal import Principal
from windlass.base.errors import NotFound, PermissionDenied, Unauthenticated


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxiedService:
    name: str
    """`<task id>` for what a task of its kind serves, `<task id>:<port>` for a port that its user asked for."""
    agent_id: str
    container_id: str
    port: ProxyPort
    target: Target
    """The task, for the rules."""
    note_activity: Callable[[], None]


def find(api: ApiContext, name: str) -> ProxiedService:
    """Raises NotFound: it is over, it does not run yet, or there never was one."""
    task_id, _, port = name.partition(":")
    served = api.services.allocations.served(task_id)
    if served is not None and port in served.ports:
        return ProxiedService(
            name=name,
            agent_id=served.container.agent_id,
            container_id=served.container.container_id,
            port=served.ports[port],
            target=Target(
                kind="task",
                id=task_id,
                owner_id=served.identity.user_id,
                workspace_id=live_workspace(api, task_id, served.identity.experiment_id),
                experiment_id=served.identity.experiment_id,
                task_id=task_id,
            ),
            note_activity=served.note_activity,
        )
    raise NotFound("service", name)


def opens(api: ApiContext, service: ProxiedService, token: str) -> bool:
    """Whether the token is one for this service alone, such as a notebook's."""
    task_id = str(service.target.id)
    return service.name == task_id and api.services.tasks.opens(token, task_id)


async def admit(api: ApiContext, service: ProxiedService, token: str) -> Principal | None:
    """Who asks; None where the service asks that itself. Raises Unauthenticated; NotFound for what they may not see."""
    if service.port.unauthenticated:
        return None
    if not token:
        raise Unauthenticated("log in to reach it")
    try:
        principal = api.services.auth.identify(token)
    except PermissionDenied as error:  # as another user, perhaps
        raise Unauthenticated(error.message) from None
    of_trial = service.target.experiment_id is not None
    action = Action.VIEW_ARTIFACTS if of_trial else Action.VIEW_INTERACTIVE
    target = service.target
    if principal.rules is not None and not of_trial:
        target = replace(target, shows=await shown_by(api, str(target.id)))
    if not allowed(principal, action, target):
        raise NotFound("service", service.name)
    return principal
