"""How many wait for what: the same kinds that each request is told, however many there are."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import cycle

import pytest

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler import decide
from provisioner.types import PoolAvailability
from rm_backends.agents.backend import AgentsBackend
from rm_backends.base import AllocationRequest, JobOrder
from tests.fakes.agents_world import memory_pools
from tests.fakes.pools import EMBEDDED, resolved_pool
from windlass.base.clock import ManualClock

AT = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDS = (None, ReasonKind.QUOTA, ReasonKind.LAUNCHING, ReasonKind.NO_CAPACITY)
"""What the provisioner says of every fourth request; None: nothing."""


def a_backend() -> AgentsBackend:
    pools = [resolved_pool("elastic", EMBEDDED), resolved_pool("rack")]
    return AgentsBackend(memory_pools(ManualClock()), pools, decide)


def a_request(pool: str, number: int) -> AllocationRequest:
    limited = 4 if number % 5 == 0 else None
    return AllocationRequest(
        allocation_id=f"t-{number}.1",
        task_id=f"t-{number}",
        name=f"t-{number}",
        pool=pool,
        slots=number % 3,
        job=JobOrder(job_id=f"j-{number % 5}", submitted=AT, max_slots=limited),
        requested=AT,
    )


@pytest.mark.parametrize("pool", ["elastic", "rack"])
async def test_the_counts_are_those_of_what_each_is_told(pool: str) -> None:
    backend = a_backend()
    for number in range(40):
        await backend.request(a_request(pool, number))
    assert backend.observer.waiting_by_kind(pool) == {ReasonKind.QUEUED: 40}, (
        "nothing is decided yet"
    )
    its = backend.by_name[pool]
    state = its.snapshot()
    await its.apply(state, decide(state))
    reasons = {
        id_: Reason(kind=kind, text="as the provisioner says")
        for id_, kind in zip(its.waiting, cycle(ROUNDS), strict=False)
        if kind is not None
    }
    its.set_availability(PoolAvailability(pool=pool, reasons=reasons))
    told = Counter(
        entry.reason.kind for entry in backend.observer.queue(pool) if entry.reason is not None
    )
    assert backend.observer.waiting_by_kind(pool) == told
    assert len(told) > 1 if pool == "elastic" else told == {ReasonKind.NO_SUCH_AGENT: 40}
