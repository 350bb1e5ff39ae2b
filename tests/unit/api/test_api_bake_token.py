"""The token of the machine of an image: for that machine, until it has everything, and never for an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_bootstrap.protocol import CREDENTIAL_HEADER, PROTOCOL_VERSION
from provisioner.images.records import BakeState
from rm_backends.ports import JoinGrant, JoinKind
from tests.fakes.agents_world import Machines
from tests.fakes.api_world import WHEEL, ApiWorld, api_world
from tests.fakes.one_bake import OneBake

PATH = "/api/v1/windlass/boot"
FILES = (
    f"{PATH}?instance=%s",
    f"{PATH}/wheels?instance=%s",
    f"{PATH}/wheels/{WHEEL.name}?instance=%s",
)
TOKEN = "of-the-bake"


class World:
    def __init__(self, api: ApiWorld) -> None:
        self.api = api
        assert api.services.provisioner is not None
        bakery = api.services.provisioner.bakery
        assert isinstance(bakery, OneBake)
        self.bakery = bakery
        self.becomes(BakeState.INSTALLING)

    def becomes(self, state: BakeState) -> None:
        self.bakery.made[0] = replace(self.bakery.made[0], state=state)

    async def refusals(self, machine: str = "i-1", token: str = TOKEN) -> list[str]:
        """Of what a machine fetches; an empty one: it gets that."""
        answers = [await self.api.call("GET", path % machine, token=token) for path in FILES]
        assert {answer.status_code for answer in answers} <= {200, 403}
        return [x.json()["message"] if x.status_code == 403 else "" for x in answers]

    async def says(self, stage: str) -> int:
        answer = await self.api.call(
            "POST", f"{PATH}/stage?instance=i-1&stage={stage}", token=TOKEN
        )
        return answer.status_code


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Of a bake whose provider has answered that its machine is i-1."""
    async with api_world(tmp_path, elastic=True) as api:
        grant = JoinGrant(
            kind=JoinKind.LAUNCH,
            pool="default",
            id="bake-1",
            agents=1,
            expires=api.clock.now() + timedelta(hours=1),
        )
        monkeypatch.setattr(
            api.services.join_tokens, "find", lambda pools, token: grant if token == TOKEN else None
        )
        api.services.foreseer.registry.watch(  # type: ignore[attr-defined]
            lambda *_: None, Machines({"bake-1": frozenset({"i-1"})}), lambda _: False
        )
        yield World(api)


async def test_its_machine_fetches_all_until_it_has_everything(world: World) -> None:
    assert await world.refusals() == ["", "", ""]
    assert await world.refusals() == ["", "", ""], "after a reboot"
    assert await world.says("baked") == 200
    spent = "'i-1' is set up for its image no more: the token of its launch is spent"
    assert await world.refusals() == [spent] * 3
    assert await world.says("baked") == 200, "it has not heard the answer, and asks again"


@pytest.mark.parametrize("state", [BakeState.CLEANING, BakeState.FAILED, BakeState.READY])
async def test_after_a_bake_it_is_spent(world: World, state: BakeState) -> None:
    world.becomes(state)
    assert all("is spent" in reason for reason in await world.refusals())


async def test_a_token_of_a_bake_that_nobody_knows_is_spent(world: World) -> None:
    world.bakery.made.clear()
    assert all("is spent" in reason for reason in await world.refusals())


async def test_a_stolen_one_is_of_no_use_to_another_machine(world: World) -> None:
    for reason in await world.refusals("i-2"):
        assert reason == "'i-2' is no machine of launch bake-1, which the join token is for"


async def test_an_expired_one_is_of_no_use(world: World) -> None:
    world.api.clock.advance(3600)
    assert all("expired at" in reason for reason in await world.refusals())


async def test_a_foreign_one_is_of_no_use(world: World) -> None:
    for reason in await world.refusals(token="of-another-master"):
        assert "not the token of a launch of this master" in reason


@pytest.mark.parametrize("machine", ["i-1", "i-2"])
async def test_nobody_becomes_an_agent_with_it(world: World, machine: str) -> None:
    body: dict[str, Any] = {
        "agentId": machine,
        "instanceId": machine,
        "protocol": PROTOCOL_VERSION,
        "version": "0.1.0",
    }
    own = {CREDENTIAL_HEADER: "c" * 43}
    answer = await world.api.call("POST", "/api/v1/windlass/join", body, token=TOKEN, headers=own)
    assert answer.status_code == 403
    assert answer.json()["message"] == f"'{machine}' is the machine of an image: it runs no agent"
