"""From an id to the target that rules are asked of: from memory for what lives, else by a query."""

from __future__ import annotations

from dataclasses import replace

from master.api.access import require
from master.api.services import ApiContext
from master.auth.actions import ANYWHERE, CLUSTER, Action, Target
from master.auth.permissions import allowed, visibility
from master.auth.principal import Principal
from master.core.expconf.templates import Template
from master.core.jobs import JobType
from master.core.visibility import EVERYTHING
from master.store import tables
from master.tasks.generic import HINT
from windlass.base.errors import NotFound


async def experiment_target(api: ApiContext, experiment_id: int) -> Target:
    live = api.services.experiments.live(experiment_id)
    if live is None:
        return await api.owners.experiment(experiment_id)
    return Target(
        kind="experiment",
        id=experiment_id,
        owner_id=live.state.owner_id,
        workspace_id=live.workspace_id,
        experiment_id=experiment_id,
    )


async def trial_target(api: ApiContext, trial_id: int) -> Target:
    live = api.services.experiments.live_of_trial(trial_id)
    if live is None:
        return await api.owners.trial(trial_id)
    return Target(
        kind="trial",
        id=trial_id,
        owner_id=live.state.owner_id,
        workspace_id=live.workspace_id,
        experiment_id=live.state.id,
        task_id=live.trial(trial_id).task_id,
    )


async def allocation_target(api: ApiContext, allocation_id: str) -> Target:
    task = api.services.allocations.identity(allocation_id)
    if task is None:
        return await api.owners.allocation(allocation_id)
    return Target(
        shows=await shown_by(api, task.task_id),
        kind="allocation",
        id=allocation_id,
        owner_id=task.user_id,
        workspace_id=live_workspace(api, task.task_id, task.experiment_id),
        experiment_id=task.experiment_id,
        task_id=task.task_id,
        allocation_id=allocation_id,
    )


async def shown_by(api: ApiContext, task_id: str) -> frozenset[int] | None:
    """Workspaces of what a live TensorBoard shows; None: it is none."""
    task = api.services.tasks.live(task_id)
    if task is None or task.state.type is not JobType.TENSORBOARD:
        return None
    return await api.owners.workspaces_shown(task_id)


def live_workspace(api: ApiContext, task_id: str, experiment_id: int | None) -> int | None:
    """Of a task that lives; None: of one that has just ended."""
    if experiment_id is not None:
        experiment = api.services.experiments.live(experiment_id)
        return experiment.workspace_id if experiment is not None else None
    task = api.services.tasks.live(task_id)
    return task.state.workspace_id if task is not None else None


async def task_target(api: ApiContext, task_id: str, by: Principal) -> Target:
    if by.task_id != task_id:
        return await api.owners.task(task_id)
    # Its token says that it lives, and all that rules ask: the hot path has no query.
    return Target(
        kind="task",
        id=task_id,
        owner_id=by.user_id,
        experiment_id=by.experiment_id,
        task_id=task_id,
    )


async def interactive_target(api: ApiContext, task_id: str, type_: JobType) -> Target:
    live = api.services.tasks.live(task_id)
    if live is None or live.state.type is not type_:
        return await api.owners.interactive_task(task_id, type_)
    return Target(
        shows=await shown_by(api, task_id),
        kind=type_.value.lower(),
        id=task_id,
        owner_id=live.state.owner_id,
        workspace_id=live.state.workspace_id,
        task_id=task_id,
    )


async def generic_target(api: ApiContext, task_id: str) -> Target:
    try:
        found = await interactive_target(api, task_id, JobType.GENERIC)
    except NotFound:
        raise NotFound("generic task", task_id, HINT) from None
    return replace(found, kind="generic task", hint=HINT)


async def template_target(api: ApiContext, name: str) -> Target:
    return of_template((await api.reads.templates.template(name, EVERYTHING)).template)


