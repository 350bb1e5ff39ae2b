"""Every row of errors that providers answer: what it closes and for how long, and what the user of a gang reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from math import inf

import pytest

from master.core.reasons import Reason, ReasonKind
from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import LimitedCall
from provisioner.providers.errors import Refusal
from provisioner.types import Market, Offer, PoolSettings
from tests.fakes.fleet_world import FleetWorld, a_gang, an_offer
from tests.fakes.virtual_time import LoopClock, run
from windlass.base.errors import ProviderAuthError, ProviderError


def an_offer_in(region: str = "r1", zone: str = "a", name: str = "g4", **more: object) -> Offer:
    key = {k: more.pop(k) for k in ("market", "reservation", "placement") if k in more}
    offer = an_offer(4, 4.0, zone=zone, name=name, boot_s=10.0, **more)
    return replace(offer, key=replace(offer.key, region=region, **key))  # type: ignore[arg-type]


ASKED = an_offer_in(family="g", reservation="res", placement="near")
"""What is refused. The others differ from it in one thing each."""
OTHERS = {
    "zone": replace(ASKED, key=replace(ASKED.key, zone="b")),
    "market": replace(ASKED, key=replace(ASKED.key, market=Market.SPOT)),
    "type": replace(ASKED, key=replace(ASKED.key, instance_type="g8")),
    "family": replace(ASKED, key=replace(ASKED.key, instance_type="p4"), family="p"),
    "region": replace(ASKED, key=replace(ASKED.key, region="r2")),
    "reservation": replace(ASKED, key=replace(ASKED.key, reservation="")),
    "placement": replace(ASKED, key=replace(ASKED.key, placement="")),
    "provider": replace(ASKED, key=replace(ASKED.key, provider="other")),
}


@dataclass(frozen=True)
class Row:
    """One row of the table of error classes."""

    kind: BlockKind
    says: ReasonKind
    words: str
    first_s: float
    """From the refusal until it is tried again."""
    second_s: float
    closes: frozenset[str]
    """Which of `OTHERS` are closed with it."""


LONG_S = 3600.0
"""Longer waits are not waited for."""
NEARBY = frozenset({"reservation", "placement", "zone", "market", "type", "family"})
ROWS = (
    Row(BlockKind.CAPACITY, ReasonKind.NO_CAPACITY, "g4 in a: said", 120, 180, frozenset()),
    Row(
        BlockKind.UNSUPPORTED,
        ReasonKind.NO_CAPACITY,
        "g4 in a: said",
        86_400,
        86_400,
        frozenset({"market", "reservation", "placement"}),
    ),
    Row(
        BlockKind.RESERVATION,
        ReasonKind.NO_CAPACITY,
        "g4 in a: said",
        60,
        120,
        NEARBY - {"reservation"} | {"region"},
    ),
    Row(
        BlockKind.QUOTA,
        ReasonKind.QUOTA,
        "quota vCPUs (limit 8) is used up: said",
        600,
        900,
        NEARBY - {"family", "market"},
    ),
    Row(
        BlockKind.NETWORK,
        ReasonKind.NO_CAPACITY,
        "g4 in a: said",
        600,
        600,
        NEARBY - {"zone"},
    ),
    Row(
        BlockKind.PLACEMENT,
        ReasonKind.NO_CAPACITY,
        "g4 in a: said",
        600,
        600,
        NEARBY - {"placement"} | {"region"},
    ),
    Row(
        BlockKind.CONFIG,
        ReasonKind.MISCONFIGURED,
        "cloud refuses the pool's configuration: said; tried again when",
        inf,
        inf,
        NEARBY | {"region"},
    ),
    Row(
        BlockKind.AUTH,
        ReasonKind.CREDENTIALS,
        "cloud does not accept the cluster's credentials: said; retrying at",
        60,
        60,
        NEARBY | {"region"},
    ),
    Row(BlockKind.UNKNOWN, ReasonKind.NO_CAPACITY, "g4 in a: said", 120, 120, frozenset()),
)


def in_world(
    story: Callable[[FleetWorld], Awaitable[None]], offers: tuple[Offer, ...] = (ASKED,)
) -> None:
    async def main() -> None:
        world = FleetWorld(LoopClock(), offers, settings=PoolSettings(pool="gpu", max_instances=10))
        await world.start()
        try:
            await story(world)
        finally:
            await world.stop()

    run(main(), limit_s=1_000_000)


async def reason_of(world: FleetWorld, kind: ReasonKind) -> Reason:
    """As soon as it is that: within one loop of the answer."""
    await world.until(lambda: (r := world.host.reasons.get("x")) and r.kind is kind, limit_s=5)
    return world.host.reasons["x"]


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind.value)
def test_a_refusal_is_told_within_one_loop_and_tried_again_in_time(row: Row) -> None:
    quota = {"quota": "vCPUs", "number": 8.0} if row.kind is BlockKind.QUOTA else {}

    async def story(world: FleetWorld) -> None:
        world.cloud.faults.refuse[ASKED.key] = Refusal(row.kind, "said", **quota)  # type: ignore[arg-type]
        await world.want(a_gang("x"))
        reason = await reason_of(world, row.says)
        assert row.words in reason.text
        refused_at = world.clock.now().timestamp()
        assert world.cloud.calls.count("launch") == 1
        if row.first_s == inf:
            assert reason.retry_at is None
        else:
            assert reason.retry_at == pytest.approx(refused_at + row.first_s, abs=6)
        if row.first_s > LONG_S:
            await asyncio.sleep(LONG_S)
            assert world.cloud.calls.count("launch") == 1
            return
        await asyncio.sleep(row.first_s - 10)
        assert world.cloud.calls.count("launch") == 1
        await asyncio.sleep(20)
        assert world.cloud.calls.count("launch") == 2
        await asyncio.sleep(row.second_s - 20)
        assert world.cloud.calls.count("launch") == 2
        await asyncio.sleep(30)
        assert world.cloud.calls.count("launch") == 3
        world.cloud.faults.refuse.clear()
        await world.until(lambda: "x" in world.host.placed, limit_s=5_000)

    in_world(story)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.kind.value)
@pytest.mark.parametrize("other", OTHERS)
def test_a_refusal_closes_what_it_is_true_for_and_nothing_else(row: Row, other: str) -> None:
    offer = replace(OTHERS[other], usd_per_hour=5.0)

    async def main() -> None:
        sold = [ASKED, offer] if other != "provider" else [ASKED]
        world = FleetWorld(LoopClock(), sold, settings=PoolSettings(pool="gpu", max_instances=10))
        more = world.add_provider(offer) if other == "provider" else None
        world.cloud.faults.refuse[ASKED.key] = Refusal(row.kind, "said")
        await world.start()
        await world.want(a_gang("x"))
        try:
            await world.until(lambda: "launch" in world.cloud.calls, limit_s=10)
            await asyncio.sleep(30)
            placed = "x" in world.host.placed
            assert placed is (other not in row.closes)
        finally:
            await world.stop()
            if more is not None:
                more.drop_timers()

    run(main(), limit_s=10_000)


def test_throttling_is_told_and_blocks_no_offer() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.throttle = {LimitedCall.LAUNCH: 4}
        await world.want(a_gang("x"))
        reason = await reason_of(world, ReasonKind.THROTTLED)
        assert "cloud is throttling calls: RequestLimitExceeded" in reason.text
        assert "launching 1 x g4 in a" in reason.text
        assert not world.provisioner.blocked_offers()
        await world.until(lambda: "x" in world.host.placed, limit_s=120)
        assert len(world.cloud.instances) == 1

    in_world(story)


@pytest.mark.parametrize(
    "error", [Refusal(BlockKind.TRANSIENT, "InternalError"), OSError("no route"), TimeoutError()]
)
def test_trouble_of_the_provider_is_told_and_the_same_call_made_again(error: Exception) -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.refuse[ASKED.key] = error
        await world.want(a_gang("x"))
        reason = await reason_of(world, ReasonKind.UNREACHABLE)
        assert f"cloud cannot be reached or has failed: {error or 'no answer'}" in reason.text
        assert reason.retry_at is None or reason.retry_at > world.clock.now().timestamp() - 2
        world.cloud.faults.refuse.clear()
        await world.until(lambda: "x" in world.host.placed, limit_s=120)
        assert len(world.cloud.instances) == 1
        assert not world.provisioner.blocked_offers()

    in_world(story)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ProviderAuthError("ExpiredToken"), ReasonKind.CREDENTIALS, "credentials: ExpiredToken"),
        (Refusal(BlockKind.THROTTLED, "slow"), ReasonKind.THROTTLED, "throttling calls: slow"),
        (Refusal(BlockKind.CONFIG, "no role"), ReasonKind.MISCONFIGURED, "no role"),
        (OSError("no route"), ReasonKind.UNREACHABLE, "cannot be reached or has failed: no route"),
        (ProviderError("odd"), ReasonKind.UNREACHABLE, "cannot be reached or has failed: odd"),
        (TimeoutError(), ReasonKind.UNREACHABLE, "no answer"),
    ],
)
@pytest.mark.parametrize("when", ["opened", "listed"])
def test_a_provider_that_cannot_be_seen_says_why(
    error: Exception, kind: ReasonKind, words: str, when: str
) -> None:
    async def main() -> None:
        world = FleetWorld(LoopClock(), [ASKED])
        if when == "opened":
            world.cloud.faults.open_fails = error
        else:
            world.cloud.faults.list_error = error
        await world.start()
        try:
            await world.want(a_gang("x"))
            reason = await reason_of(world, kind)
            assert reason.text.startswith("cloud ")
            assert words in reason.text
            world.cloud.faults = type(world.cloud.faults)()
            await world.until(lambda: "x" in world.host.placed, limit_s=200)
        finally:
            await world.stop()

    run(main(), limit_s=10_000)


def test_a_zone_that_does_not_answer_is_told() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.zones_unseen = {"a"}
        await asyncio.sleep(5)
        await world.want(a_gang("x"))
        reason = await reason_of(world, ReasonKind.UNREACHABLE)
        assert "zone a" in reason.text
        assert "no answer" in reason.text

    in_world(story)


def test_a_hanging_provider_is_told_when_its_call_is_given_up() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.hang = {"launch"}
        await world.want(a_gang("x"))
        await asyncio.sleep(25)
        assert world.host.reasons["x"].kind is ReasonKind.LAUNCHING
        await asyncio.sleep(8)
        reason = await reason_of(world, ReasonKind.UNREACHABLE)
        assert "no answer within 30 s" in reason.text

    in_world(story)


def test_what_waits_at_the_site_says_since_when_and_until_when() -> None:
    async def story(world: FleetWorld) -> None:
        world.cloud.faults.queue_s = {ASKED.key: 250.0}
        await world.want(a_gang("x"))
        reason = await reason_of(world, ReasonKind.QUEUED_AT_PROVIDER)
        assert reason.text.startswith("1 x g4 in a queued at cloud for ")
        assert "(Resources); expected to start at 2026-01-01 00:04 UTC" in reason.text
        assert reason.retry_at is not None

    in_world(story)


def test_several_refusals_of_several_kinds_are_all_named() -> None:
    other = an_offer(4, 5.0, provider="other", zone="z")

    async def main() -> None:
        world = FleetWorld(LoopClock(), [ASKED])
        more = world.add_provider(other)
        world.cloud.faults.refuse[ASKED.key] = Refusal(BlockKind.AUTH, "ExpiredToken")
        more.faults.refuse[other.key] = Refusal(BlockKind.QUOTA, "0 of 0", quota="GPUS", number=0)
        await world.start()
        try:
            await world.want(a_gang("x"))
            await asyncio.sleep(10)
            reason = world.host.reasons["x"]
            assert reason.kind is ReasonKind.NO_CAPACITY, "no single kind is true"
            assert "ExpiredToken" in reason.text
            assert "quota GPUS (limit 0)" in reason.text
        finally:
            await world.stop()
            more.drop_timers()

    run(main(), limit_s=10_000)
