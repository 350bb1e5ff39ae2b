"""What a plan tells a pool of the machines that come, and of those that could."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from master.core.reasons import Reason
from provisioner.capacity.memory import CapacityMemory
from provisioner.planning.plan_types import Launch, MachinePhase, PoolInput
from provisioner.types import BootingNode, LaunchableNode, Offer, OfferKey, PoolAvailability


def availability(
    pool: PoolInput,
    reasons: Mapping[str, Reason],
    launches: Iterable[Launch],
    could: Sequence[Offer],
    still: Callable[[Offer], int],
    memory: CapacityMemory,
    now: float,
) -> PoolAvailability:
    """Machines bought in this very plan count among those that could come. `still`: how many more of an offer."""
    offers = {id(machine.offer): machine.offer for machine in pool.machines}
    facts = {number: offer.facts for number, offer in offers.items()}
    booting = tuple(
        BootingNode(
            instance_id=m.name,
            slots=m.offer.slots,
            ready_in_s=m.ready_in_s,
            ends_at=m.ends_at,
            facts=facts[id(m.offer)],
        )
        for m in pool.machines
        if m.phase is MachinePhase.COMING
    )
    bought: dict[OfferKey, tuple[Offer, int]] = {}
    for launch in launches:
        known = bought.get(launch.offer.key, (launch.offer, 0))
        bought[launch.offer.key] = (launch.offer, known[1] + launch.count)
    counts = [*bought.values(), *((offer, still(offer)) for offer in could)]
    return PoolAvailability(
        pool=pool.settings.pool,
        booting=booting,
        launchable=tuple(_launchable(counts, memory, now)),
        reasons=reasons,
        ends_at={m.name: m.ends_at for m in pool.machines if m.ends_at is not None},
        facts={m.name: facts[id(m.offer)] for m in pool.machines if not m.asking},
    )


def _launchable(
    counts: Iterable[tuple[Offer, int]], memory: CapacityMemory, now: float
) -> Iterator[LaunchableNode]:
    for offer, count in counts:
        if count > 0:
            ready_in_s = memory.boot_p50_s(offer)
            yield LaunchableNode(
                slots=offer.slots,
                count=count,
                ready_in_s=ready_in_s,
                ends_at=offer.end_of(now + ready_in_s),
                facts=offer.facts,
            )
