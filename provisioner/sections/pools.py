"""`resource_pools`: the sections as written, and each pool with everything resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard

from pydantic import Field, model_validator

from master.core.expconf.container_defaults import TaskContainerDefaults
from master.core.expconf.models.durations import (
    AUTO,
    IdlePeriod,
    NonNegativeDuration,
    PositiveDuration,
)
from master.core.expconf.models.schema import (
    FreeMap,
    Item,
    Items,
    NonNegative,
    Positive,
)
from master.core.fall_back import FallBackRule
from master.core.scheduler.types import SchedulerSettings
from provisioner.day_hours import DayHours
from provisioner.money.budgets import PoolBudget
from provisioner.money.expected_cost import NETWORK_GBPS_PER_SLOT
from provisioner.planning.scale_down.disruption import Disruption
from provisioner.planning.scale_down.idle_time import MOST_IDLE_S
from provisioner.planning.scale_down.stopped_agents import StoppedAgents
from provisioner.sections.batch import BatchKeys, BatchSection, HpcSection
from provisioner.sections.cloud import CloudSection
from provisioner.sections.providers import EmbeddedSection, MachineSection, ProviderSection
from provisioner.types import PoolSettings
from windlass.base.no_effect import NoEffect

DEFAULT_MAX_INSTANCES = 5
DEFAULT_IDLE_PERIOD = timedelta(minutes=5)

PoolName: TypeAlias = Annotated[str, Field(min_length=1)]


class PoolSection(Item):
    """One resource pool, as an operator writes it."""

    pool_name: PoolName
    """Unique."""
    description: str = ""
    """Shown to users."""
    max_aux_containers_per_agent: NonNegative = 100
    """How many tasks without slots an agent takes."""
    agent_reconnect_wait: NonNegativeDuration = timedelta(seconds=25)
    """How long an agent that is lost keeps its place, and its tasks theirs."""
    agent_reattach_enabled: Annotated[
        bool | None, NoEffect("it is always on: tasks outlive a lost connection")
    ] = Field(default=None, exclude=True)
    """Whether tasks outlive a lost connection."""
    require_isolation: bool | None = None
    """Our own key: refuse agents that have neither bubblewrap nor namespaces to contain tasks. None: refuse those of
    them that are root."""
    task_metadata: Literal["storage", "none", "direct"] | None = None
    """Our own key: what tasks have of the metadata service of the machines that the pool buys. storage: credentials for
    S3 or Google Cloud Storage, from the agent; none: nothing; direct: all that the machine's role may do, and its user
    data. None: storage."""
    task_container_defaults: FreeMap | None = Field(default=None, repr=False)
    """Over the cluster's section of that name, for tasks in this pool."""
    # Raw, because defaults are filled in only after it was laid over the cluster's. Checked as that section is.
    scheduler: SchedulerSettings | None = None
    """Replaces the resource manager's section whole."""
    provider: ProviderSection | None = None
    """Where its machines come from. None, and no `providers`: a static pool, of agents that come by themselves."""
    providers: Items[ProviderSection] = ()
    """Our own key: several of them."""
    min_instances: NonNegative | None = None
    """Machines that are kept without work. None: 0."""
    max_instances: Positive | None = None
    """The most machines. None: 5."""
    max_idle_agent_period: IdlePeriod | None = None
    """How long a machine without work is kept. auto: as long as that is cheaper than a new boot, between 30s and 30m.
    None: 5m."""
    max_agent_starting_period: PositiveDuration | None = None
    """How long a machine may take until its agent connects. None: as long as machines of its kind are known to take."""
    budget: PoolBudget = PoolBudget()
    """Our own key: what its machines may cost."""
    on_demand_after: NonNegativeDuration = timedelta(minutes=5)
    """Our own key: how long a gang waits at most for spot capacity before on-demand is bought: at once when every spot
    offer that could hold it has refused."""
    network_gbps_per_slot: Annotated[float, Field(ge=0, allow_inf_nan=False)] = (
        NETWORK_GBPS_PER_SLOT
    )
    """Our own key: how much network work over several machines needs: with so many Gbit/s for each GPU it exchanges
    gradients as long as it computes. What machines are expected to cost counts that; 0: not."""
    warm_agents: NonNegative = 0
    """Our own key: so many machines are kept ready without work, beside those that work."""
    warm_hours: DayHours = ()
    """Our own key: warm_agents only then: "08:00-18:00", in UTC. None: at any time."""
    stopped_agents: StoppedAgents = StoppedAgents()
    """Our own key: whether machines without work are stopped instead of ended. Off by default."""
    disruption: Disruption = Disruption()
    """Our own key: whether work that runs may be moved so that machines can go. Off by default."""
    fall_back_to: Items[str] = ()
    """Our own key: pools that may run what this one cannot start, in the order in which they are asked. From there
    nothing falls back further."""
    fall_back_after: NonNegativeDuration = timedelta(minutes=5)
    """Our own key: how long this pool must have been unable to start it. What it could never hold need not wait."""

    @model_validator(mode="after")
    def _consistent(self) -> PoolSection:
        if self.provider is not None and self.providers:
            raise ValueError("give either provider or providers, not both")
        if not self.all_providers:
            for key in _ELASTIC_KEYS:
                if getattr(self, key) is not None:
                    raise ValueError(f"{key} needs a provider: this pool is static")
            if self.disruption.is_on:
                raise ValueError("disruption needs a provider: this pool is static")
            if self.warm_agents:
                raise ValueError("warm_agents needs a provider: this pool is static")
            if self.stopped_agents.is_on:
                raise ValueError("stopped_agents needs a provider: this pool is static")
            self._require_metadata()
            return self
        self._require_alone()
        self._require_metadata()
        for key in _ELASTIC_KEYS:
            values = self._given(key)
            if any(value != values[0] for value in values):
                raise ValueError(f"{key} is given differently in the pool and in a provider")
        if self.limit("min_instances", 0) > self.limit("max_instances", DEFAULT_MAX_INSTANCES):
            raise ValueError("min_instances must not be more than max_instances")
        if self.warm_agents > self.limit("max_instances", DEFAULT_MAX_INSTANCES):
            raise ValueError("warm_agents must not be more than max_instances")
        if self.stopped_agents.is_on and not any(
            isinstance(one, CloudSection | EmbeddedSection) for one in self.all_providers
        ):
            raise ValueError(
                "stopped_agents needs a provider of type aws, gcp or embedded: others cannot stop machines"
            )
        return self

    def _require_metadata(self) -> None:
        if self.task_metadata is not None and not any(
            isinstance(one, CloudSection) for one in self.all_providers
        ):
            raise ValueError(
                "task_metadata needs a provider of type aws or gcp: machines of others have no metadata service. "
                "Agents that you start yourself have a key of that name in agent.yaml"
            )

    def _require_alone(self) -> None:
        """A batch system schedules by itself: nothing is left to plan in its pools."""
        batch = self.hpc or self.batch
        if batch is None:
            return
        if len(self.all_providers) > 1:
            raise ValueError(
                f"a provider of type {batch.type} must be the only one of its pool: "
                "set its mode: pilot, or give the others a pool of their own, and name it in fall_back_to"
            )
        for key in () if self.is_auto else _ELASTIC_KEYS:
            if getattr(self, key) is not None:
                raise ValueError(
                    f"{key} is not for {batch.type}, which schedules by itself: remove it"
                )

    @property
    def hpc(self) -> HpcSection | None:
        """A partition of the resource manager, which says the rest."""
        return next((one for one in self.all_providers if isinstance(one, HpcSection)), None)

    @property
    def batch(self) -> BatchSection | None:
        """What its work is dispatched to."""
        return next(filter(_dispatches, self.all_providers), None)

    @property
    def is_auto(self) -> bool:
        """Its requests become jobs of their own, or run on pilots."""
        return self.batch is not None and self.batch.is_auto

    def sides(self) -> tuple[PoolSection, ...]:
        """The pool that it is; of mode auto the one of jobs, and the one of pilots."""
        batch = self.batch
        if batch is None or not batch.is_auto:
            return (self,)
        alone = {"walltimes": (), "queue_deadline": None, "usd_per_slot_hour": 0}
        jobs = batch.model_copy(update={"mode": "dispatch", **alone})
        pilots = batch.model_copy(update={"mode": "pilot", "walltime": None})
        return (
            self._with(jobs, **dict.fromkeys(_ELASTIC_KEYS), warm_agents=0),
            self._with(pilots, pool_name=pilot_side(self.pool_name), fall_back_to=()),
        )

    def _with(self, provider: BatchSection, **changes: Any) -> PoolSection:
        return self.model_copy(update={"provider": provider, "providers": (), **changes})

    @property
    def all_providers(self) -> tuple[ProviderSection, ...]:
        return (self.provider,) if self.provider is not None else self.providers

    def limit(self, key: str, default: Any) -> Any:
        """The value of one of the elastic keys, wherever it was written."""
        values = self._given(key)
        return values[0] if values else default

    def _given(self, key: str) -> list[Any]:
        places: tuple[Any, ...] = (self, *self.all_providers)
        return [v for place in places if (v := getattr(place, key, None)) is not None]


