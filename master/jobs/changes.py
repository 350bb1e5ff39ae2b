"""What users ask of a job in the queue, before it is known whether it can be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from master.core.jobs import JobChange, SetPool, SetPriority, SetWeight
from master.jobs.positions import Side
from windlass.base.errors import InvalidArgument, WindlassError


@dataclass(frozen=True, slots=True)
class QueueMove:
    """Stand right beside another job of the same pool, with its priority."""

    side: Side
    anchor_id: str


Action: TypeAlias = JobChange | QueueMove


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """One entry of a batch, as it came: exactly one thing should be said of the job."""

    job_id: str
    priority: int | None = None
    weight: float | None = None
    resource_pool: str | None = None
    ahead_of: str | None = None
    behind_of: str | None = None

    def action(self) -> Action:
        """Raises InvalidArgument."""
        actions: list[Action] = []
        if self.priority is not None:
            actions.append(SetPriority(self.priority))
        if self.weight is not None:
            actions.append(SetWeight(self.weight))
        if self.resource_pool is not None:
            actions.append(SetPool(self.resource_pool))
        if self.ahead_of is not None:
            actions.append(QueueMove(Side.AHEAD, self.ahead_of))
        if self.behind_of is not None:
            actions.append(QueueMove(Side.BEHIND, self.behind_of))
        if len(actions) != 1:
            raise InvalidArgument(
                "an update must have exactly one of priority, weight, resourcePool, aheadOf and behindOf, "
                f"but has {len(actions) or 'none'}"
            )
        return actions[0]


class UpdatesFailed(WindlassError):
    """Some updates of a batch failed, the others were carried out. `code` is that of all failures if they agree."""

    def __init__(self, total: int, failures: Sequence[tuple[str, WindlassError]]) -> None:
        told = "; ".join(f"job {job_id}: {error.message}" for job_id, error in failures)
        super().__init__(f"{len(failures)} of {total} updates failed: {told}")
        codes = {error.code for _, error in failures}
        self.code = codes.pop() if len(codes) == 1 else InvalidArgument.code
