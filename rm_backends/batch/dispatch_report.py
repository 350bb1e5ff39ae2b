"""What a dispatching pool reports about its jobs: why requests wait, when they start, what is free. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from master.core.deadlines import Cause
from master.core.reasons import Reason, ReasonKind
from provisioner.batch.base import Queue
from provisioner.batch.job_files import JobShape
from provisioner.batch.stages import utc
from provisioner.types import LaunchableNode, PoolAvailability
from rm_backends.base import AllocationRequest
from rm_backends.batch import leases as life
from rm_backends.batch.full_limits import Full
from rm_backends.batch.leases import Lease
from rm_backends.batch.shapes import DispatchOptions, require_user, shape_of
from windlass.base.errors import Unsatisfiable

START_S = 5.0
"""What a job on free nodes probably takes until its agents have joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchReport:
    """One pool, now."""

    options: DispatchOptions
    leases: Sequence[Lease]
    """Those that serve its requests."""
    queue: Queue | None
    trouble: Callable[[str], str]
    """As `JobPoller` has it."""
    full: Callable[[str, JobShape], Full | None]
    joined: Callable[[Lease], int]
    now: float

    def availability(self, wanting: Sequence[AllocationRequest]) -> PoolAvailability:
        """`wanting`: who waits for a job."""
        return PoolAvailability(
            pool=self.options.pool,
            launchable=self._launchable(),
            reasons=self._reasons(wanting),
            ends_at={
                agent: lease.ends_at
                for lease in self.leases
                if lease.ends_at is not None
                for agent in lease.agents
            },
            end_cause=Cause.JOB_LIMIT,
            leases={one.allocation_id: one.agents for one in self.leases if one.is_live},
        )

    def _reasons(self, wanting: Sequence[AllocationRequest]) -> Mapping[str, Reason]:
        told = {one.allocation_id: self._doubted(one) for one in self.leases if not one.granted}
        queued = sum(
            not (one.granted or (one.waits_here and self._full(one.shape))) for one in self.leases
        )
        alike: dict[Hashable, Reason] = {}  # thousands that wait have few shapes and users
        for request in wanting:
            if request.allocation_id not in told:
                key = request.shape, request.user, request.os_user
                if key not in alike:
                    alike[key] = self._not_created(request, queued)
                told[request.allocation_id] = alike[key]
        return told

    def _doubted(self, lease: Lease) -> Reason:
        why, silence = self._why(lease), self.trouble(lease.user)
        if not silence:
            return why
        return replace(why, text=f"{why.text}; the batch system does not answer now ({silence})")

    def _why(self, lease: Lease) -> Reason:
        full = self._full(lease.shape)
        if full is None or not lease.waits_here:
            return life.explain(lease, self.joined(lease), self.now)
        return self._at_limit(full)

    def _full(self, shape: JobShape) -> Full | None:
        """What keeps jobs like that here now."""
        full = self.full(self.options.pool, shape)
        return full if full is not None and full.until > self.now else None

    def _at_limit(self, full: Full) -> Reason:
        text = f"the site takes no more jobs of pool '{self.options.pool}' now: {full.message}"
        return Reason(
            kind=ReasonKind.AT_LIMIT,
            text=f"{text}; tried again at {utc(full.until)}",
            retry_at=full.until,
        )

    def _not_created(self, request: AllocationRequest, queued: int) -> Reason:
        options = self.options
        try:
            require_user(request, options)
            shape = shape_of(request, options, self.queue)
        except Unsatisfiable as error:
            return Reason(kind=ReasonKind.NO_SUCH_AGENT, text=error.message)
        if (full := self._full(shape)) is not None:
            return self._at_limit(full)
        if queued >= options.section.max_queued:
            text = f"{queued} jobs of pool '{options.pool}' wait at the site, its max_queued: the next follows then"
            return Reason(kind=ReasonKind.AT_LIMIT, text=text)
        return Reason(kind=ReasonKind.QUEUED, text="a batch job is to be submitted for it")

    def _launchable(self) -> tuple[LaunchableNode, ...]:
        """Free nodes, while no job of ours waits for some and the site answers."""
        queue = self.queue
        if self.trouble("") or queue is None or not queue.is_open:
            return ()
        if any(not one.granted for one in self.leases) or not queue.idle_nodes:
            return ()
        size = self.options.section.slots_per_node or queue.gpus_per_node or queue.cpus_per_node
        return (LaunchableNode(slots=size, count=queue.idle_nodes, ready_in_s=START_S),)
