"""What users do with workspaces: create, edit, archive, pin, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog
from sqlalchemy import func, select

from master.allocations.identities import WorkspaceUser
from master.allocations.mounts import host_folder
from master.auth.role_service import RoleService
from master.core.actor import Actor
from master.core.expconf.models.storage import SharedFsStorage
from master.core.expconf.workspace_storage import read_storage, unusable_folder
from master.parsing import in_parsing_thread
from master.pool_bindings.queries import PoolBindingQueries
from master.store import tables
from master.store.mailbox import SerialQueue
from master.store.store import Store
from master.store.unit_of_work import UnitOfWork
from master.workspaces.agent_users import AgentUsers
from master.workspaces.deletion import DELETING, empty_workspace, require_no_running
from master.workspaces.names import workspace_name
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidArgument, InvalidState, NotFound
from windlass.base.formats.json_types import JsonMapping

log = structlog.get_logger(__name__)

MAX_WORKSPACES = 10_000
"""A program that makes one for each of its runs is told so, and fills no database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePatch:
    """None leaves a field as it is."""

    name: str | None = None
    agent_user: Mapping[str, object] | None = None
    """The given fields of `WorkspaceUser`; None clears one."""
    default_compute_pool: str | None = None
    """Empty, as in the next: the cluster's."""
    default_aux_pool: str | None = None
    checkpoint_storage: JsonMapping | None = None
    """Empty: the cluster's."""


UNCHANGED = WorkspacePatch()


