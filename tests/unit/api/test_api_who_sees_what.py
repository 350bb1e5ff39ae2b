"""Roles given and taken, and things moved, at random: each list is what the table of permissions says, at once."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from master.core.roles.catalogue import RoleId
from tests.fakes.api_world import SINGLE, ApiWorld, api_world
from tests.unit.auth.published_permissions import has

ROLES = {
    "W": RoleId.WORKSPACE_ADMIN,
    "V": RoleId.VIEWER,
    "E": RoleId.EDITOR,
    "M": RoleId.MODEL_REGISTRY_VIEWER,
}
STEPS = 20
PLACES = ("one", "two", "three")


@dataclass(frozen=True, slots=True)
class Noun:
    many: str
    permission: str
    key: str
    """Of an item: what names it in its path."""
    listed: str
    one: str


NOUNS = (
    Noun("experiments", "VIEW_EXPERIMENT_METADATA", "id", "/experiments", "/experiments/{}"),
    Noun("workspaces", "VIEW_WORKSPACE", "id", "/workspaces", "/workspaces/{}"),
    Noun("projects", "VIEW_PROJECT", "id", "/workspaces/0/projects", "/projects/{}"),
    Noun("models", "VIEW_MODEL_REGISTRY", "name", "/models", "/models/{}"),
    Noun("templates", "VIEW_TEMPLATES", "name", "/templates", "/templates/{}"),
    Noun("commands", "VIEW_NSC", "id", "/commands", "/commands/{}"),
)


@dataclass(slots=True)
class Plain:
    """What there is, and where; which roles the reader holds. The first workspace and what is in it is nobody's."""

    places: dict[str, dict[str, int]] = field(default_factory=lambda: {n.many: {} for n in NOUNS})
    """Noun -> name in paths -> workspace."""
    projects: dict[int, int] = field(default_factory=dict)
    """Experiment -> its project."""
    held: set[tuple[str, int | None]] = field(default_factory=set)

    def sees(self, noun: Noun) -> set[str]:
        def may(workspace: int) -> bool:
            roles = (letter for letter, where in self.held if where in (None, workspace))
            return any(has(letter, noun.permission) for letter in roles)

        return {name for name, where in self.places[noun.many].items() if may(where)}


@pytest.fixture
async def rbac(tmp_path: Path) -> AsyncIterator[ApiWorld]:
    """Logged in as admin."""
    async with api_world(tmp_path, security={"authz.type": "rbac"}) as world:
        await world.login()
        yield world


async def filled(world: ApiWorld) -> Plain:
    plain = Plain()
    plain.places["workspaces"]["1"] = plain.places["projects"]["1"] = 1
    for name in PLACES:
        made = await world.ok("POST", "/api/v1/workspaces", {"name": name})
        here = int(made["workspace"]["id"])
        made = await world.ok("POST", f"/api/v1/workspaces/{here}/projects", {"name": name})
        project = int(made["project"]["id"])
        submitted = {"config": SINGLE, "activate": False, "projectId": project}
        made = await world.ok("POST", "/api/v1/experiments", submitted)
        experiment = int(made["experiment"]["id"])
        await world.ok("POST", "/api/v1/models", {"name": name, "workspaceId": here})
        await world.ok("POST", f"/api/v1/templates/{name}", {"config": {}, "workspaceId": here})
        run = {"config": {"entrypoint": ["true"]}, "workspaceId": here}
        command = (await world.ok("POST", "/api/v1/commands", run))["command"]["id"]
        plain.projects[experiment] = project
        for many, key in (
            ("experiments", experiment),
            ("workspaces", here),
            ("projects", project),
            ("models", name),
            ("templates", name),
            ("commands", command),
        ):
            plain.places[many][str(key)] = here
    return plain


async def give_or_take(world: ApiWorld, plain: Plain, draw: random.Random) -> None:
    letter = draw.choice(sorted(ROLES))
    where = draw.choice([None, *sorted(plain.places["workspaces"].values())])
    one = {"role": {"roleId": int(ROLES[letter])}, "scopeWorkspaceId": where}
    body = {"userRoleAssignments": [{"userId": 2, "roleAssignment": one}]}
    verb = "remove" if (letter, where) in plain.held else "add"
    await world.ok("POST", f"/api/v1/roles/{verb}-assignments", body)
    plain.held ^= {(letter, where)}


async def move(world: ApiWorld, plain: Plain, draw: random.Random) -> None:
    places, noun = plain.places, draw.choice(("experiments", "projects", "models"))
    key = draw.choice(sorted(set(places[noun]) - ({"1"} if noun == "projects" else set())))
    to = draw.choice(sorted(set(places["workspaces"].values()) - {1}))
    match noun:
        case "experiments":
            project = int(draw.choice(sorted(places["projects"])))
            target = {"destinationProjectId": project}
            await world.ok("POST", f"/api/v1/experiments/{key}/move", target)
            plain.projects[int(key)] = project
            places[noun][key] = places["projects"][str(project)]
            return
        case "projects":
            await world.ok("POST", f"/api/v1/projects/{key}/move", {"destinationWorkspaceId": to})
            inside = [e for e, project in plain.projects.items() if str(project) == key]
            places["experiments"].update((str(e), to) for e in inside)
        case _:
            await world.ok("PATCH", f"/api/v1/models/{key}", {"workspaceId": to})
    places[noun][key] = to


async def look(world: ApiWorld, plain: Plain, token: str) -> None:
    for noun in NOUNS:
        found = await world.ok("GET", f"/api/v1{noun.listed}", token=token)
        listed = [str(item[noun.key]) for item in found[noun.many]]
        expected = plain.sees(noun)
        assert set(listed) == expected, noun.many
        assert found["pagination"]["total"] == len(listed) == len(expected), noun.many
        first = await world.ok("GET", f"/api/v1{noun.listed}?limit=1", token=token)
        assert first["pagination"]["total"] == len(expected), noun.many
        unknown = await told(world, noun, "987654", token)
        for key in plain.places[noun.many]:
            answer = await told(world, noun, key, token)
            assert (answer is None) == (key in expected), (noun.many, key)
            assert answer in (None, unknown)


async def told(world: ApiWorld, noun: Noun, key: str, token: str) -> Any:
    """None if it is there."""
    answer = await world.call("GET", f"/api/v1{noun.one.format(key)}", token=token)
    assert answer.status_code in (200, 404), answer.text
    return None if answer.status_code == 200 else answer.text.replace(f"'{key}'", "'it'")


@pytest.mark.slow
async def test_lists_are_what_the_permissions_say_after_each_step(rbac: ApiWorld) -> None:
    plain, draw = await filled(rbac), random.Random(7)
    mine = rbac.token
    other = await rbac.login("determined")
    rbac.token = mine
    await look(rbac, plain, other)
    for _ in range(STEPS):
        await draw.choice((give_or_take, give_or_take, move))(rbac, plain, draw)
        await look(rbac, plain, other)
