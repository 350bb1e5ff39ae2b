"""In which project a new experiment is: by its id, or by the names that the configuration gives."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Select, select

from master.core.expconf import parse
from master.core.expconf.templates import Template, naming, over_template
from master.core.visibility import Visibility
from master.parsing import in_parsing_thread
from master.store import tables
from master.store.store import Store
from master.store.visible import workspace_visible
from windlass.base.errors import InvalidArgument, InvalidState, NotFound

UNCATEGORIZED = 1
_P, _W = tables.Project, tables.Workspace


class Place(NamedTuple):
    project: tables.Project
    workspace: tables.Workspace


class _Names(NamedTuple):
    workspace: str
    project: str


class Placing:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(
        self, text: str, project_id: int, template: Template | None, visible: Visibility
    ) -> int:
        """`project_id` wins over the names in the configuration, unless it is 0 or 1.

        Raises NotFound, InvalidState for one that takes nothing new, InvalidConfig for the configuration.
        """
        if project_id not in (0, UNCATEGORIZED):
            return (await self._one(project_id, visible)).project.id
        names = await in_parsing_thread(_names, text, template)
        if not names.project and not names.workspace:
            return (await self._one(UNCATEGORIZED, visible)).project.id
        if not names.project or not names.workspace:
            raise InvalidArgument(
                "config: workspace and project must be given together, or neither of them"
            )
        return await self._named(names, visible)

    async def open(self, project_id: int) -> Place:
        """Raises NotFound, and InvalidState for one that takes nothing new."""
        place = await self._store.read_one(_places().where(_P.id == project_id), Place)
        if place is None:
            raise NotFound("project", project_id)
        require_open(place)
        return place

    async def _one(self, project_id: int, visible: Visibility) -> Place:
        place = await self._store.read_one(
            _places().where(_P.id == project_id, *workspace_visible(_W.id, visible)), Place
        )
        if place is None:
            raise NotFound("project", project_id)
        require_open(place)
        return place

    async def _named(self, names: _Names, visible: Visibility) -> int:
        workspaces = await self._store.read(
            select(_W.id).where(
                _W.name_key == tables.name_key(names.workspace), *workspace_visible(_W.id, visible)
            )
        )
        if not workspaces:
            raise NotFound("workspace", names.workspace)
        place = await self._store.read_one(
            _places().where(_W.id == workspaces[0], _P.name_key == tables.name_key(names.project)),
            Place,
        )
        if place is None:
            raise NotFound("project", names.project, f" in workspace '{names.workspace}'")
        require_open(place)
        return place.project.id


def require_open(place: Place) -> None:
    """Raises InvalidState for a project that takes nothing new."""
    project, workspace = place
    for noun, one in (("project", project), ("workspace", workspace)):
        if one.archived:
            raise InvalidState(
                f"{noun} {one.id} ({one.name}) is archived: unarchive it, or choose another project"
            )
        if one.state == "DELETING":
            raise InvalidState(f"{noun} {one.id} ({one.name}) is being deleted")


def _places() -> Select[tables.Project, tables.Workspace]:
    return select(_P, _W).join(_W, _W.id == _P.workspace_id)


def _names(text: str, template: Template | None) -> _Names:
    raw = parse(text)
    with naming(template):
        document = over_template(raw, template)
    return _Names(str(document.get("workspace") or ""), str(document.get("project") or ""))
