"""What elastic pools may buy, over REST, and trying again what was refused."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.api_world import SPOT, ApiWorld, api_world

OFFERS = "/api/v1/windlass/fleet/offers"


async def test_every_offer_says_what_it_is_and_why_it_is_refused(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        spot, on_demand = (await world.ok("GET", OFFERS))["offers"]
        assert (spot["name"], spot["pool"], spot["slots"]) == (SPOT, "default", 8)
        assert (spot["gpuModel"], spot["usdPerHour"], spot["bootS"]) == ("H200", 2.0, 42.0)
        assert (spot["state"], spot["reason"]) == ("refused", "no capacity")
        given = {part: value for part, value in spot["scope"].items() if value is not None}
        assert given == {"provider": "site", "zone": "east-1", "market": "spot"}
        assert spot["nextTryAt"].endswith("Z")
        assert (on_demand["usdPerHour"], on_demand["state"]) == (None, "open")
        assert (on_demand["scope"], on_demand["nextTryAt"]) == (None, None)


async def test_a_refused_offer_is_tried_again(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        (offer,) = (await world.ok("POST", f"{OFFERS}/retry", {"offer": SPOT}))["offers"]
        assert (offer["name"], offer["state"], offer["reason"]) == (SPOT, "open", "")


async def test_only_administrators_try_again(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login("determined")
        await world.refused(403, "POST", f"{OFFERS}/retry", {"offer": SPOT})
        spot, _ = (await world.ok("GET", OFFERS))["offers"]
        assert spot["state"] == "refused"


async def test_an_unknown_offer_is_answered_with_the_nearest(tmp_path: Path) -> None:
    async with api_world(tmp_path, elastic=True) as world:
        await world.login()
        wrong = {"offer": "site/east/east-1/gpu-8/spo"}
        message = await world.refused(404, "POST", f"{OFFERS}/retry", wrong)
        assert message.startswith(f"offer '{wrong['offer']}' not found; nearest: {SPOT}")


async def test_a_cluster_without_elastic_pools_has_no_offers(world: ApiWorld) -> None:
    assert (await world.ok("GET", OFFERS))["offers"] == []
    message = await world.refused(404, "POST", f"{OFFERS}/retry", {"offer": SPOT})
    assert "no elastic pool" in message