class WorkspaceService:
    """All workspaces One change at a time, of projects too: names are looked up and taken in one step."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        agent_users: AgentUsers,
        roles: RoleService,
        pools: PoolBindingQueries,
        refused_folder: Callable[[str], str | None],
        removal: Callable[[], None],
        removed: Callable[[int], None],
    ) -> None:
        """`refused_folder`: why no task may mount it. `removal`: something is to be deleted. `removed`: a workspace is
        gone."""
        self._pools = pools
        self._refused_folder = refused_folder
        self.queue = SerialQueue("workspaces")
        self._store = store
        self._clock = clock
        self._agent_users = agent_users
        self._roles = roles
        self._removed = removed
        self._removal = removal

    async def create(self, name: str, given: WorkspacePatch = UNCHANGED, *, by: Actor) -> int:
        """Its id. It belongs to `by`, who has it pinned, and a role in it. Raises Conflict, InvalidArgument."""
        name = workspace_name(name)
        user = _agent_user(None, given.agent_user or {})
        storage = await in_parsing_thread(self._storage, given)

        async def turn() -> int:
            await self._require_free(name)
            number = await self._store.read_one(select(func.count()).select_from(tables.Workspace))
            if (number or 0) >= MAX_WORKSPACES:
                raise InvalidArgument(f"there are {MAX_WORKSPACES} workspaces already: delete some")
            id_ = self._store.next_id(tables.Workspace)
            row = {
                "id": id_,
                "name": name,
                "user_id": by.user_id,
                "agent_user_group": user,
                **storage,
                **await self._default_pools(given, id_),
            }
            unit = UnitOfWork()
            unit.insert(tables.Workspace, row)
            unit.insert(tables.WorkspacePin, self._pin(id_, by))
            held = self._roles.of_creator(id_, by)
            held_row = self._roles.insert_into(unit, held) if held is not None else 0
            await self._store.commit(unit)
            self._agent_users.register(id_, user)
            if held is not None:
                self._roles.register(held, held_row)
            log.info("workspace created", workspace=id_, name=name, by=str(by))
            return id_

        return await self.queue.run(turn)

    async def patch(self, workspace_id: int, patch: WorkspacePatch, *, by: Actor) -> None:
        """Raises NotFound, Conflict, InvalidArgument, InvalidConfig, InvalidState."""
        storage = await in_parsing_thread(self._storage, patch)

        async def turn() -> None:
            row = await self._changeable(workspace_id)
            if row.archived:
                raise InvalidState(f"workspace {workspace_id} is archived: unarchive it first")
            values = {**storage, **await self._default_pools(patch, workspace_id)}
            if patch.name is not None and patch.name != row.name:
                name = workspace_name(patch.name)
                await self._require_free(name, but=workspace_id)
                values |= {"name": name, "name_key": tables.name_key(name)}
            if patch.agent_user is not None:
                values["agent_user_group"] = _agent_user(row.agent_user_group, patch.agent_user)
            await self._update(workspace_id, values, by)
            if "agent_user_group" in values:
                self._agent_users.register(workspace_id, values["agent_user_group"])

        await self.queue.run(turn)

    async def set_archived(self, workspace_id: int, archived: bool, *, by: Actor) -> None:
        """Its own flag only; what is in it reads as archived, too. Raises NotFound, InvalidState."""

        async def turn() -> None:
            row = await self._changeable(workspace_id)
            if row.archived != archived:
                await self._update(workspace_id, {"archived": archived}, by)

        await self.queue.run(turn)

    async def set_pinned(self, workspace_id: int, pinned: bool, *, by: Actor) -> None:
        """For `by`. Raises NotFound."""

        async def turn() -> None:
            await self._row(workspace_id)
            pin, where = tables.WorkspacePin, {"workspace_id": workspace_id, "user_id": by.user_id}
            is_pinned = await self._store.read_one(select(pin.pinned_at).filter_by(**where))
            unit = UnitOfWork()
            if pinned and is_pinned is None:
                unit.insert(pin, self._pin(workspace_id, by))
            elif not pinned:
                unit.delete(pin, where)
            await self._store.commit(unit)

        await self.queue.run(turn)

    async def note_visit(self, project_id: int, *, by: Actor) -> None:
        """`by` looks at this project now. Raises NotFound."""
        project = tables.Project

        async def turn() -> None:
            if (
                await self._store.read_one(select(project.id).where(project.id == project_id))
                is None
            ):
                raise NotFound("project", project_id)
            unit = UnitOfWork()
            visit = {"user_id": by.user_id, "project_id": project_id}
            unit.upsert(tables.ProjectVisit, {**visit, "visited_at": self._clock.now()})
            await self._store.commit(unit)

        await self.queue.run(turn)

    async def delete(self, workspace_id: int, *, by: Actor) -> bool:
        """Whether it is gone already, for it was empty. Else it is DELETING from now on: its tasks are killed, then its
        projects with their experiments go, then it.

        Raises NotFound, and InvalidState for one with models, or with experiments that have not ended.
        """

        async def turn() -> bool:
            row = await self._changeable(workspace_id)
            model = tables.Model
            here = select(model.id).where(model.workspace_id == workspace_id).limit(1)
            if await self._store.read(here):
                raise InvalidState(
                    f"workspace {workspace_id} ({row.name}) contains models; move or delete models first"
                )
            project, command = tables.Project, tables.Command
            inside = project.workspace_id == workspace_id
            ids = await self._store.read(select(project.id).where(inside))
            await require_no_running(self._store, f"workspace {workspace_id}", ids)
            tasks = select(func.count()).where(command.workspace_id == workspace_id)
            empty = not ids and not await self._store.read_one(tasks)
            unit = UnitOfWork()
            if empty:
                unit.extend(empty_workspace(workspace_id))
            else:
                unit.update(tables.Project, {"workspace_id": workspace_id}, DELETING)
                unit.update(tables.Workspace, {"id": workspace_id}, DELETING, expect=1)
            await self._store.commit(unit)
            if empty:
                self._removed(workspace_id)
            log.info("workspace to be deleted", workspace=workspace_id, by=str(by))
            self._removal()
            return empty

        return await self.queue.run(turn)

    def _storage(self, patch: WorkspacePatch) -> dict[str, object]:
        """The column, if it changes. Blocks: links are followed. Raises InvalidConfig."""
        if patch.checkpoint_storage is None:
            return {}
        if not patch.checkpoint_storage:
            return {"checkpoint_storage": None}
        storage, stored = read_storage(patch.checkpoint_storage)
        # A directory may be in a mount that an experiment has itself: that shows when it is submitted.
        folder = host_folder(storage) if isinstance(storage, SharedFsStorage) else None
        if folder is not None and (why := self._refused_folder(folder)):
            raise unusable_folder(f"{folder} {why}")
        return {"checkpoint_storage": stored}

    async def _default_pools(self, patch: WorkspacePatch, workspace_id: int) -> dict[str, object]:
        """The columns that change. Raises InvalidArgument for a pool that the workspace may not use."""
        found: dict[str, object] = {}
        for column in ("default_compute_pool", "default_aux_pool"):
            pool = getattr(patch, column)
            if pool:
                await self._pools.require_usable(pool, workspace_id)
            if pool is not None:
                found[column] = pool or None
        return found

    async def _update(self, workspace_id: int, values: Mapping[str, object], by: Actor) -> None:
        if values:
            unit = UnitOfWork()
            unit.update(tables.Workspace, {"id": workspace_id}, values, expect=1)
            await self._store.commit(unit)
            log.info(
                "workspace changed", workspace=workspace_id, changed=sorted(values), by=str(by)
            )

    async def _changeable(self, workspace_id: int) -> tables.Workspace:
        row = await self._row(workspace_id)
        if row.immutable:
            raise InvalidState(
                f"workspace {workspace_id} ({row.name}) is immutable: it cannot be changed"
            )
        if row.state == DELETING["state"]:
            raise InvalidState(f"workspace {workspace_id} is being deleted")
        return row

    async def _row(self, workspace_id: int) -> tables.Workspace:
        workspace = tables.Workspace
        row = await self._store.read_one(select(workspace).where(workspace.id == workspace_id))
        if row is None:
            raise NotFound("workspace", workspace_id)
        return row

    async def _require_free(self, name: str, *, but: int = 0) -> None:
        workspace = tables.Workspace
        same = (workspace.name_key == tables.name_key(name), workspace.id != but)
        if await self._store.read_one(select(workspace.id).where(*same)) is not None:
            raise Conflict(
                f"name: {name!r} is taken: avoid names equal to other workspaces (case-insensitive)"
            )

    def _pin(self, workspace_id: int, by: Actor) -> dict[str, object]:
        return {
            "user_id": by.user_id,
            "workspace_id": workspace_id,
            "pinned_at": self._clock.now(),
        }


def _agent_user(stored: object, given: Mapping[str, object]) -> object:
    """As it is stored; None if it says nothing."""
    known = {} if stored is None else WorkspaceUser.model_validate(stored).model_dump()
    said = WorkspaceUser.model_validate({**known, **given}).model_dump(exclude_none=True)
    return said or None
