"""Asking for bakes: what the machine of an image is bought as, and whether that may be."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from master.core.actor import Actor
from provisioner.fleet.instances import BootNote
from provisioner.fleet.intents import launch_in_general
from provisioner.fleet.state import BakeAsked, BakeCancelled, BakeInstalled, FleetState, Said
from provisioner.images.records import BakeRecord, BakeState
from provisioner.planning.plan_types import PlanInput
from provisioner.planning.scale_down.idle_time import IdleTimes
from provisioner.planning.scale_up.limits import PoolLimits, cluster_purse
from provisioner.planning.scale_up.remaining_quota import QuotasLeft
from provisioner.providers.base import Provider
from provisioner.providers.images import BAKE, MakesImages, image_name
from provisioner.types import Offer
from windlass.base.clock import Clock
from windlass.base.errors import Conflict, InvalidArgument, NotFound
from windlass.base.ids import Ids

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bakery:
    providers: Mapping[str, Provider]
    state: Callable[[], FleetState]
    plan_input: Callable[[], PlanInput]
    boots: Callable[[], Mapping[str, BootNote]]
    say: Callable[[Said], Awaitable[None]]
    """Returns once it is committed."""
    clock: Clock
    ids: Ids

    def all(self) -> Sequence[BakeRecord]:
        """The newest first, each with what it waits for."""
        found = sorted(self.state().bakes.values(), key=lambda bake: -bake.created_at)
        return [self._with_stage(bake) for bake in found]

    async def begin(self, pool: str, instance_type: str = "", *, by: Actor) -> BakeRecord:
        """Raises InvalidArgument, Conflict for what may pass, and what the provider refuses."""
        under_way = self._under_way(pool)
        if under_way is not None:
            raise Conflict(
                f"pool {pool} is being baked already, since {under_way.by} asked for it: wait, or end that with "
                f"det fleet bake {pool} --cancel"
            )
        maker, offer = self._bought(pool, instance_type)
        bake_id = f"{BAKE}{self.ids.uuid()}"
        call = launch_in_general(self.state().cluster_id, pool, offer)
        self.providers[offer.key.provider].freeze(replace(call, intent_id=bake_id))
        bake = BakeRecord(
            id=bake_id,
            pool=pool,
            offer=offer,
            name=image_name(pool, bake_id),
            image_key=maker.image_key,
            by=str(by),
            created_at=self.clock.now().timestamp(),
        )
        await self.say(BakeAsked(bake=bake))
        if bake_id not in self.state().bakes:
            raise Conflict(f"pool {pool} is being baked already")
        log.info("bake %s of pool %s: asked by %s", bake_id, pool, by)
        return self.find(bake_id)

    async def cancel(self, bake_id: str, *, by: Actor) -> BakeRecord:
        """What was made is removed. One that is over stays as it is."""
        self.find(bake_id)
        await self.say(BakeCancelled(bake_id=bake_id, why=f"cancelled by {by}"))
        log.info("bake %s: cancelled by %s", bake_id, by)
        return self.find(bake_id)

    async def note_installed(self, instance_id: str) -> None:
        """A machine says that it has all."""
        await self.say(BakeInstalled(instance_id=instance_id))

    def is_served(self, bake_id: str) -> bool:
        """Its machine is still being set up: one that has everything, or of a bake that failed, is given no more."""
        bake = self.state().bakes.get(bake_id)
        return bake is not None and bake.state is BakeState.INSTALLING

    def find(self, bake_id: str) -> BakeRecord:
        found = self.state().bakes.get(bake_id)
        if found is None:
            raise NotFound("bake", bake_id, "; see: det fleet bake --list")
        return self._with_stage(found)

    def _with_stage(self, bake: BakeRecord) -> BakeRecord:
        boot = self.boots().get(bake.instance_id)
        if bake.state is not BakeState.INSTALLING:
            return bake
        if boot is not None:
            return replace(bake, note=boot.words)
        return replace(bake, note="the machine boots" if bake.instance_id else "being launched")

    def _under_way(self, pool: str) -> BakeRecord | None:
        bakes = self.state().bakes.values()
        return next((x for x in bakes if x.pool == pool and not x.is_over), None)

    def _bought(self, pool: str, instance_type: str) -> tuple[MakesImages, Offer]:
        makers = {n: p for n, p in self.providers.items() if isinstance(p, MakesImages)}
        offers = [offer for maker in makers.values() for offer in maker.bake_offers(pool)]
        if not offers:
            raise Conflict(self._why_none(pool))
        wanted = [x for x in offers if instance_type in ("", x.key.instance_type)]
        kinds = sorted({(x.key.provider, x.key.instance_type) for x in wanted or offers})
        named = ", ".join(f"{type_} of {provider}" for provider, type_ in kinds)
        if not wanted:
            raise InvalidArgument(f"pool {pool} buys no {instance_type}: it buys {named}")
        if len(kinds) > 1:
            raise InvalidArgument(f"pool {pool} buys {named}: say of which one, with --type")
        offer = self._open(wanted)
        self._check_limits(pool, offer)
        return makers[offer.key.provider], offer

    def _why_none(self, pool: str) -> str:
        state = self.state()
        for name, provider in self.providers.items():
            if isinstance(provider, MakesImages) and provider.offers(pool) is None:
                unseen = state.unseen.items()
                why = next((x.said for scope, x in unseen if scope.provider == name), "")
                return f"it is not known yet what {name} sells" + (f": {why}" if why else "")
        return (
            f"pool {pool} buys no machines of AWS or Google Cloud: only of these images can be made"
        )

    def _open(self, offers: Sequence[Offer]) -> Offer:
        """The cheapest that is not refused now. Raises Conflict."""
        memory, now = self.state().memory, self.clock.now().timestamp()
        refused = ""
        for offer in sorted(offers, key=lambda offer: (offer.usd_per_hour, offer.key)):
            block = memory.of(offer)
            if block is None or not block.is_shut(now):
                return offer
            refused = refused or block.message or block.kind.value
        raise Conflict(f"no machine can be bought for it now: {refused}; see det fleet offers")

    def _check_limits(self, pool: str, offer: Offer) -> None:
        plan = self.plan_input()
        for each in plan.pools:
            if each.settings.pool == pool:
                times = IdleTimes(each, plan.memory)
                limits = PoolLimits(each, plan, cluster_purse(plan), times, QuotasLeft(plan))
                reason = limits.reason(offer, 1)
                if reason is not None:
                    raise Conflict(reason.text)
