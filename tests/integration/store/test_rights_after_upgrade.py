"""A database of a release without roles: nobody gains or loses anything by its upgrade, or by trying rbac."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import JSON, MetaData, Table, select

from master.auth.actions import CLUSTER, Action, Target
from master.auth.permissions import allowed, visibility
from master.auth.principal import Principal
from master.auth.role_service import RoleService
from master.auth.service import AuthService
from master.config.sections import Authz
from master.core.jobs import JobType
from master.experiments.queries.experiments import ExperimentFilter, ExperimentQueries
from master.store import tables
from master.store.migrate import STATE, config_for
from master.store.paging import Page
from master.store.sql.database import open_database
from master.store.store import Store
from master.tasks.interactive_queries import InteractiveFilter, InteractiveQueries
from master.wiring.control_plane import start_roles
from master.workspaces.queries import NamedFilter, WorkspaceQueries
from tests.stores import leading_store
from windlass.base.clock import ManualClock
from windlass.base.ids import Ids

BEFORE_ROLES = "0026"
ADMIN, DETERMINED, ANN, ROOT, GONE = 1, 2, 3, 4, 5
NAMES = {ADMIN: "admin", DETERMINED: "determined", ANN: "ann", ROOT: "root", GONE: "gone"}
FLAGGED = {ADMIN, ROOT}
FIRST, LAB = 1, 2
OWNER = {FIRST: ADMIN, LAB: ANN}
NOW = datetime(2026, 11, 1, tzinfo=UTC)
Seen = dict[int, tuple[list[int], list[int], list[str]]]
Doings = dict[int, frozenset[tuple[Action, int]]]


@pytest.fixture(params=["sqlite", "postgresql"])
def db_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/windlass.db"
    return str(request.getfixturevalue("postgres_url"))


async def test_nobody_gains_or_loses_anything(db_url: str) -> None:
    database = open_database(db_url)
    await database.write(_filled)
    await database.close()
    clock = ManualClock(NOW)
    async with leading_store(db_url, clock) as store:
        auth, roles = AuthService(store, clock, Ids.seeded(1)), RoleService(store)
        await auth.load()
        await start_roles(roles, auth, Authz())
        before = {
            id_: Principal(user_id=id_, name=name, admin=id_ in FLAGGED)
            for id_, name in NAMES.items()
            if id_ != GONE
        }
        everything = ([FIRST, LAB], [FIRST, LAB], ["c1", "c2"])
        assert await _seen(store, _people(auth)) == dict.fromkeys(before, everything)
        assert _doings(_people(auth)) == _doings(before)
        assert not auth.user(GONE).active
        made = roles.assignments()
        shown = tables.ShownExperiment
        found = await store.read(select(shown).order_by(shown.experiment_id))
        assert [(row.task_id, row.experiment_id) for row in found] == [("b", FIRST), ("b", LAB)]

        # Tried, and not liked.
        auth.register_rules(roles.rules_of)
        tried = await _seen(store, _people(auth))
        assert tried[ADMIN] == everything
        assert tried[ANN] == ([LAB], [LAB], ["c2"])
        assert tried[DETERMINED] == tried[ROOT] == ([], [], [])
        await roles.load()
        auth.register_rules(lambda user_id: None)
        assert roles.assignments() == made
        assert await _seen(store, _people(auth)) == dict.fromkeys(before, everything)
        assert _doings(_people(auth)) == _doings(before)
        await store.give_back_lease()
    async with leading_store(db_url, clock) as store:
        again = RoleService(store)
        await start_roles(again, AuthService(store, clock, Ids.seeded(1)), Authz())
        assert again.assignments() == made


def _people(auth: AuthService) -> dict[int, Principal]:
    return {user.id: auth._principal(user.id) for user in auth.users() if user.active}


async def _seen(store: Store, people: dict[int, Principal]) -> Seen:
    """Workspaces, experiments, commands."""
    experiments, tasks, workspaces = (
        ExperimentQueries(store),
        InteractiveQueries(store),
        WorkspaceQueries(store),
    )
    found: Seen = {}
    for id_, one in people.items():
        shown = {action: visibility(one, action) for action in Action}
        inside = await workspaces.workspaces(
            NamedFilter(), Page(), shown[Action.VIEW_WORKSPACES], reader=id_
        )
        some = await experiments.summaries(
            ExperimentFilter(), Page(sort="id"), shown[Action.VIEW_EXPERIMENTS]
        )
        ran = await tasks.tasks(
            JobType.COMMAND, InteractiveFilter(), Page(sort="id"), shown[Action.VIEW_INTERACTIVE]
        )
        found[id_] = (
            [row.workspace.id for row in inside.rows],
            [row.id for row in some.rows],
            [row.task.id for row in ran.rows],
        )
    return found


def _doings(people: dict[int, Principal]) -> Doings:
    """By user: what they may do to the experiment of each workspace (0: to the cluster)."""
    targets = {0: CLUSTER} | {
        place: Target(
            kind="experiment", id=place, owner_id=owner, workspace_id=place, experiment_id=place
        )
        for place, owner in OWNER.items()
    }
    return {
        id_: frozenset(
            (action, place)
            for action in Action
            for place, target in targets.items()
            if allowed(one, action, target)
        )
        for id_, one in people.items()
    }


def _filled(connection: Any) -> None:
    command.upgrade(config_for(STATE, connection), BEFORE_ROLES)
    for id_, name in NAMES.items():
        flags = {"admin": id_ in FLAGGED, "active": id_ != GONE}
        _insert(connection, "user", id=id_, username=name, **flags)
    parts = [{"name": f"experiment/{FIRST}/trial/9"}, {"name": f"experiment/{LAB}"}]
    for place, owner in OWNER.items():
        named = {"id": place, "name": f"w{place}", "name_key": f"w{place}", "user_id": owner}
        flags = {"immutable": place == FIRST, "archived": False}
        _insert(connection, "workspace", **named, **flags)
        project = {**named, "workspace_id": place, "key": f"P{place}", **flags}
        _insert(connection, "project", **project)
        over = {"owner_id": owner, "ended_at": NOW}
        work = {"id": place, "job_id": f"j{place}", "project_id": place, "state": "COMPLETED"}
        _insert(connection, "experiment", **work, **over, archived=False, unmanaged=False)
        ran = {"type": "COMMAND", "job_id": f"k{place}", "workspace_id": place}
        _insert(connection, "command", id=f"c{place}", **ran, **over, state="TERMINATED")
    board = {"type": "TENSORBOARD", "workspace_id": FIRST, "owner_id": ADMIN, "ended_at": NOW}
    _insert(connection, "command", id="b", details={"sources": parts}, **board)


def _insert(connection: Any, table: str, /, **values: Any) -> None:
    """A row of an old form, with something in each column that must have something."""
    found = Table(table, MetaData(), autoload_with=connection)
    kinds: dict[type, Any] = {str: "{}", datetime: NOW, dict: {}}
    for each in found.columns:
        if not each.nullable and each.name not in values and each.server_default is None:
            kind = dict if isinstance(each.type, JSON) else each.type.python_type
            values[each.name] = kinds.get(kind, 0)
    known = {key: value for key, value in values.items() if key in found.c}
    connection.execute(found.insert().values(known))
