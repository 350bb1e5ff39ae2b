"""Which machines without work are stopped instead of ended, and which stopped ones are ended. Pure.

A stopped machine costs its disk until work needs it again, and saves what its start is shorter than a boot: the price
of the machine for that time, and of whoever waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from provisioner.capacity.memory import CapacityMemory
from provisioner.money.expected_cost import WAIT_SHARE, slot_usd_of
from provisioner.money.prices import SECONDS_PER_HOUR, usd_for
from provisioner.planning.explain import offer_name
from provisioner.planning.plan_types import Launch, Machine, PoolInput, StoppedMachine, Termination
from provisioner.types import Offer, OfferKey, Quota

MOST_STOPS = 50
"""Then a machine is ended: a new one has a newer image."""
START_SHARE = 0.7
"""Of a boot, until starts of that kind were seen: image, driver and software are there, the hardware is not."""


@lru_cache(maxsize=1024)
def start_offer(offer: Offer, boot_s: float, stock: Quota | None = None) -> Offer:
    """What starts of stopped machines of `offer` are planned and remembered by, with `boot_s` for a boot of it.

    The same object for the same arguments: memory knows offers by identity.
    """
    return replace(
        offer,
        key=replace(offer.key, stopped=True),
        boot_s=START_SHARE * boot_s,
        starts_at=None,
        quota=stock,
    )


def start_of(offer: Offer, memory: CapacityMemory) -> Offer:
    """The same, without a limit."""
    return start_offer(offer, memory.boot_p50_s(offer))


def pays(offer: Offer, *, boot_s: float, start_s: float, slot_usd: float, gap_s: float) -> bool:
    """Whether stopping a machine for `gap_s` costs less than it saves. `slot_usd`: as in `expected_cost`."""
    saved_s = max(0.0, boot_s - start_s)
    waiting = WAIT_SHARE * slot_usd * offer.slots
    return usd_for(offer.disk_usd_per_hour, gap_s) < usd_for(offer.usd_per_hour + waiting, saved_s)


def expected_gap_s(prior_s: float, gaps_s: Sequence[float]) -> float:
    """How long a machine will probably be stopped: as its pool's were, the setting counting as one of them."""
    return (prior_s + sum(gaps_s)) / (1 + len(gaps_s))


class StopChoice:
    """Which idle machines of one pool are stopped within one plan."""

    def __init__(self, pool: PoolInput, memory: CapacityMemory) -> None:
        self._pool = pool
        self._memory = memory
        rules = pool.settings.stopped
        self.left = max(0, rules.max - len(pool.stopped) - sum(m.stopping for m in pool.machines))
        """How many more there may be."""
        self._slot_usd = slot_usd_of(pool.offers) if self.left else 0.0
        self._gap_s = expected_gap_s(rules.expected_gap.total_seconds(), pool.gaps_s)

    def take(self, machine: Machine) -> bool:
        """Whether this one is stopped; it counts from then on."""
        if self.left <= 0 or not self._is_worth(machine):
            return False
        self.left -= 1
        return True

    def _is_worth(self, machine: Machine) -> bool:
        offer = machine.offer
        return (
            offer.can_stop
            and machine.stops < MOST_STOPS
            and not is_drifted(self._pool, offer, machine.fingerprint)
            and self._gap_s <= self._pool.settings.stopped.max_age.total_seconds()
            and pays(
                offer,
                boot_s=self._memory.boot_p50_s(offer),
                start_s=self._memory.boot_p50_s(start_of(offer, self._memory)),
                slot_usd=self._slot_usd,
                gap_s=self._gap_s,
            )
        )


def is_drifted(pool: PoolInput, offer: Offer, fingerprint: str) -> bool:
    """A launch would be made of something else now (image, settings)."""
    now = pool.fingerprints.get(offer.key, "")
    return bool(fingerprint and now and fingerprint != now)


def stopped_ends(pool: PoolInput, spent: str | None) -> Iterator[Termination]:
    """Stopped machines that are of no use any more; those stopped longest first where there are too many."""
    rules = pool.settings.stopped
    above, max_age_s = len(pool.stopped) - rules.max, rules.max_age.total_seconds()
    for machine in sorted(pool.stopped, key=lambda m: (-m.stopped_s, m.name)):
        why = spent
        if is_drifted(pool, machine.offer, machine.fingerprint):
            why = "its image or settings have changed since its launch"
        elif machine.stopped_s >= max_age_s:
            why = f"stopped for {_hours(machine.stopped_s)} (max_age {_hours(max_age_s)})"
        elif above > 0:
            why = f"more stopped machines than stopped_agents.max ({rules.max})"
        if why is not None:
            above -= 1
            yield Termination(pool=pool.settings.pool, instance_id=machine.name, why=why)


def start_offers(
    pool: str, stopped: Sequence[StoppedMachine], asking: Sequence[Offer], memory: CapacityMemory
) -> tuple[Offer, ...]:
    """What may be started, one offer for each kind: as many as there are. `asking`: starts without an answer."""
    counts: dict[Offer, int] = {}
    for machine in stopped:
        if machine.may_start:
            counts[machine.offer] = counts.get(machine.offer, 0) + 1
    offers = []
    for offer, count in counts.items():
        # What is asked for is counted by whoever counts what quotas have left.
        left = count + sum(one.key == replace(offer.key, stopped=True) for one in asking)
        stock = Quota(
            name=f"stopped machines of pool {pool}: {offer_name(offer)}", left=left, each=1
        )
        offers.append(start_offer(offer, memory.boot_p50_s(offer), stock))
    return tuple(offers)


def with_starts(launches: Iterable[Launch], stopped: Sequence[StoppedMachine]) -> Iterator[Launch]:
    """Launches of such offers as starts of certain machines: of those stopped last, whose image is newest."""
    free: dict[OfferKey, list[str]] = {}
    for machine in sorted(stopped, key=lambda m: (-m.stopped_s, m.name)):
        if machine.may_start:
            free.setdefault(machine.offer.key, []).append(machine.name)
    for launch in launches:
        if launch.offer.key.stopped:
            there = free[replace(launch.offer.key, stopped=False)]
            launch = replace(launch, starts=tuple(there.pop() for _ in launch.claims))
        yield launch


def _hours(seconds: float) -> str:
    return f"{seconds / SECONDS_PER_HOUR:.1f} h"
