"""The simulated provider in the contract suite."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from provisioner.capacity.refusals import BlockKind
from provisioner.providers.base import LimitedCall
from provisioner.providers.errors import Refusal
from provisioner.types import Market, Offer
from tests.contract.providers.base import POOL, QUOTA, ProviderCase
from tests.fakes.fleet_world import CLUSTER, an_offer
from tests.fakes.simulated_provider import Faults, SimulatedProvider
from windlass.base.clock import SystemClock
from windlass.base.errors import CapacityError

OFFERS = (
    an_offer(2, 3.0, can_stop=True, disk_usd_per_hour=0.01),
    an_offer(2, 3.5, zone="b", market=Market.SPOT),
)


class SimulatedCase(ProviderCase):
    provider: SimulatedProvider

    def __init__(self) -> None:
        self.provider = SimulatedProvider(
            offers={POOL: OFFERS},
            clock=SystemClock(),
            cluster_id=CLUSTER,
            list_every_s=0.1,
            list_grace_s=0.5,
        )

    async def restart(self) -> None:
        """Its machines are in memory: the same object, closed and opened."""
        await self.provider.close()
        await self.provider.open()

    def reconfigure(self) -> None:
        self.provider.settings = "v2"

    def kill(self, instance_id: str) -> None:
        self.provider.kill(instance_id)

    def mend(self) -> None:
        self.provider.faults = Faults()

    def refuse(self, offer: Offer, kind: BlockKind) -> None:
        quota, number = QUOTA if kind is BlockKind.QUOTA else ("", None)
        error = Refusal(kind, f"refused: {kind}", quota=quota, number=number)
        self.provider.faults.refuse[offer.key] = error

    def stock(self, offer: Offer, machines: int) -> None:
        self.provider.faults.stock[offer.key] = machines

    def queue(self, offer: Offer) -> None:
        self.provider.faults.queue_s[offer.key] = 3600.0

    def deliver(self) -> None:
        queue = self.provider.queue
        queue.update({handle: (intent, 0.0) for handle, (intent, _) in queue.items()})
        self.provider.deliver_due()

    def lose_replies(self, times: int) -> None:
        self.provider.faults.lost_replies = times

    def drop_requests(self, times: int) -> None:
        self.provider.faults.unanswered = times

    def throttle(self, api: LimitedCall, times: int) -> None:
        self.provider.faults.throttle[api] = times

    def fail_lists(self) -> None:
        self.provider.faults.list_fails = True

    def hide(self, offer: Offer) -> None:
        self.provider.faults.zones_unseen.add(offer.key.zone)

    def hide_young(self, seconds: float) -> None:
        self.provider.faults.hide_young_s = seconds

    def fail_terminates(self, times: int) -> None:
        self.provider.faults.terminate_failures = times

    def hang(self, api: LimitedCall) -> None:
        self.provider.faults.hang.add(api)

    def no_starts(self, offer: Offer) -> None:
        key = replace(offer.key, stopped=False)
        self.provider.faults.no_start[key] = CapacityError("none left")

    def take_back(self, instance_id: str, seconds: float) -> None:
        now = SystemClock().now().timestamp()
        self.provider.instances[instance_id].leaves_at = now + seconds


@asynccontextmanager
async def simulated(tmp_path: Path) -> AsyncIterator[SimulatedCase]:
    case = SimulatedCase()
    await case.provider.open()
    try:
        yield case
    finally:
        case.provider.drop_timers()
        await case.provider.close()
