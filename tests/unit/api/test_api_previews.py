"""Previews of submissions over REST: what is refused and where, what is forced, where it would start, who may ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.api_world import ASHA, SINGLE, ApiWorld, api_world

PREVIEW = "/api/v1/windlass/experiments/preview"
POLICY = "/api/v1/config-policies/global/EXPERIMENT"


@pytest.fixture
async def stored(tmp_path: Path, db_url: str) -> AsyncIterator[ApiWorld]:
    """On both databases."""
    async with api_world(tmp_path, db_url=db_url) as opened:
        await opened.login()
        yield opened


async def preview(world: ApiWorld, config: str = SINGLE, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = await world.ok("POST", PREVIEW, {"config": config, **body})
    return found


async def problems(world: ApiWorld, config: str, **body: Any) -> list[tuple[str, int | None]]:
    """Path and line of each; nothing else is said."""
    told = await preview(world, config, **body)
    found = told.pop("problems")
    assert {key: value for key, value in told.items() if value} == {}
    return [(one["path"], one["line"]) for one in found]


def origins(told: dict[str, Any], path: str) -> list[tuple[str, str]]:
    return [(one["source"], one["name"]) for one in told["origins"] if one["path"] == path]


async def put(world: ApiWorld, **policy: Any) -> None:
    await world.ok("PUT", POLICY, {"configPolicies": json.dumps(policy)})


async def test_what_would_become_of_an_experiment(stored: ApiWorld) -> None:
    await stored.add_agent(slots=4)
    told = await preview(stored, ASHA)
    assert (told["problems"], told["projectId"]) == ([], 1)
    assert told["config"]["searcher"]["divisor"] == 2
    assert sum(one["count"] for one in told["trials"]) == 4
    (asked,) = told["plan"]["asked"]
    assert (asked["outcome"], asked["runs"], asked["pool"]) == ("starts", 4, "default")
    assert (await stored.ok("GET", "/api/v1/experiments"))["experiments"] == []


async def test_where_it_would_start_and_at_what_price(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        told = await preview(world)
        (launch,) = told["plan"]["launches"]
        assert (launch["runsOfConfig"], launch["usdPerHour"]) == (1, told["plan"]["usdPerHour"])
        assert told["plan"]["usdPerHour"] > 0


async def test_problems_have_their_lines(world: ApiWorld) -> None:
    lines = SINGLE.splitlines()
    wrong = SINGLE.replace("slots_per_trial: 1", "slots_per_trail: 1")
    at = 1 + next(n for n, line in enumerate(lines) if line.startswith("resources"))
    assert await problems(world, wrong) == [("resources.slots_per_trail", at)]
    two = SINGLE.replace("max_restarts: 2", "max_restarts: many").replace("tiny", "[1]")
    found = await problems(world, two)
    assert [path for path, _ in found] == ["max_restarts", "name"]
    assert await problems(world, "name: [1") == [("", 1)]
    assert await problems(world, "") == [("", None), ("", None)]
    nowhere = SINGLE.replace("slots_per_trial: 1", "resource_pool: none")
    assert await problems(world, nowhere) == [("resources.resource_pool", at)]


async def test_what_may_never_run_is_told(world: ApiWorld) -> None:
    await world.add_agent(slots=1)
    told = await preview(world, SINGLE.replace("slots_per_trial: 1", "slots_per_trial: 64"))
    assert told["warnings"] == ["LAUNCH_WARNING_CURRENT_SLOTS_EXCEEDED"]


async def test_a_policy_forces_a_value_and_says_so(stored: ApiWorld) -> None:
    await put(stored, invariant_config={"max_restarts": 0})
    told = await preview(stored)
    assert told["config"]["max_restarts"] == 0
    assert origins(told, "max_restarts") == [("POLICY", "the cluster")]
    assert origins(told, "hyperparameters.lr.val") == [("SUBMITTED", "")]
    (sentence,) = told["configWarnings"]
    assert "max_restarts is 0 instead of 2: set by the config policy of the cluster" in sentence


async def test_a_policy_bounds_a_value_at_its_line(world: ApiWorld) -> None:
    await put(world, constraints={"resources": {"max_slots": 2}, "priority_limit": 30})
    for wish, key in (("slots_per_trial: 3", "slots_per_trial"), ("priority: 5", "priority")):
        config = SINGLE.replace("slots_per_trial: 1", wish)
        assert await problems(world, config) == [(f"resources.{key}", 8)]


async def test_a_template_lies_under_it(world: ApiWorld) -> None:
    config = {"description": "of the template", "max_restarts": 9}
    await world.ok("POST", "/api/v1/templates/base", {"config": config})
    told = await preview(world, template="base")
    assert told["config"]["max_restarts"] == 2
    assert origins(told, "description") == [("TEMPLATE", "base")]
    body = {"config": SINGLE, "template": "none"}
    assert "template 'none' not found" in await world.refused(404, "POST", PREVIEW, body)


async def test_secrets_are_not_shown(world: ApiWorld) -> None:
    secret = "environment: {environment_variables: ['KEY=secret']}\n"
    told = await preview(world, SINGLE + secret)
    assert told["config"]["environment"]["environment_variables"]["cpu"] == ["KEY=********"]


async def test_a_continuation(world: ApiWorld) -> None:
    await world.add_agent()
    id_ = await world.create()
    run = await world.run_of(id_)
    message = await world.refused(400, "POST", PREVIEW, {"continues": id_})
    assert "non terminal state" in message
    await world.finish(run)
    told = await preview(world, "max_restarts: 7\n", continues=id_)
    assert (told["problems"], told["config"]["max_restarts"]) == ([], 7)
    assert [each["runs"] for each in told["plan"]["asked"]] == [1]
    assert origins(told, "max_restarts") == origins(told, "name") == [("SUBMITTED", "")]
    assert (await preview(world, "", continues=id_))["config"]["max_restarts"] == 2
    assert await problems(world, "name: x\nproject: other\n", continues=id_) == [("", None)]
    assert await problems(world, "max_restart: 7\n", continues=id_) == [("max_restart", 1)]
    shown = await world.ok("GET", f"/api/v1/experiments/{id_}")
    assert shown["experiment"]["state"] == "STATE_COMPLETED"
    await world.refused(404, "POST", PREVIEW, {"continues": 99})


async def test_origins_and_the_template_are_kept(stored: ApiWorld) -> None:
    await stored.add_agent()
    await put(stored, invariant_config={"description": "forced"})
    await stored.ok("POST", "/api/v1/templates/base", {"config": {"labels": ["base"]}})
    id_ = await stored.create(template="base")
    shown = await stored.ok("GET", f"/api/v1/experiments/{id_}")
    assert shown["template"] == "base"
    assert origins(shown, "description") == [("POLICY", "the cluster")]
    assert origins(shown, "labels") == [("SUBMITTED", ""), ("TEMPLATE", "base")]
    assert origins(shown, "max_restarts") == [("SUBMITTED", "")]
    assert shown["origins"] == (await preview(stored, template="base"))["origins"]
    await stored.finish(await stored.run_of(id_))
    body = {"id": id_, "overrideConfig": "labels: [again]"}
    await stored.ok("POST", "/api/v1/experiments/continue", body)
    shown = await stored.ok("GET", f"/api/v1/experiments/{id_}")
    assert origins(shown, "labels") == [("SUBMITTED", "")]
    assert origins(shown, "max_restarts") == [("SUBMITTED", "")]


async def test_who_may_not_submit_there_is_told_nothing(tmp_path: Path) -> None:
    async with api_world(tmp_path, security={"authz": {"type": "rbac"}}) as world:
        await world.login()
        lab = (await world.ok("POST", "/api/v1/workspaces", {"name": "lab"}))["workspace"]["id"]
        made = await world.ok("POST", f"/api/v1/workspaces/{lab}/projects", {"name": "p"})
        project = made["project"]["id"]
        id_ = await world.create(activate=False, projectId=project)
        await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
        asked = {"config": SINGLE, "projectId": project}
        await world.login("determined")
        for body in (asked, {"continues": id_}, {"config": SINGLE}):
            await world.refused(403, "POST", PREVIEW, body)
        await world.login()
        users = (await world.ok("GET", "/api/v1/users"))["users"]
        (user,) = (one["id"] for one in users if one["username"] == "determined")
        for workspace, role in ((1, 5), (lab, 4)):
            held = {"role": {"roleId": role}, "scopeWorkspaceId": workspace}
            body = {"userRoleAssignments": [{"userId": user, "roleAssignment": held}]}
            await world.ok("POST", "/api/v1/roles/add-assignments", body)
        await world.login("determined")
        assert (await preview(world))["problems"] == []
        for body in (asked, {"continues": id_}):
            said = await world.refused(403, "POST", PREVIEW, body)
            assert "permission" in said.lower()


async def test_by_the_basic_rules_everybody_may_submit_and_owners_continue(world: ApiWorld) -> None:
    id_ = await world.create(activate=False)
    await world.ok("POST", f"/api/v1/experiments/{id_}/kill")
    await world.login("determined")
    assert (await preview(world))["problems"] == []
    await world.refused(403, "POST", PREVIEW, {"continues": id_})
