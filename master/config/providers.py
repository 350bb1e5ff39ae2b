"""`provider` sections: where the machines of an elastic pool come from."""

from __future__ import annotations

from datetime import timedelta
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from master.core.expconf.schema import NonNegative, Number, Positive, Section
from windlass.base.durations import Duration, format_duration, parse_duration

PLANNED_PROVIDERS = ("aws", "gcp", "slurm", "hpc", "pbs")
PROVIDERS = ("embedded",)
SITE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError(f"must be > 0s but found {format_duration(value)}")
    return value


def _not_negative(value: timedelta) -> timedelta:
    if value < timedelta(0):
        raise ValueError(f"must be >= 0s but found {format_duration(value)}")
    return value


PositiveDuration: TypeAlias = Annotated[Duration, AfterValidator(_positive)]
NonNegativeDuration: TypeAlias = Annotated[Duration, AfterValidator(_not_negative)]


AUTO: Final = "auto"


def _idle_period(value: Any) -> Any:
    if value == AUTO:
        return AUTO
    if not isinstance(value, str):
        raise ValueError(f'{value!r} is neither a duration such as "5m" nor {AUTO}')
    return _positive(parse_duration(value))


def _shown_period(value: timedelta | str) -> str:
    return value if isinstance(value, str) else format_duration(value)


# A union by itself would report a bad duration once for each of its members.
IdlePeriod: TypeAlias = Annotated[
    timedelta | Literal["auto"], BeforeValidator(_idle_period), PlainSerializer(_shown_period)
]


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
    usd_per_hour: Annotated[Number, Field(ge=0)] | None = None
    """What each pretends to cost. None: the price of `instance_type` in the price book if a cloud sells that,
    else 0."""
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
        if name in PLANNED_PROVIDERS:
            raise ValueError(f"provider type {name} is not supported yet")
        near = get_close_matches(name, (*PROVIDERS, *PLANNED_PROVIDERS), n=1)
        meant = f'did you mean "{near[0]}"?' if near else f"use one of {', '.join(PROVIDERS)}"
        raise ValueError(f'provider type "{name}" is unknown: {meant}')
    return value


ProviderSection: TypeAlias = Annotated[EmbeddedSection, BeforeValidator(_known_type)]
"""Others join here as a union by `type`."""
