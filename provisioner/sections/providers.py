"""`provider` sections: where the machines of an elastic pool come from."""

from __future__ import annotations

from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, Tag

from master.core.expconf.models.durations import IdlePeriod, NonNegativeDuration, PositiveDuration
from master.core.expconf.models.schema import (
    TAG_MARK,
    NonNegative,
    Number,
    Positive,
    Section,
    member_of,
)
from provisioner.sections.aws import AwsSection
from provisioner.sections.batch import HpcSection, PbsSection, SlurmSection
from provisioner.sections.cloud import SITE_NAME
from provisioner.sections.gcp import GcpSection

PROVIDERS = ("embedded", "aws", "gcp", "slurm", "pbs", "hpc")


class EmbeddedSection(Section):
    """Instances are directories with a small host process on the master's own machine: demos and tests.

    The four limits may stand here, as Determined has them, or in the pool, but not differ.
    """

    type: Literal["embedded"]
    """Others are refused."""
    name: Annotated[str | None, Field(pattern=SITE_NAME)] = None
    """Of the site that it belongs to, an account and region of its own. None: the pool's name. Sections of one site
    are listed with one call, in whichever pools they are."""
    instance_type: str | None = None
    """The name of this kind of instance; a pool may have several sections, each with its own."""
    slots_per_instance: Positive = 1
    """Pretended slots of each."""
    available: NonNegative | None = None
    """More instances of it at once are refused, as a cloud does that is out of stock. Unset: no limit."""
    boot_time: NonNegativeDuration = timedelta(seconds=2)
    """How long an instance pretends to boot before its agent starts."""
    zone: Annotated[str | None, Field(pattern=SITE_NAME)] = None
    """A part of the site. Sections of one `instance_type` may differ in it."""
    market: Literal["on_demand", "spot", "reserved"] = "on_demand"
    """What it is sold as: spot is bought first, on-demand after `on_demand_after`."""
    queue_time: NonNegativeDuration = timedelta(0)
    """Launches are accepted, and delivered so much later, as a batch system does. 0s: made at once."""
    list_every: PositiveDuration = timedelta(seconds=1)
    """How often the site may be asked what it has; the shortest of its sections counts."""
    usd_per_hour: Annotated[Number, Field(ge=0)] | None = None
    """What each pretends to cost. None: the price of `instance_type` in the price book if a cloud sells that,
    else 0."""
    disk_usd_per_hour: Annotated[Number, Field(ge=0)] = 0.0
    """What each pretends to cost while it is stopped (`stopped_agents` of the pool)."""
    min_instances: NonNegative | None = None
    """As in the pool."""
    max_instances: Positive | None = None
    """As in the pool."""
    max_idle_agent_period: IdlePeriod | None = None
    """As in the pool."""
    max_agent_starting_period: PositiveDuration | None = None
    """As in the pool."""


def _known_type(value: Any) -> Any:
    name = value.get("type") if isinstance(value, dict) else None
    if isinstance(name, str) and name not in PROVIDERS:
        near = get_close_matches(name, PROVIDERS, n=1)
        meant = f'did you mean "{near[0]}"?' if near else f"use one of {', '.join(PROVIDERS)}"
        raise ValueError(f'provider type "{name}" is unknown: {meant}')
    return value


MachineSection: TypeAlias = EmbeddedSection | AwsSection | GcpSection | SlurmSection | PbsSection
"""Where machines come from; batch systems in mode pilot."""
ProviderSection: TypeAlias = Annotated[
    Annotated[EmbeddedSection, Tag(TAG_MARK + "embedded")]
    | Annotated[AwsSection, Tag(TAG_MARK + "aws")]
    | Annotated[GcpSection, Tag(TAG_MARK + "gcp")]
    | Annotated[SlurmSection, Tag(TAG_MARK + "slurm")]
    | Annotated[PbsSection, Tag(TAG_MARK + "pbs")]
    | Annotated[HpcSection, Tag(TAG_MARK + "hpc")],
    member_of("type", "type is unknown"),
    BeforeValidator(_known_type),
]
