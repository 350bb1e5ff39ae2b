"""Carries out deletions of projects and workspaces: what is DELETING goes piece by piece, also after a restart.

What fails makes it DELETE_FAILED, with the reason; to delete it again tries again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import structlog
from sqlalchemy import delete, select

from master.core.actor import Actor
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from windlass.base.errors import InvalidState, LeaseLost, StoreUnavailable, WindlassError
from windlass.base.loop import Loop

log = structlog.get_logger(__name__)

DELETING: Mapping[str, object] = {"state": "DELETING", "error": ""}
DELETE_FAILED = "DELETE_FAILED"
LOOK_EVERY_S = 1.0
"""While something is being deleted; else nothing is read."""
NAMED_AT_MOST = 5
"""Experiments in one error."""
AT_ONCE = 500
"""Tasks whose rows go in one commit."""

_P, _W, _E, _C = tables.Project, tables.Workspace, tables.Experiment, tables.Command
_ENDED = ("COMPLETED", "CANCELED", "ERROR", "DELETING", DELETE_FAILED)


class Experiments(Protocol):
    async def delete_experiment(self, experiment_id: int, *, by: Actor) -> None: ...


class Tasks(Protocol):
    async def kill(self, task_id: str, *, by: Actor) -> None: ...


class _Inside(NamedTuple):
    id: int
    state: str
    error: str


class DeleteFailed(WindlassError):
    """Some of it cannot be deleted."""

    code = "failed_precondition"


async def require_no_running(store: Store, what: str, project_ids: Sequence[int]) -> None:
    """Raises InvalidState: nobody's work is ended by the way."""
    running = await store.read(
        select(_E.id)
        .where(_E.project_id.in_(project_ids), _E.state.not_in(_ENDED))
        .order_by(_E.id)
        .limit(NAMED_AT_MOST + 1)
    )
    if running:
        more = " and more" if len(running) > NAMED_AT_MOST else ""
        named = ", ".join(str(id_) for id_ in running[:NAMED_AT_MOST])
        raise InvalidState(
            f"{what} has experiments that have not ended: {named}{more}: kill or move them first"
        )


def empty_workspace(workspace_id: int) -> UnitOfWork:
    """Deletes one without projects and tasks."""
    unit = UnitOfWork()
    unit.delete(tables.Template, {"workspace_id": workspace_id})
    unit.delete(tables.SavedView, {"workspace_id": workspace_id})
    unit.delete(tables.ConfigPolicy, {"workspace_id": workspace_id})
    unit.delete(tables.PoolBinding, {"workspace_id": workspace_id})
    webhooks = select(tables.Webhook.id).where(tables.Webhook.workspace_id == workspace_id)
    for table in (tables.WebhookEvent, tables.WebhookTrigger):
        unit.execute(delete(table).where(table.webhook_id.in_(webhooks)))
    unit.delete(tables.Webhook, {"workspace_id": workspace_id})
    unit.delete(tables.WorkspacePin, {"workspace_id": workspace_id})
    unit.delete(tables.RoleAssignment, {"workspace_id": workspace_id})
    unit.delete(tables.Workspace, {"id": workspace_id})
    return unit


class Removals:
    def __init__(
        self,
        store: Store,
        *,
        experiments: Experiments,
        tasks: Tasks,
        remove_tasks: Callable[[Sequence[str]], Awaitable[None]],
        removed: Callable[[int], None],
    ) -> None:
        """`remove_tasks`: rows and logs of these. `removed`: a workspace is gone."""
        self._store = store
        self._experiments = experiments
        self._tasks = tasks
        self._remove_tasks = remove_tasks
        self._removed = removed
        self._loop = Loop("deletion of workspaces", self.step, interval_s=LOOK_EVERY_S)
        self._any = True
        """Something may be DELETING: perhaps since before the start."""
        self._asked: set[int] = set()
        """Experiments whose deletion was begun from here: if one has failed by now, so has that of its project."""

    def wake(self) -> None:
        self._any = True
        self._loop.wake()

    async def run(self) -> None:
        await self._loop.run()

    async def step(self) -> None:
        """Everything that can be done now."""
        if not self._any:
            return
        self._any = False
        for project in await self._store.read(select(_P).where(_P.state == "DELETING")):
            self._any = True
            await self._attempt(_P, project, partial(self._project, project))
        for workspace in await self._store.read(select(_W).where(_W.state == "DELETING")):
            self._any = True
            await self._attempt(_W, workspace, partial(self._workspace, workspace))

    async def _attempt(
        self,
        table: type[tables.Project] | type[tables.Workspace],
        row: tables.Project | tables.Workspace,
        act: Callable[[], Awaitable[None]],
    ) -> None:
        try:
            await act()
        except (LeaseLost, StoreUnavailable):
            raise
        except WindlassError as error:
            failed = {"state": DELETE_FAILED, "error": error.message}
            unit = UnitOfWork()
            unit.update(table, {"id": row.id, "state": "DELETING"}, failed)
            await self._store.commit(unit)
            log.warning("deletion failed", name=row.name, id=row.id, why=error.message)

    async def _project(self, row: tables.Project) -> None:
        inside = await self._store.read(
            select(_E.id, _E.state, _E.error).where(_E.project_id == row.id), _Inside
        )
        by = _for(row.user_id, f"deletion of project {row.id}")
        try:
            for one in inside:
                await self._experiment(one, by)
        except WindlassError:
            self._asked.difference_update(one.id for one in inside)
            raise
        if not inside:
            unit = UnitOfWork()
            unit.delete(tables.SavedView, {"project_id": row.id})
            unit.delete(tables.Project, {"id": row.id})
            await self._store.commit(unit)
            log.info("project deleted", project=row.id)

    async def _experiment(self, one: _Inside, by: Actor) -> None:
        if one.state == "DELETING":
            self._asked.add(one.id)
        elif one.id in self._asked:
            raise DeleteFailed(f"experiment {one.id}: {one.error or 'could not be deleted'}")
        else:
            await self._experiments.delete_experiment(one.id, by=by)
            self._asked.add(one.id)

    async def _workspace(self, row: tables.Workspace) -> None:
        by = _for(row.user_id, f"deletion of workspace {row.id}")
        here = _C.workspace_id == row.id
        live = await self._store.read(select(_C.id).where(here, _C.ended_at.is_(None)))
        for task_id in live:
            await self._tasks.kill(task_id, by=by)
        projects = await self._store.read(select(_P).where(_P.workspace_id == row.id))
        for project in projects:
            if project.state == DELETE_FAILED:
                raise DeleteFailed(f"project {project.id}: {project.error}")
        if live or projects:
            return
        while ended := await self._store.read(select(_C.id).where(here).limit(AT_ONCE)):
            await self._remove_tasks(ended)
        await self._store.commit(empty_workspace(row.id))
        self._removed(row.id)
        log.info("workspace deleted", workspace=row.id)


def _for(user_id: int, what: str) -> Actor:
    return Actor(user_id=user_id, name=what)
