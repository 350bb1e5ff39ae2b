"""The words of the provisioner, as frozen data. Times are seconds since the epoch, money is USD per hour."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from master.core.deadlines import Cause
from master.core.machines import NO_FACTS as NO_FACTS
from master.core.machines import NO_REQUIREMENTS as NO_REQUIREMENTS
from master.core.machines import MachineFacts as MachineFacts
from master.core.machines import Market as Market
from master.core.machines import Requirements as Requirements
from master.core.reasons import Reason
from master.core.scheduler.types import Launchable
from provisioner.day_hours import DayHours, is_within
from provisioner.money.budgets import NO_BUDGET, Budget
from provisioner.planning.scale_down.disruption import NO_DISRUPTION, Disruption
from provisioner.planning.scale_down.stopped_agents import NO_STOPPED_AGENTS, StoppedAgents

AUX_PLACES = 100
"""Zero-slot tasks a node holds at once unless it says otherwise; the default of the agents."""


PAID_MARKETS = frozenset({Market.RESERVED, Market.CAPACITY_BLOCK})
"""Their machines cost nothing more when they run."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OfferKey:
    """Names one offer, and the provider that sells it."""

    provider: str
    """The name of the provider: one account, region or site. Several pools may buy from it."""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    market: Market = Market.ON_DEMAND
    reservation: str = ""
    """The id of what is reserved; empty for capacity that everybody may buy."""
    placement: str = ""
    """The group of machines that are close to each other; empty: anywhere in the zone."""
    stopped: bool = False
    """Stopped machines of ours of that kind: they are started, and nothing is bought."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The offers that an answer of a provider is true for: those that agree in every part that is given.

    A stock-out is about one type, zone and market; a quota about a family in a region; a wrong password about all
    that the provider sells.
    """

    provider: str
    region: str | None = None
    family: str | None = None
    instance_type: str | None = None
    zone: str | None = None
    market: Market | None = None
    reservation: str | None = None
    placement: str | None = None
    image: str | None = None
    stopped: bool | None = None
    """True: only starts of stopped machines."""

    @classmethod
    def of(cls, key: OfferKey) -> Scope:
        """That offer alone. Where nothing can be bought, nothing can be started; the other way round it may be."""
        return cls(
            provider=key.provider,
            region=key.region,
            instance_type=key.instance_type,
            zone=key.zone,
            market=key.market,
            reservation=key.reservation,
            placement=key.placement,
            stopped=key.stopped or None,
        )

    def covers(self, offer: Offer) -> bool:
        key = offer.key
        return (
            self.provider == key.provider
            and self.region in (None, key.region)
            and self.family in (None, offer.family)
            and self.instance_type in (None, key.instance_type)
            and self.zone in (None, key.zone)
            and self.market in (None, key.market)
            and self.reservation in (None, key.reservation)
            and self.placement in (None, key.placement)
            and self.image in (None, offer.image)
            and self.stopped in (None, key.stopped)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a provider still allows, as it says itself. Offers whose quota has the same name share it."""

    name: str
    left: float
    """In its own unit: vCPUs, GPUs, machines."""
    each: float
    """What one machine takes of it."""
    counted_at: float | None = None
    """Machines of ours that were asked for later are not in `left` yet. None: all that were answered are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Instance type x zone x market at a price."""

    key: OfferKey
    slots: int
    usd_per_hour: float
    boot_s: float
    """Expected seconds from the call to an agent that can take work; the planner prefers what it learned."""
    boot_deadline_s: float = 300.0
    """After this long without an agent, the instance is ended and counts against the offer."""
    ends_at: float | None = None
    """Its machines end then: a capacity block."""
    lifetime_s: float | None = None
    """Its machines end so long after they are ready: the walltime of a batch job."""
    queue_deadline_s: float | None = 300.0
    """After this long without a machine, a launch that was accepted is given up. None: it may take any time."""
    starts_at: float | None = None
    """When a launch made now would probably be delivered; None: at once."""
    family: str = ""
    """What quotas are counted by: a part of the instance type."""
    gpu_model: str = ""
    gpu_memory_mib: int | None = None
    """Of one GPU; None: unknown."""
    cpus: float | None = None
    """None: unknown."""
    memory_mib: int | None = None
    """None: unknown."""
    network_gbps: float | None = None
    """None: unknown."""
    image: str = ""
    """What its machines boot."""
    price_origin: str = ""
    """Where its price is from, and of when."""
    quota: Quota | None = None
    """None: the provider does not tell it beforehand."""
    least_billed_s: float = 0.0
    """A machine that lives shorter is paid for so long."""
    interruptions_per_hour: float = 0.0
    """How often the provider takes one of its machines back."""
    ends_together: bool = False
    """Machines of one launch end as a whole: the nodes of a batch job. Those that need not are launched one by one."""
    most_together: int | None = None
    """Machines of one launch at the most. None: any number."""
    can_stop: bool = False
    """Its machines can be stopped, and started again."""
    disk_usd_per_hour: float = 0.0
    """What a machine costs while it is stopped."""

    @property
    def facts(self) -> MachineFacts:
        """What one of its machines is for the requests that may run there."""
        key = self.key
        return MachineFacts(
            gpu_model=self.gpu_model,
            gpu_memory_mib=self.gpu_memory_mib,
            market=key.market,
            usd_per_hour=self.usd_per_hour,
            place=f"{key.provider}/{key.region}/{key.zone}",
            placement=key.placement,
        )

    def end_of(self, ready_at: float) -> float | None:
        """When a machine ends that is ready at that time; None: when we end it."""
        if self.lifetime_s is None:
            return self.ends_at
        end = ready_at + self.lifetime_s
        return end if self.ends_at is None else min(end, self.ends_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """One waiting request that needs capacity (the scheduler said so)."""

    request_id: str
    job_id: str
    pool: str
    slots: int
    single_agent: bool = False
    since: float = 0.0
    blocked_agents: frozenset[str] = frozenset()
    least_s: float = 0.0
    """A machine that ends sooner than so long after it is ready is of no use to it."""
    user: str = ""
    """Whose it is: budgets and costs are counted by."""
    requires: Requirements = NO_REQUIREMENTS
    run_time_s: float | None = None
    """How long it will probably run, as known or learned; None: nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A provider takes a machine back: a spot interruption, maintenance. Said by its API or on the machine itself."""

    at: float
    """When."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One agent as the scheduler sees it. For instances of ours `instance_id` equals the agent id."""

    agent_id: str
    pool: str
    slots: int
    free_slots: int
    instance_id: str | None = None
    busy: bool = False
    """Something is placed on it, zero-slot tasks included."""
    connected: bool = True
    schedulable: bool = True
    """False while an operator disabled or drains it: it keeps its work and is no capacity."""
    free_aux: int = AUX_PLACES
    """How many more zero-slot tasks it could hold."""
    ends_at: float | None = None
    facts: MachineFacts = NO_FACTS
    users: Mapping[str, int] = field(default_factory=dict)
    """Slots that the work of each user holds there."""
    notice: Notice | None = None
    """Its provider takes it back, as its agent or the provider said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDemand:
    """What one pool tells the provisioner: one snapshot, gangs and nodes of the same instant.

    `gangs` are those the scheduler could not place on the nodes' free slots.
    """

    pool: str
    gangs: tuple[Gang, ...] = ()
    nodes: tuple[Node, ...] = ()
    has_waiting: bool = False
    """Something waits for slots in this pool, demand for the provisioner or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAvailability:
    """What the provisioner tells a pool: what will or could come, and why its gangs wait."""

    pool: str
    booting: tuple[BootingNode, ...] = ()
    launchable: tuple[LaunchableNode, ...] = ()
    """Empty when limits, budget or blocked offers close the way."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """request id -> reason, for gangs that the planner knows."""
    ends_at: Mapping[str, float] = field(default_factory=dict)
    """instance id -> when it will end, where its offer says so."""
    end_cause: Cause = Cause.LIFETIME
    """Why they end then."""
    facts: Mapping[str, MachineFacts] = field(default_factory=dict)
    """instance id -> what it is."""
    leases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """request id -> the agents that were made for it."""

    def for_scheduler(self, *, age_s: float, joined: Container[str]) -> tuple[Launchable, ...]:
        """What will or could come, as it is `age_s` later, without instances whose agents have joined since."""
        booting = tuple(
            Launchable(
                slots_per_agent=node.slots,
                count=1,
                ready_in_s=max(0.0, node.ready_in_s - age_s),
                booting=True,
                ends_at=node.ends_at,
                facts=node.facts,
            )
            for node in self.booting
            if node.instance_id not in joined
        )
        return booting + tuple(
            Launchable(
                slots_per_agent=node.slots,
                count=node.count,
                ready_in_s=node.ready_in_s,
                ends_at=node.ends_at,
                facts=node.facts,
            )
            for node in self.launchable
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BootingNode:
    instance_id: str
    slots: int
    ready_in_s: float
    ends_at: float | None = None
    facts: MachineFacts = NO_FACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchableNode:
    slots: int
    count: int
    ready_in_s: float
    ends_at: float | None = None
    facts: MachineFacts = NO_FACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCapacity:
    """What a dynamic pool could ever be: the catalogue and the limits, for refusing impossible work at submission."""

    pool: str
    node_slots: tuple[int, ...]
    """Slots of each distinct offer size, ascending."""
    max_instances: int
    kinds: frozenset[tuple[int, MachineFacts]] = frozenset()
    """Slots and facts of every machine that it may buy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The keys of a pool that planning needs."""

    pool: str
    min_instances: int = 0
    max_instances: int = 1
    max_idle_s: float = 300.0
    """A machine without work is ended after so long."""
    idle_auto: bool = False
    """It is ended when a new boot would be cheaper; `max_idle_s` is then the most."""
    aux_places: int = AUX_PLACES
    """Zero-slot tasks that one machine holds at once; 0: none."""
    max_starting_s: float | None = None
    """How long a machine may take until its agent connects. None: as its offer says, and as was learned."""
    on_demand_after_s: float = 300.0
    """How long a gang waits for spot capacity before on-demand is bought."""
    network_gbps_per_slot: float = 0.0
    """What work over several machines needs, see `expected_cost`. 0: their network costs nothing."""
    budget: Budget = NO_BUDGET
    disruption: Disruption = NO_DISRUPTION
    warm_agents: int = 0
    """So many machines are kept without work, beside those that work."""
    warm_hours: DayHours = ()
    """Only then."""
    stopped: StoppedAgents = NO_STOPPED_AGENTS

    def warm(self, now: float) -> int:
        """How many machines without work there should be."""
        return self.warm_agents if is_within(self.warm_hours, now) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """One machine, or one machine being asked for, for the API and screens."""

    id: str
    pool: str
    offer: OfferKey
    slots: int
    usd_per_hour: float
    state: str
    """A value of `provisioner.fleet.instances.InstanceState`, or, of one that does not exist yet: `asking` while the
    provider has not answered, `accepted` if it delivers later, `cancelling`."""
    created_at: float
    ready_at: float | None = None
    idle_since: float | None = None
    usd: float = 0.0
    """What it has cost so far, from its launch."""
    reason: str = ""
    """Why it is being ended, or what is unusual about it."""
    kept_because: str = ""
    """Why it is kept although it has no work."""
    kept_until: float | None = None
    """When it is ended if no work comes; None: nobody knows."""
    notice: Notice | None = None
    """Its provider takes it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedOffer:
    """An offer that refused a launch and is not asked again for a while."""

    offer: OfferKey
    reason: str
    """What the provider said."""
    until: float | None
    """None: until its configuration is changed, or somebody asks to try it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """What the fleet has cost, beside a fleet of the same peak that never sleeps."""

    spent_usd: float
    """Since the first launch, machines that are gone included."""
    usd_per_hour: float
    """Of what exists now."""
    peak_instances: int
    peak_usd_per_hour: float
    first_launch_at: float | None
    always_on_usd: float
    """The peak fleet kept from the first launch until now."""
