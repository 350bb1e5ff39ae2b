"""The `scheduler` section, of the resource manager and of each pool. A pool's own section replaces the other whole."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, model_validator

from master.core.expconf.models.durations import NonNegativeDuration
from master.core.expconf.models.schema import Priority, Section
from master.core.scheduler.types import (
    DEFAULT_PRIORITY,
    FittingPolicy,
    SchedulerSettings,
    SchedulerType,
)
from windlass.base.formats.durations import parse_duration


def _off_is_none(value: Any) -> Any:
    """YAML reads a bare `off` as false."""
    if value is False or value == "off":
        return None
    if value is None or isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, str):
            return parse_duration(value)
    except ValueError:
        pass
    shown = f'"{value}"' if isinstance(value, str) else str(value).lower()
    raise ValueError(f'{shown} is not a duration: write "90s", "30m" or "2h", or off')


DurationOrOff: TypeAlias = Annotated[NonNegativeDuration | None, BeforeValidator(_off_is_none)]


class SchedulerSection(Section):
    """Who starts first, and where."""

    type: Literal["fair_share", "priority", "round_robin"] = "fair_share"
    """How the slots of a pool are divided."""
    fitting_policy: Literal["best", "worst"] = "best"
    """best: fill agents that are in use; worst: spread over agents."""
    allow_heterogeneous_fits: bool = False
    """Whether a gang may span agents of different sizes."""
    preemption: bool | None = None
    """Only for `priority`; fair_share always preempts."""
    default_priority: Priority | None = None
    """Only for `priority`: of jobs that name none. None: 42."""
    preempt_after: NonNegativeDuration = timedelta(minutes=10)
    """Our own key: running work is not disturbed for what new capacity can serve within this time."""
    reserve_after: DurationOrOff = timedelta(minutes=30)
    """Our own key: a gang that has waited this long gets a reservation. `off`, false or null: never."""

    @model_validator(mode="after")
    def _priority_only(self) -> SchedulerSection:
        for key in ("preemption", "default_priority"):
            if self.type != "priority" and getattr(self, key) is not None:
                raise ValueError(f"{key} belongs to type priority, not to {self.type}")
        return self

    @classmethod
    def _drops_null(cls, key: str) -> bool:
        return key != "reserve_after" and super()._drops_null(key)

    def settings(self) -> SchedulerSettings:
        return SchedulerSettings(
            type=SchedulerType(self.type),
            fitting_policy=FittingPolicy(self.fitting_policy),
            allow_heterogeneous_fits=self.allow_heterogeneous_fits,
            preemption=bool(self.preemption),
            default_priority=self.default_priority or DEFAULT_PRIORITY,
            preempt_after_s=self.preempt_after.total_seconds(),
            reserve_after_s=None
            if self.reserve_after is None
            else self.reserve_after.total_seconds(),
        )