def pilot_side(pool: str) -> str:
    """What the pool of the pilots of a pool of mode auto is called."""
    return f"{pool}-pilots"


def _dispatches(section: ProviderSection) -> TypeGuard[BatchSection]:
    return isinstance(section, BatchKeys) and not section.is_pilot


_ELASTIC_KEYS = (
    "min_instances",
    "max_instances",
    "max_idle_agent_period",
    "max_agent_starting_period",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPool:
    """One pool with what it has of the sections of the cluster."""

    section: PoolSection
    scheduler: SchedulerSettings
    task_container_defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Raw, the pool's over the cluster's: what `expconf.ClusterDefaults` takes."""
    closed: str = ""
    """Why nothing new is taken: the pool is kept for what runs there. Empty: it is open."""

    @property
    def name(self) -> str:
        return self.section.pool_name

    @property
    def providers(self) -> tuple[MachineSection, ...]:
        """Empty: its agents come by themselves, or on batch jobs."""
        return tuple(
            one
            for one in self.section.all_providers
            if not isinstance(one, HpcSection) and not _dispatches(one)
        )

    @property
    def batch(self) -> BatchSection | None:
        """Its work becomes jobs of a batch system."""
        return self.section.batch

    @property
    def is_elastic(self) -> bool:
        return bool(self.providers)

    @property
    def is_dynamic(self) -> bool:
        """Its agents come and go with demand. Those of a static pool come by themselves."""
        return self.is_elastic or self.batch is not None or bool(self.closed)

    @property
    def kind(self) -> str:
        """What screens call it: `static`, or the type of its provider."""
        if self.batch is not None:
            return self.batch.type
        return self.providers[0].type if self.is_elastic else "static"

    @property
    def container_runtime(self) -> str:
        """What its agents are told to run images with. Empty: they are told nothing here, or different things."""
        sections = [self.batch] if self.batch is not None else self.providers
        told = {one.container_runtime if isinstance(one, BatchKeys) else None for one in sections}
        return (told.pop() or "") if len(told) == 1 else ""

    @property
    def task_metadata(self) -> str:
        """What tasks have of the metadata service of machines of clouds."""
        return self.section.task_metadata or "storage"

    @property
    def fall_back(self) -> FallBackRule:
        section = self.section
        return FallBackRule(
            pools=section.fall_back_to, after_s=section.fall_back_after.total_seconds()
        )

    @property
    def settings(self) -> PoolSettings:
        """What planning needs. A pool that is not elastic has no machines."""
        section = self.section
        most = section.limit("max_instances", DEFAULT_MAX_INSTANCES)
        idle = section.limit("max_idle_agent_period", DEFAULT_IDLE_PERIOD)
        starting = section.limit("max_agent_starting_period", None)
        return PoolSettings(
            pool=self.name,
            min_instances=section.limit("min_instances", 0),
            max_instances=most if self.is_elastic else 0,
            max_idle_s=MOST_IDLE_S if idle == AUTO else idle.total_seconds(),
            idle_auto=idle == AUTO,
            aux_places=section.max_aux_containers_per_agent,
            max_starting_s=None if starting is None else starting.total_seconds(),
            on_demand_after_s=section.on_demand_after.total_seconds(),
            network_gbps_per_slot=section.network_gbps_per_slot,
            budget=section.budget,
            disruption=section.disruption,
            warm_agents=section.warm_agents,
            warm_hours=section.warm_hours,
            stopped=section.stopped_agents,
        )

    def containers(self) -> TaskContainerDefaults:
        """`task_container_defaults` with every default filled in."""
        return TaskContainerDefaults.model_validate(dict(self.task_container_defaults))
