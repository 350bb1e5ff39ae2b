"""Why something waits, in one shape for scheduler, planner, API and screens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReasonKind(StrEnum):
    """What a waiting request waits for. Ordered roughly from harmless to needs-a-person."""

    QUEUED = "queued"
    """Others are before it; it will start when slots free up."""
    SHARE_USED = "share_used"
    """Its job already uses its fair share or its max_slots."""
    NEEDS_RELEASE = "needs_release"
    """Running work was asked to release slots for it."""
    NEEDS_CAPACITY = "needs_capacity"
    """No free slots of that shape: demand for the provisioner, if the pool has one."""
    NO_SUCH_AGENT = "no_such_agent"
    """No connected agent has that shape, and nothing will bring one up."""
    LAUNCHING = "launching"
    """An instance for it is on its way."""
    NO_CAPACITY = "no_capacity"
    """The provider has none; `retry_at` says when it is asked again."""
    QUEUED_AT_PROVIDER = "queued_at_provider"
    """The provider or site has accepted the launch and delivers later; `retry_at` says when it expects to."""
    QUOTA = "quota"
    AT_LIMIT = "at_limit"
    """The pool is at max_instances."""
    OVER_BUDGET = "over_budget"
    THROTTLED = "throttled"
    """The provider is called too often; the call is repeated."""
    UNREACHABLE = "unreachable"
    """The provider does not answer, or fails."""
    CREDENTIALS = "credentials"
    """The provider does not accept the cluster's credentials: they are expired or wrong."""
    MISCONFIGURED = "misconfigured"
    """The provider refuses what the pool's configuration asks for."""
    CHOOSING = "choosing"
    """Its hyperparameters are being chosen."""
    STARTING = "starting"
    """Slots are granted; the task is being started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One line for the user, plus what a program may want to read. `retry_at` is seconds since the epoch."""

    kind: ReasonKind
    text: str
    retry_at: float | None = None
