"""Machines that a pool gives up although work runs there: packing, replacement by cheaper ones, drift. Pure.

Only while nothing waits, and within the pool's `Disruption`. Work leaves a machine when all of it fits elsewhere on
machines that are up: on busy ones (packing), or on one idle machine that is cheaper or not drifted. If only a new
machine would do, that is launched first, and the work moves when it is up and still idle. Each move makes what the pool
pays less, or the drifted machines fewer, so moves cannot undo each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from provisioner.capacity.open_offers import OpenOffers
from provisioner.money.expected_cost import usd_per_hour
from provisioner.planning.plan_types import (
    Launch,
    Machine,
    MachinePhase,
    Move,
    PoolInput,
    Termination,
)
from provisioner.planning.scale_down.hosts import PlannedHost, hosts_of, largest_first, targets_for
from provisioner.planning.scale_down.move_value import (
    is_cheaper,
    left_s,
    pays,
    redone_usd,
    stands_in_for,
)
from provisioner.planning.scale_up.limits import PoolLimits
from provisioner.types import MachineFacts, Market, Offer

USED_BELOW = 0.7
"""Machines with a larger share of their slots in use are not packed."""
MOST_CANDIDATES = 32
"""Machines that one plan looks at for each purpose, the dearest first."""
TRY_AGAIN_S = 3600.0
"""So long after a replacement was launched for a machine no other is."""
DRIFTED = "its image or settings have changed since its launch"


class Consolidation:
    """What one plan disrupts in one pool. Lives for that plan; asked after everything else is decided."""

    def __init__(
        self,
        pool: PoolInput,
        open_offers: OpenOffers,
        limits: PoolLimits,
        facts_of: Callable[[Offer], MachineFacts],
        now: float,
    ) -> None:
        self.moves: list[Move] = []
        self.launches: list[Launch] = []
        self.terminations: list[Termination] = []
        self._pool = pool
        self._rules = pool.settings.disruption
        self._open_offers = open_offers
        self._limits = limits
        self._facts_of = facts_of
        self._now = now
        present = [m for m in pool.machines if m.phase is not MachinePhase.OUT]
        names = {m.name for m in present}
        self._replaced = {
            name
            for machine in present
            if (name := stands_in_for(machine)) in names and not self._has_drifted(machine)
        }
        """A machine for these is on its way, or there. One that has drifted meanwhile gets no work."""
        self._spare = len(present) - len(self._replaced) - pool.settings.min_instances
        self._usd_per_hour = sum(m.offer.usd_per_hour for m in present)
        under_way = sum(m.moving for m in pool.machines) + len(self._replaced)
        self._left = self._rules.most(len(pool.machines)) - under_way

    def run(self, ending: Collection[str]) -> None:
        """`ending`: machines that this plan ends anyway."""
        demand = self._pool.demand
        if demand.has_waiting or demand.gangs or not self._rules.is_open(self._now):
            return
        hosts = list(hosts_of(self._pool, ending, self._facts_of))
        self._spare -= len(ending)
        if self._rules.drift:
            self._drift(hosts)
        if self._rules.packing:
            self._pack(hosts)
        if self._rules.replacement:
            self._replace(hosts)

    def _pack(self, hosts: Sequence[PlannedHost]) -> None:
        for host in self._candidates(hosts, lambda h: h.used < USED_BELOW * h.node.slots):
            usd = host.offer.usd_per_hour
            if self._spare <= 0 or not self._is_worth(host, usd):
                continue
            others = [h for h in hosts if h is not host and h.runs and not self._is_drifted(h)]
            targets = targets_for(host.runs, others)
            if targets is not None:
                names = ", ".join(sorted({target.name for target in targets}))
                self._spare -= 1
                self._move(
                    host, targets, f"packing: its work fits on {names}, {usd:.2f} USD/h less"
                )

    def _replace(self, hosts: Sequence[PlannedHost]) -> None:
        idle = [h for h in hosts if h.is_idle and not self._is_drifted(h)]
        idle.sort(key=lambda h: (self._usd(h.offer), h.name))
        for host in self._candidates(hosts, lambda h: True):
            mine = self._usd(host.offer)
            free = [h for h in idle if not h.gets and not h.leaves]
            if not self._replace_by_idle(host, mine, free):
                self._launch_cheaper(host, mine)

    def _replace_by_idle(self, host: PlannedHost, mine: float, idle: Iterable[PlannedHost]) -> bool:
        if self._spare <= 0 and host.name not in self._replaced:
            return False
        for other in idle:
            usd = self._usd(other.offer)
            if not is_cheaper(other.offer, usd, mine) or not self._is_worth(host, mine - usd):
                continue
            targets = targets_for(host.runs, [other])
            if targets is not None:
                self._spare -= host.name not in self._replaced
                why = f"replacement: {other.name} costs {mine - usd:.2f} USD/h less"
                self._move(host, targets, why)
                return True
        return False

    def _launch_cheaper(self, host: PlannedHost, mine: float) -> None:
        offer = self._best_offer(host)
        if offer is None:
            return
        usd = self._usd(offer)
        boot_usd = offer.usd_per_hour * self._open_offers.memory.boot_p50_s(offer) / 3600.0
        if is_cheaper(offer, usd, mine) and self._is_worth(host, mine - usd, less_usd=boot_usd):
            self._launch_for(host, offer)

    def _drift(self, hosts: Sequence[PlannedHost]) -> None:
        for host in hosts:
            if self._left > 0 and host.is_idle and self._is_drifted(host):
                self._end_drifted(host)
        for host in self._candidates(hosts, self._is_drifted):
            others = [h for h in hosts if h is not host and not self._is_drifted(h)]
            targets = targets_for(host.runs, others)
            if targets is None:
                self._launch_for(host, self._best_offer(host))
            elif self._spare > 0 or host.name in self._replaced:
                self._spare -= host.name not in self._replaced
                self._move(host, targets, f"drift: {DRIFTED}")

    def _end_drifted(self, host: PlannedHost) -> None:
        """One without work. For the minimum another comes first."""
        if self._spare <= 0 and host.name not in self._replaced:
            self._launch_for(host, self._best_offer(host))
        elif self._spare > 0:
            self._spare -= 1
            self._left -= 1
            host.leaves = True
            pool = self._pool.settings.pool
            self.terminations.append(
                Termination(pool=pool, instance_id=host.name, why=f"drift: {DRIFTED}")
            )

    def _is_drifted(self, host: PlannedHost) -> bool:
        return self._has_drifted(host.machine)

    def _has_drifted(self, machine: Machine) -> bool:
        mine = machine.fingerprint
        current = self._pool.fingerprints.get(machine.offer.key, "")
        return bool(mine and current) and mine != current

    def _candidates(
        self, hosts: Iterable[PlannedHost], wanted: Callable[[PlannedHost], bool]
    ) -> Iterator[PlannedHost]:
        """The dearest for what they do first; none beyond what may be disrupted at once."""
        able = [h for h in hosts if h.runs and wanted(h) and h.is_movable(self._now)]
        able.sort(key=lambda h: (-h.offer.usd_per_hour / max(1, h.used), h.name))
        for host in able[:MOST_CANDIDATES]:
            mine = host.name in self._replaced  # it is counted already
            if not host.leaves and not host.gets and (self._left > 0 or mine):
                yield host

    def _is_worth(
        self, host: PlannedHost, saved_usd_per_hour: float, less_usd: float = 0.0
    ) -> bool:
        hours = left_s(host.runs, self._now) / 3600.0
        lost = redone_usd(host.runs, host.node.slots, host.offer.usd_per_hour, self._now)
        return pays(saved_usd_per_hour * hours - less_usd, lost, self._usd_per_hour * hours)

    def _usd(self, offer: Offer) -> float:
        """An hour of work on a machine that is up, with what interruptions lose."""
        return usd_per_hour(offer, run_s=3600.0, boot_s=0.0, slot_usd=0.0, now=self._now)

    def _best_offer(self, host: PlannedHost) -> Offer | None:
        """The cheapest that may be bought now and holds all of its work; for each machine once in a while."""
        tried_s = host.machine.replacement_tried_s
        if host.name in self._replaced or (tried_s is not None and tried_s < TRY_AGAIN_S):
            return None
        return min(
            (o for o in self._open_offers.only_open(self._pool.offers) if self._holds(o, host)),
            key=lambda offer: (self._usd(offer), offer.boot_s, offer.key),
            default=None,
        )

    def _holds(self, offer: Offer, host: PlannedHost) -> bool:
        return (
            offer.slots >= (host.used or host.node.slots)
            and offer.end_of(self._now) is None
            and offer.key.market is not Market.QUEUED
            and not offer.key.stopped
            and all(run.request.requires.are_met_by(self._facts_of(offer)) for run in host.runs)
            and self._limits.affordable(offer) > 0
        )

    def _move(self, host: PlannedHost, targets: Sequence[PlannedHost], why: str) -> None:
        for run, target in zip(largest_first(host.runs), targets, strict=True):
            target.give(run)
            target.gets = True
        self._left -= host.name not in self._replaced
        host.leaves = True
        self.moves.append(
            Move(
                instance_id=host.name,
                requests=frozenset(run.request.id for run in host.runs),
                why=why,
            )
        )

    def _launch_for(self, host: PlannedHost, offer: Offer | None) -> None:
        if offer is None or self._left <= 0:
            return
        self._left -= 1
        self._replaced.add(host.name)
        host.leaves = True
        self._limits.bought(offer, 1)
        self._open_offers.bought(offer)
        pool = self._pool.settings.pool
        self.launches.append(Launch(pool=pool, offer=offer, claims=((),), replaces=host.name))
