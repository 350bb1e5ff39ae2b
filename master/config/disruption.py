"""`disruption` of a pool: whether work that runs may be moved so that machines can go."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from master.core.expconf.models.schema import Items, Number, Section
from provisioner.day_hours import DAY_S
from provisioner.planning.scale_down.disruption import Disruption

_HOURS = re.compile(r"(\d\d?):(\d\d)-(\d\d?):(\d\d)")


def _hours(value: Any) -> Any:
    found = _HOURS.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f'{value!r} is no time of the day: write "22:00-06:00", in UTC')
    hours, minutes, until_hours, until_minutes = map(int, found.groups())
    since, until = hours * 60 + minutes, until_hours * 60 + until_minutes
    if minutes > 59 or until_minutes > 59 or max(since, until) * 60 > DAY_S or since == until:
        raise ValueError(f'"{value}" is no time of the day: write "22:00-06:00", in UTC')
    return value


HoursOfDay = Annotated[str, BeforeValidator(_hours)]


class DisruptionSection(Section):
    """Work that can checkpoint may be moved so that machines can go. Nothing is while anything waits in the pool."""

    packing: bool = False
    """End machines whose work fits on others."""
    replacement: bool = False
    """Replace machines by cheaper ones, on-demand by spot too; the new one is up first."""
    drift: bool = False
    """Replace machines whose image or settings have changed since their launch."""
    share: Annotated[Number, Field(ge=0, le=1)] = 0.1
    """Of the pool's machines at most so many at once, and always one."""
    hours: Items[HoursOfDay] = ()
    """Only then: "22:00-06:00", in UTC. None: at any time."""

    def disruption(self) -> Disruption:
        return Disruption(
            packing=self.packing,
            replacement=self.replacement,
            drift=self.drift,
            share=self.share,
            hours=tuple(seconds_of_day(each) for each in self.hours),
        )


def seconds_of_day(hours: str) -> tuple[float, float]:
    """From and until, of a value that was checked."""
    since, until = (part.split(":") for part in hours.split("-"))
    return (
        int(since[0]) * 3600.0 + int(since[1]) * 60.0,
        int(until[0]) * 3600.0 + int(until[1]) * 60.0,
    )
