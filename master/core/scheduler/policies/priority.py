"""priority: the most important first, 1 before 99; with preemption, if the pool wants it, at the cost of the others.

Requests with slots are served one by one in the order of the queue: by priority (the pool's default, if the job names
none), in one priority by the job's position (that is where it came, unless it was moved), then by age. For each:

1. Above its job's `max_slots`: it says so. Could never be placed: it says so. Neither stops others.
2. It starts, if it fits in what is free and not promised to those before it.
3. Slots that are coming back anyhow are promised to it; nothing else is started on them, nor on what is free beside
   them and completes its place. With preemption all places of this decision are given anew for that if need be, the
   largest first (`rearrange`): those of its own priority may then wait for slots on their way, too.
4. Else it is left to capacity that is booting or could be launched within `preempt_after`.
5. Else, with preemption, running work is asked to leave, if that really suffices: preemptible, of jobs behind it in
   the queue. The last job in the queue loses first, so the lowest priority; of its work what loses least since its
   last checkpoint, then the latest. What is not needed stays. The request starts when all of them have left.
6. Else it stays unplaced, and others may pass it only where that cannot delay it (`backfill`): on agents that it
   cannot use; with preemption all that is preemptible, which leaves when it matters; without preemption what has its
   own priority, so that slots do not stay empty among equals.

Zero-slot tasks have places of their own, in the same order.

The rules are those of Determined 0.38 (its manual's example of seven steps is a test), without what its users
stumbled over: `max_slots` holds, nothing is released in vain or beyond need, a request that cannot run does not block
the pool for ever, and equal positions have an order.
"""

from __future__ import annotations

from math import inf

from master.core.scheduler import explain
from master.core.scheduler.decision_builder import DecisionBuilder
from master.core.scheduler.fitting import EXPECTED, REAL, RequestShape
from master.core.scheduler.ledger import JobAccount
from master.core.scheduler.policies.backfill import Blockade
from master.core.scheduler.policies.rearrange import Rearranging, Room
from master.core.scheduler.queue_order import in_queue_order
from master.core.scheduler.types import Decision, PoolState, Request, Running
from master.core.scheduler.unplaced import Queued, explain_queued
from master.core.scheduler.victims import Preemptibility, VictimSearch


def decide(pool: PoolState) -> Decision:
    return _Walk(pool).decide()


class _Walk:
    """Once through the queue."""

    def __init__(self, pool: PoolState) -> None:
        self._pool = pool
        self._preempts = bool(pool.settings.preemption)
        self._builder = DecisionBuilder(pool, strict=True)
        self._availability = self._builder.availability
        self._blockade = Blockade(pool, self._builder.ledger, self._availability)
        self._search: VictimSearch | None = None
        self._unplaced: list[Queued] = []
        self._rearranging = Rearranging(self._builder)

    def decide(self) -> Decision:
        builder, blockade = self._builder, self._blockade
        higher = same = level = 0
        for account in builder.accounts.values():
            priority = account.priority
            if priority != level:
                higher, same, level = higher + same, 0, priority
                blockade.enter_priority()
            claimed = 0
            for request, shape in account.waiting:
                room = account.room - account.promised
                if shape.slots <= room and self._serve(request, shape, account):
                    continue
                if request.id in builder.reasons:
                    same += 1
                elif shape.slots <= room - claimed:
                    held_back = blockade.holds_back(request)
                    self._unplaced.append(Queued(request.id, shape, higher, same, held_back))
                    claimed += shape.slots
                    same += 1
                else:
                    builder.reasons[request.id] = explain.max_slots_used(account, claimed)
        builder.reasons |= explain_queued(
            self._pool, builder.ledger, builder.availability, self._unplaced, builder.starts
        )
        return builder.finish(in_queue_order(self._pool, builder.ledger.aux))

    def _serve(self, request: Request, shape: RequestShape, account: JobAccount) -> bool:
        """Start it, or find something it can wait for, or note that it has nothing. Whether it starts."""
        builder, blockade = self._builder, self._blockade
        held_back = blockade.holds_back(request)
        allowed = blockade.outside(shape) if held_back else shape
        if allowed is not None:
            placement = builder.find_free(shape, open_only=held_back)
            if placement is not None:
                passes = blockade.is_anything_unplaced
                builder.start(request, allowed, placement, backfilled=passes)
                return True
            if self._serve_later(request, allowed, account):
                return request.id in builder.starts
        blockade.note_unplaced(shape)
        return False

    def _serve_later(self, request: Request, shape: RequestShape, account: JobAccount) -> bool:
        """Whether slots are reserved for it that come back, or that are expected."""
        builder = self._builder
        room = Room.NONE
        if self._availability.is_anything_leaving and self._availability.left >= shape.slots:
            if builder.promise(request, shape, REAL):
                return True
            if self._preempts:
                own = account.priority
                room = self._rearranging.make_room(
                    request, shape, lambda one: self._may_wait(one, own)
                )
            if room is Room.MADE:
                return True
        if builder.ledger.expected and builder.promise(request, shape, EXPECTED):
            return True
        if room is Room.LATER:
            builder.reasons[request.id] = explain.returning(shape)
            return False
        if not self._preempts:
            return False
        search = self._search = self._search or self._victims_behind(account)
        return builder.release_for(request, shape, search, self._why_released, rank=account.age)

    def _victims_behind(self, first: JobAccount) -> VictimSearch:
        """Among the work of jobs behind the first that asks."""
        accounts = self._builder.accounts
        behind = {job_id for job_id, account in accounts.items() if account.age > first.age}
        return VictimSearch(
            self._availability.later,
            [one for one in self._pool.running if one.request.job_id in behind],
            {job_id: Preemptibility(inf, rank=account.age) for job_id, account in accounts.items()},
            now=self._pool.now,
            mixed_sizes=self._pool.settings.allow_heterogeneous_fits,
        )

    def _may_wait(self, request: Request, priority: int) -> bool:
        """For the sake of one with this priority: who has a higher one does not."""
        return self._builder.accounts[request.job_id].priority >= priority

    def _why_released(self, victim: Running, request: Request) -> str:
        accounts = self._builder.accounts
        priority = accounts[request.job_id].priority
        who = f"a request of priority {priority}"
        if accounts[victim.request.job_id].priority == priority:
            who += ", ahead of it in the queue,"
        return f"{who} needs its slots: {request.id}"