async def new_template_target(api: ApiContext, name: str, by: Principal) -> Target:
    """One that is not there yet will be the caller's."""
    found = await api.reads.templates.find(name, EVERYTHING)
    if found is None:
        return replace(ANYWHERE, owner_id=by.user_id)
    return of_template(found.template)


def of_template(row: tables.Template) -> Target:
    return Target(
        kind="template", id=row.name, owner_id=row.owner_id, workspace_id=row.workspace_id
    )


async def model_target(api: ApiContext, identifier: str) -> Target:
    return of_model((await api.reads.models.model(identifier, EVERYTHING)).model)


async def version_target(api: ApiContext, identifier: str, number: int, by: Principal) -> Target:
    """It belongs to the owner of its model, too."""
    model = (await api.reads.models.model(identifier, EVERYTHING)).model
    version = (await api.reads.models.version(model, number)).version
    owner = by.user_id if model.owner_id == by.user_id else version.owner_id
    return replace(of_model(model), kind=f"version {number} of model", owner_id=owner)


def of_model(row: tables.Model) -> Target:
    return Target(kind="model", id=row.name, owner_id=row.owner_id, workspace_id=row.workspace_id)


async def webhook_target(api: ApiContext, webhook_id: int) -> Target:
    """Who may change it is said by its scope."""
    found = api.services.webhooks.webhook(webhook_id)
    scope = await webhook_scope(api, found.workspace_id)
    return replace(scope, kind="webhook", id=webhook_id)


async def webhook_scope(api: ApiContext, workspace_id: int | None) -> Target:
    """None: the cluster. Raises NotFound."""
    return CLUSTER if workspace_id is None else await workspace_target(api, workspace_id)


async def workspace_target(api: ApiContext, workspace_id: int) -> Target:
    return target_of((await api.reads.workspaces.workspace(workspace_id, EVERYTHING)).workspace)


def target_of(row: tables.Workspace) -> Target:
    return Target(kind="workspace", id=row.id, owner_id=row.user_id, workspace_id=row.id)


async def project_target(api: ApiContext, project_id: int, by: Principal) -> Target:
    """It belongs to the owner of its workspace, too."""
    row = (await api.reads.workspaces.project(project_id, EVERYTHING)).project
    above = await workspace_target(api, row.workspace_id)
    owner = by.user_id if above.owner_id == by.user_id else row.user_id
    return Target(kind="project", id=row.id, owner_id=owner, workspace_id=row.workspace_id)


async def require_new(
    api: ApiContext, by: Principal, action: Action, *, project_id: int = 0, workspace_id: int = 0
) -> None:
    """Whether `by` may make something in a project or a workspace. Raises NotFound, PermissionDenied.

    The basic rules do not ask where: they are asked before the body is read.
    """
    if by.rules is None:
        return
    if project_id:
        require(api, by, action, await project_target(api, project_id, by))
    else:
        require(api, by, action, await workspace_target(api, workspace_id))


async def applied_template(api: ApiContext, name: str, by: Principal) -> Template | None:
    """The template that something new names; None if it names none. Raises NotFound."""
    return await api.reads.templates.applied(name, visibility(by, Action.VIEW_TEMPLATES))


async def user_target(api: ApiContext, user_id: int) -> Target:
    api.services.auth.user(user_id)
    return Target(kind="user", id=user_id, owner_id=user_id)


def session_target(api: ApiContext, session_id: int, by: Principal) -> Target:
    """Raises NotFound also for one that `by` may not see."""
    owner = api.services.auth.session(session_id).session.user_id
    target = Target(kind="session", id=session_id, owner_id=owner)
    if not allowed(by, Action.MANAGE_SESSIONS, target):
        raise NotFound("session", session_id)
    return target


async def token_target(api: ApiContext, token_id: int, by: Principal) -> Target:
    """Raises NotFound also for one that `by` may not see."""
    row = await api.reads.logins.token(token_id)
    target = Target(kind="access token", id=token_id, owner_id=row.token.user_id)
    if not allowed(by, Action.VIEW_TOKENS, target):
        raise NotFound("access token", token_id)
    return target
