"""The stopped machines of a fleet, pool by pool, as planning sees them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from provisioner.fleet.instances import SWITCHED, InstanceRecord, InstanceState
from provisioner.fleet.state import FleetState, PoolSetup
from provisioner.fleet.stops import stop_may_come
from provisioner.planning.plan_types import StoppedMachine
from provisioner.planning.scale_down.stop_value import start_of, start_offers
from provisioner.types import Offer, PoolDemand


@dataclass(frozen=True, slots=True)
class StoppedPools:
    _state: FleetState
    _pools: Mapping[str, PoolSetup]
    _now: float
    _records: Mapping[str, Collection[InstanceRecord]]
    """By pool: those that are stopped, were so, or are being stopped."""
    _names: frozenset[str]
    """Of those that are stopped, or on the way there."""

    def without_stopped(self, demand: PoolDemand) -> PoolDemand:
        """Their agents may still be shown: they are no capacity, and nobody waits for a list that shows them."""
        if not self._names:
            return demand
        nodes = tuple(node for node in demand.nodes if node.agent_id not in self._names)
        return replace(demand, nodes=nodes)

    def stopped(self, pool: str) -> tuple[StoppedMachine, ...]:
        """Those whose offer is sold; others end by themselves."""
        return tuple(
            self._machine(record, offer)
            for record in self._records.get(pool, ())
            if record.state is InstanceState.STOPPED
            and record.id not in self._state.retired
            and (offer := self._pools[pool].offer(record.offer.key)) is not None
        )

    def start_offers(self, pool: str) -> tuple[Offer, ...]:
        memory = self._state.memory
        asking = [
            start_of(record.offer, memory)
            for record in self._records.get(pool, ())
            if record.state is InstanceState.STARTING
        ]
        return start_offers(pool, self.stopped(pool), asking, memory)

    def gaps_s(self, pool: str) -> tuple[float, ...]:
        """How long machines that exist were stopped until they were started."""
        return tuple(
            stop.until - stop.since
            for record in self._records.get(pool, ())
            for stop in record.stops
            if stop.until is not None
        )

    def _machine(self, record: InstanceRecord, offer: Offer) -> StoppedMachine:
        unseen = any(scope.covers(record.offer) for scope in self._state.unseen)
        late = stop_may_come(record, self._now, self._state.watching_since)
        return StoppedMachine(
            name=record.id,
            offer=offer,
            stopped_s=self._now - record.stops[-1].since,
            fingerprint=record.fingerprint,
            may_start=record.silent_since is not None and not unseen and not late,
        )


def stopped_pools(state: FleetState, pools: Mapping[str, PoolSetup], now: float) -> StoppedPools:
    records: dict[str, list[InstanceRecord]] = {}
    for record in state.instances.values():
        if record.pool in pools and (record.stops or record.state is InstanceState.STOPPING):
            records.setdefault(record.pool, []).append(record)
    names = (x.id for each in records.values() for x in each if x.state in SWITCHED)
    return StoppedPools(state, pools, now, records, frozenset(names))
