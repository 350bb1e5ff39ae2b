"""What users do with projects: create, edit, note, archive, move, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import func, select

from master.core.actor import Actor
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.workspace_rules import WorkspaceRules
from master.workspaces.deletion import DELETING, require_no_running
from master.workspaces.names import key_from_name, project_key, project_name
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, NotFound

log = structlog.get_logger(__name__)

MAX_PROJECTS = 10_000
"""Of a workspace."""

Notes = Sequence[Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProject:
    workspace_id: int
    name: str
    description: str = ""
    key: str | None = None
    """None: made from the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPatch:
    """None leaves a field as it is."""

    name: str | None = None
    description: str | None = None
    key: str | None = None


class ProjectService:
    """All projects of this master. Changes take their turns with those of workspaces."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        queue: SerialQueue,
        rules: WorkspaceRules,
        relocated: Callable[[Sequence[int], int], None],
        removal: Callable[[], None],
    ) -> None:
        """`relocated`: these experiments are in this workspace now. `removal`: something is to be deleted."""
        self._rules = rules
        self._relocated = relocated
        self._store = store
        self._clock = clock
        self._queue = queue
        self._removal = removal

    async def create(self, new: NewProject, *, by: Actor) -> int:
        """Its id. It belongs to `by`. Raises NotFound, Conflict, InvalidArgument, InvalidState."""
        name = project_name(new.name)
        asked = project_key(new.key) if new.key is not None else None

        async def turn() -> int:
            require_open(await self._workspace(new.workspace_id))
            await self._require_free(name, new.workspace_id)
            key = asked or key_from_name(name, await self._keys())
            await self._require_free_key(key)
            id_ = self._store.next_id(tables.Project)
            row = {
                "id": id_,
                "workspace_id": new.workspace_id,
                "name": name,
                "key": key,
                "description": new.description,
                "user_id": by.user_id,
                "created_at": self._clock.now(),
            }
            unit = UnitOfWork()
            unit.insert(tables.Project, row)
            unit.insert(tables.ProjectKey, {"key": key, "project_id": id_})
            await self._store.commit(unit)
            log.info("project created", project=id_, name=name, by=str(by))
            return id_

        return await self._queue.run(turn)

    async def patch(self, project_id: int, patch: ProjectPatch, *, by: Actor) -> None:
        """Local ids of its runs follow a new key. Raises NotFound, Conflict, InvalidArgument, InvalidState."""
        name = project_name(patch.name) if patch.name is not None else None
        key = project_key(patch.key) if patch.key is not None else None

        async def turn() -> None:
            row = await self._changeable(project_id)
            unit = UnitOfWork()
            values: dict[str, object] = {}
            if name is not None and name != row.name:
                await self._require_free(name, row.workspace_id, but=project_id)
                values |= {"name": name, "name_key": tables.name_key(name)}
            if patch.description is not None:
                values["description"] = patch.description
            if key is not None and key != row.key:
                await self._require_free_key(key, but=project_id)
                unit.upsert(tables.ProjectKey, {"key": key, "project_id": project_id})
                values["key"] = key
            await self._update(project_id, values, by, unit)

        await self._queue.run(turn)

    async def set_notes(self, project_id: int, notes: Notes, *, by: Actor) -> Notes:
        """Replaces all of them. Raises NotFound, InvalidState."""
        return await self._change_notes(project_id, lambda _: notes, by)

    async def add_note(self, project_id: int, note: Mapping[str, str], *, by: Actor) -> Notes:
        """All notes there are now. Raises NotFound, InvalidState."""
        return await self._change_notes(project_id, lambda notes: [*notes, note], by)

    async def set_archived(self, project_id: int, archived: bool, *, by: Actor) -> None:
        """Its own flag. Raises NotFound, and InvalidState while its workspace is archived."""

        async def turn() -> None:
            row = await self._row(project_id)
            _require_changeable(row)
            await self._require_open_workspace(row)
            if row.archived != archived:
                await self._update(project_id, {"archived": archived}, by)

        await self._queue.run(turn)

    async def move(self, project_id: int, workspace_id: int, *, by: Actor) -> None:
        """To another workspace. Raises NotFound, Conflict, and InvalidState as `WorkspaceRules.require_takes` does."""

        async def turn() -> None:
            row = await self._changeable(project_id)
            require_open(await self._workspace(workspace_id))
            if row.workspace_id == workspace_id:
                return
            await self._require_free(row.name, workspace_id)
            experiment = tables.Experiment
            await self._rules.require_takes(workspace_id, experiment.project_id == project_id)
            await self._update(project_id, {"workspace_id": workspace_id}, by)
            inside = select(experiment.id).where(experiment.project_id == project_id)
            self._relocated(await self._store.read(inside), workspace_id)

        await self._queue.run(turn)

    async def delete(self, project_id: int, *, by: Actor) -> bool:
        """Whether it is gone already, for it was empty. Else it is DELETING from now on.

        Raises NotFound, and InvalidState for one with experiments that have not ended.
        """

        async def turn() -> bool:
            row = await self._row(project_id)
            _require_changeable(row)
            await require_no_running(self._store, f"project {project_id}", [project_id])
            experiment = tables.Experiment
            inside = select(func.count()).where(experiment.project_id == project_id)
            empty = not await self._store.read_one(inside)
            unit = UnitOfWork()
            if empty:
                unit.delete(tables.SavedView, {"project_id": project_id})
                unit.delete(tables.Project, {"id": project_id})
            else:
                unit.update(tables.Project, {"id": project_id}, DELETING, expect=1)
            await self._store.commit(unit)
            log.info("project to be deleted", project=project_id, by=str(by))
            self._removal()
            return empty

        return await self._queue.run(turn)

    async def _change_notes(
        self, project_id: int, change: Callable[[Notes], Notes], by: Actor
    ) -> Notes:
        async def turn() -> Notes:
            row = await self._changeable(project_id)
            notes = [dict(note) for note in change(row.notes)]
            await self._update(project_id, {"notes": notes}, by)
            return notes

        return await self._queue.run(turn)

    async def _update(
        self,
        project_id: int,
        values: Mapping[str, object],
        by: Actor,
        unit: UnitOfWork | None = None,
    ) -> None:
        if values:
            unit = unit or UnitOfWork()
            unit.update(tables.Project, {"id": project_id}, values, expect=1)
            await self._store.commit(unit)
            log.info("project changed", project=project_id, changed=sorted(values), by=str(by))

    async def _changeable(self, project_id: int) -> tables.Project:
        row = await self._row(project_id)
        _require_changeable(row)
        if row.archived:
            raise InvalidState(f"project {project_id} is archived: unarchive it first")
        await self._require_open_workspace(row)
        return row

    async def _require_open_workspace(self, row: tables.Project) -> None:
        require_open(await self._workspace(row.workspace_id))

    async def _row(self, project_id: int) -> tables.Project:
        project = tables.Project
        row = await self._store.read_one(select(project).where(project.id == project_id))
        if row is None:
            raise NotFound("project", project_id)
        return row

    async def _workspace(self, workspace_id: int) -> tables.Workspace:
        workspace = tables.Workspace
        row = await self._store.read_one(select(workspace).where(workspace.id == workspace_id))
        if row is None:
            raise NotFound("workspace", workspace_id)
        return row

    async def _require_free(self, name: str, workspace_id: int, *, but: int = 0) -> None:
        project = tables.Project
        same = (
            project.workspace_id == workspace_id,
            project.name_key == tables.name_key(name),
            project.id != but,
        )
        if await self._store.read_one(select(project.id).where(*same)) is not None:
            raise Conflict(
                f"name: workspace {workspace_id} has a project {name!r} already "
                "(case-insensitive): give another name"
            )
        inside = select(func.count()).where(project.workspace_id == workspace_id)
        if (await self._store.read_one(inside) or 0) >= MAX_PROJECTS:
            raise InvalidArgument(
                f"workspace {workspace_id} has {MAX_PROJECTS} projects already: delete some"
            )

    async def _keys(self) -> set[str]:
        return set(await self._store.read(select(tables.ProjectKey.key)))

    async def _require_free_key(self, key: str, *, but: int = 0) -> None:
        used = tables.ProjectKey
        owner = await self._store.read_one(select(used.project_id).where(used.key == key))
        if owner in (None, but):
            return
        present = tables.Project
        now = await self._store.read_one(select(present.key).where(present.id == owner))
        place = "" if now == key else " in redirect table"
        raise Conflict(f"key: project key {key} is already in use{place}: give another")


def require_open(workspace: tables.Workspace) -> None:
    """Raises InvalidState for a workspace that takes nothing new."""
    if workspace.archived:
        raise InvalidState(f"workspace {workspace.id} ({workspace.name}) is archived")
    if workspace.state == DELETING["state"]:
        raise InvalidState(f"workspace {workspace.id} ({workspace.name}) is being deleted")


def _require_changeable(row: tables.Project) -> None:
    if row.immutable:
        raise InvalidState(f"project {row.id} ({row.name}) is immutable: it cannot be changed")
    if row.state == DELETING["state"]:
        raise InvalidState(f"project {row.id} is being deleted")
