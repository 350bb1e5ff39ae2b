"""Ten users, three workspaces, overlapping groups: whatever happens, everybody's lists are those of a plain model.

The model knows three tables of `rbac`: who is in which group, who holds which role where, and where each thing is.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from master.store import tables
from tests.examples import examples
from tests.fakes.api_world import PASSWORD, SINGLE, ApiWorld, api_world

T = TypeVar("T")
ADMIN, VIEWER, EDITOR, MODELS, RESTRICTED = 2, 4, 5, 6, 7
WORKING = {ADMIN, VIEWER, EDITOR, RESTRICTED}
SEES = {
    "workspaces": WORKING,
    "experiments": WORKING,
    "notebooks": WORKING,
    "models": {*WORKING, MODELS},
}
"""Roles that show each list."""
CHANGES = {ADMIN, EDITOR, RESTRICTED}
"""Roles that may describe an experiment anew."""
USERS, WORKSPACES, GROUPS = 10, 3, 3
STEPS = 20
KINDS = ("experiments", "notebooks", "models")
IN_ONE = (ADMIN, VIEWER, EDITOR, MODELS, RESTRICTED)
IN_ALL = (VIEWER, EDITOR, MODELS)
EVENTS = (
    *("joins_or_leaves", "joins_or_leaves", "is_given_a_role", "is_given_a_role", "loses_a_role"),
    *("is_created", "is_moved", "is_archived", "is_deleted", "somebody_describes_an_experiment"),
)


class Cluster:
    """A world that lives on an event loop in a thread, longer than one example."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self.rounds = 0

    def __enter__(self) -> Cluster:
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _live(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with api_world(self._folder, security={"authz": {"type": "rbac"}}) as self.world:
            await self.world.login()
            self._started.set()
            await self._over.wait()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


@dataclass
class Model:
    """What there is, by the positions of users, groups and workspaces."""

    members: list[set[int]] = field(default_factory=lambda: [set() for _ in range(GROUPS)])
    held: set[tuple[tuple[str, int], tuple[int, int | None]]] = field(default_factory=set)
    things: dict[str, dict[int | str, int]] = field(
        default_factory=lambda: {"experiments": {}, "notebooks": {}, "models": {}}
    )
    """Where each is."""

    def where(self, user: int, roles: set[int]) -> set[int]:
        holders = {("user", user)} | {
            ("group", number) for number, members in enumerate(self.members) if user in members
        }
        found: set[int] = set()
        for holder, (role, workspace) in self.held:
            if holder in holders and role in roles:
                found |= set(range(WORKSPACES)) if workspace is None else {workspace}
        return found

    def seen(self, user: int, kind: str) -> set[int | str]:
        where = self.where(user, SEES[kind])
        if kind == "workspaces":
            return set(where)
        return {id_ for id_, at in self.things[kind].items() if at in where}


class People:
    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.model = Model()
        self.world: ApiWorld = cluster.world
        self.archived: set[tuple[str, int | str]] = set()
        self.names = 0

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        return self.cluster.do(self.world.ok(method, path, body))

    def begin(self) -> None:
        self.cluster.rounds += 1
        mark = f"{self.cluster.rounds}"
        self.tokens: list[str] = []
        self.user_ids: list[int] = []
        for number in range(USERS):
            name = f"user-{mark}-{number}"
            user = {"user": {"username": name, "active": True}, "password": PASSWORD}
            made = self.ok("POST", "/api/v1/users", {**user, "isHashed": False})
            self.user_ids.append(made["user"]["id"])
            login = {"username": name, "password": PASSWORD}
            self.tokens.append(self.ok("POST", "/api/v1/auth/login", login)["token"])
        self.workspace_ids, self.project_ids = [], []
        for number in range(WORKSPACES):
            made = self.ok("POST", "/api/v1/workspaces", {"name": f"lab {mark} {number}"})
            id_ = made["workspace"]["id"]
            self.workspace_ids.append(id_)
            path = f"/api/v1/workspaces/{id_}/projects"
            self.project_ids.append(self.ok("POST", path, {"name": "p"})["project"]["id"])
        self.group_ids = [
            self.ok("POST", "/api/v1/groups", {"name": f"group {mark} {number}"})["group"][
                "groupId"
            ]
            for number in range(GROUPS)
        ]

        for kind in KINDS:
            for workspace in range(WORKSPACES):
                self.is_created(kind, workspace)

    def step(self) -> None:
        event = getattr(self, self.random.choice(EVENTS))
        event(**{name: self._drawn(name) for name in inspect.signature(event).parameters})
        for user in self.random.sample(range(USERS), 2):
            self.check(user)

    def _drawn(self, name: str) -> Any:
        draw = self.random
        match name:
            case "kind":
                return draw.choice(KINDS)
            case "user":
                return draw.randrange(USERS)
            case "group":
                return draw.randrange(GROUPS)
            case "workspace":
                return draw.randrange(WORKSPACES)
            case "holder":
                return draw.choice([("user", self._drawn("user")), ("group", self._drawn("group"))])
            case "grant":
                in_one = draw.choice(IN_ONE), draw.randrange(WORKSPACES)
                return draw.choice([in_one, in_one, in_one, (draw.choice(IN_ALL), None)])
            case _:
                return draw.randrange(10**6)

    # What happens

    def joins_or_leaves(self, group: int, user: int) -> None:
        members = self.model.members[group]
        key = "removeUsers" if user in members else "addUsers"
        self.ok("PUT", f"/api/v1/groups/{self.group_ids[group]}", {key: [self.user_ids[user]]})
        members ^= {user}

    def is_given_a_role(self, holder: tuple[str, int], grant: tuple[int, int | None]) -> None:
        if (holder, grant) not in self.model.held:
            self._assign("add", holder, grant)
            self.model.held.add((holder, grant))

    def loses_a_role(self, draw: int) -> None:
        if not self.model.held:
            return
        held = sorted(self.model.held, key=str)
        holder, grant = held[draw % len(held)]
        self._assign("remove", holder, grant)
        self.model.held.discard((holder, grant))

    def _assign(self, verb: str, holder: tuple[str, int], grant: tuple[int, int | None]) -> None:
        kind, number = holder
        role, workspace = grant
        scope = {} if workspace is None else {"scopeWorkspaceId": self.workspace_ids[workspace]}
        ids = self.user_ids if kind == "user" else self.group_ids
        one = {f"{kind}Id": ids[number], "roleAssignment": {"role": {"roleId": role}, **scope}}
        self.ok("POST", f"/api/v1/roles/{verb}-assignments", {f"{kind}RoleAssignments": [one]})

    def is_created(self, kind: str, workspace: int) -> None:
        id_: int | str
        if kind == "experiments":
            project = {"projectId": self.project_ids[workspace]}
            id_ = self.cluster.do(self.world.create(SINGLE, activate=False, **project))
        elif kind == "notebooks":
            new = {"config": {}, "workspaceId": self.workspace_ids[workspace]}
            id_ = self.ok("POST", "/api/v1/notebooks", new)["notebook"]["id"]
        else:
            self.names += 1
            name = f"model {self.cluster.rounds} {self.names}"
            new = {"name": name, "workspaceId": self.workspace_ids[workspace]}
            id_ = self.ok("POST", "/api/v1/models", new)["model"]["id"]
        self.model.things[kind][id_] = workspace

    def _some(self, kind: str, draw: int) -> int | str | None:
        there = [id_ for id_ in self.model.things[kind] if (kind, id_) not in self.archived]
        return there[draw % len(there)] if there else None

    def is_moved(self, kind: str, draw: int, workspace: int) -> None:
        id_ = None if kind == "notebooks" else self._some(kind, draw)
        if id_ is None or self.model.things[kind][id_] == workspace:
            return
        to: dict[str, int] = (
            {"destinationProjectId": self.project_ids[workspace]}
            if kind == "experiments"
            else {"destinationWorkspaceId": self.workspace_ids[workspace]}
        )
        self.ok("POST", f"/api/v1/{kind}/{id_}/move", to)
        self.model.things[kind][id_] = workspace

    def is_archived(self, kind: str, draw: int) -> None:
        """It is listed still."""
        if kind == "notebooks" or (id_ := self._some(kind, draw)) is None:
            return
        if kind == "experiments":
            self.ok("POST", f"/api/v1/experiments/{id_}/kill")
        self.ok("POST", f"/api/v1/{kind}/{id_}/archive")
        self.archived.add((kind, id_))

    def is_deleted(self, kind: str, draw: int) -> None:
        if kind == "notebooks" or (id_ := self._some(kind, draw)) is None:
            return
        if kind == "experiments":
            self.ok("POST", f"/api/v1/experiments/{id_}/kill")
        self.ok("DELETE", f"/api/v1/{kind}/{id_}")
        if kind == "experiments":
            self.cluster.do(self.world.collected())
        del self.model.things[kind][id_]

    def somebody_describes_an_experiment(self, user: int, draw: int) -> None:
        if (id_ := self._some("experiments", draw)) is None:
            return
        at = self.model.things["experiments"][id_]
        expected = 404
        if at in self.model.where(user, SEES["experiments"]):
            expected = 200 if at in self.model.where(user, CHANGES) else 403
        body = {"description": f"{draw}"}
        path = f"/api/v1/experiments/{id_}"
        call = self.world.call("PATCH", path, body, token=self.tokens[user])
        assert self.cluster.do(call).status_code == expected

    # What must hold

    def check(self, user: int) -> None:
        for kind in SEES:
            found = self.cluster.do(
                self.world.ok("GET", f"/api/v1/{kind}?limit=1000", token=self.tokens[user])
            )
            expected = self.model.seen(user, kind)
            if kind == "workspaces":
                expected = {self.workspace_ids[int(at)] for at in expected}
            shown = {one["id"] for one in found[kind]} - self.older(found[kind])
            assert shown == expected, (user, kind)
            assert found["pagination"]["total"] == len(found[kind]), (user, kind)

    def older(self, rows: list[dict[str, Any]]) -> set[int | str]:
        """Of an example before: who holds a role in the cluster sees those too."""
        mine = set(self.workspace_ids)
        return {one["id"] for one in rows if one.get("workspaceId", one["id"]) not in mine}

    def end(self) -> None:
        for user in range(USERS):
            self.check(user)
        experiment, project = tables.Experiment, tables.Project
        rows = self.cluster.do(
            self.world.services.store.read(
                select(experiment.id, project.workspace_id)
                .join(project, project.id == experiment.project_id)
                .where(project.workspace_id.in_(self.workspace_ids)),
                lambda id_, workspace: (id_, self.workspace_ids.index(workspace)),
            )
        )
        assert dict(rows) == self.model.things["experiments"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("people")) as made:
        yield made


def walk(cluster: Cluster, random: Random, steps: int) -> None:
    people = People(cluster, random)
    people.begin()
    for _ in range(steps):
        people.step()
    people.end()


def walks(number: int) -> settings:
    return settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


RANDOM = st.randoms(use_true_random=True)
"""Of a seed that Hypothesis draws, and prints."""


@walks(2)
@given(random=RANDOM)
def test_many_people_at_once(cluster: Cluster, random: Random) -> None:
    walk(cluster, random, STEPS)


@pytest.mark.slow
@walks(examples(3))
@given(random=RANDOM)
def test_many_people_for_longer(cluster: Cluster, random: Random) -> None:
    walk(cluster, random, 2 * STEPS)
