"""The reason of everything that neither starts nor was promised anything, and whether it is demand."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from master.core.scheduler import explain
from master.core.scheduler.availability import Availability
from master.core.scheduler.fitting import RequestShape
from master.core.scheduler.ledger import JobAccount, Ledger
from master.core.scheduler.queue_order import by_age
from master.core.scheduler.types import PoolState, Request, Start, Waiting
from master.core.scheduler.usage import used_slots


def explain_shares(
    pool: PoolState,
    ledger: Ledger,
    shares: Mapping[str, int],
    availability: Availability,
    *,
    started: Mapping[str, Start],
    promised: Mapping[str, Waiting],
    unmet: Container[str],
) -> dict[str, Waiting]:
    """Where jobs have shares. `unmet` are requests within their job's share that still could not be placed."""
    reasons: dict[str, Waiting] = {}
    figures = Figures(pool, ledger, started)
    unfit: set[RequestShape] = set()
    for job_id, account in ledger.accounts.items():
        left = [e for e in account.waiting if e[0].id not in started]
        if not left:
            continue
        room = account.room - sum(shape.slots for request, shape in left if request.id in promised)
        same: dict[tuple[RequestShape, bool | None], Waiting] = {}
        for request, shape in left:
            if request.id in promised:
                continue
            if shape.slots > room:
                reasons[request.id] = same.get((shape, None)) or same.setdefault(
                    (shape, None), explain.max_slots_used(account)
                )
                continue
            room -= shape.slots
            if availability.is_anything_leaving and shape not in unfit:
                placement = availability.later.find(shape)
                if placement is not None:
                    availability.promise(placement)
                    reasons[request.id] = explain.returning(shape)
                    continue
                unfit.add(shape)
            within = request.id in unmet
            reasons[request.id] = same.get((shape, within)) or same.setdefault(
                (shape, within), _why(figures, account, shape, shares[job_id], within=within)
            )
    return reasons


def explain_hopeless(pool: PoolState, ledger: Ledger) -> dict[str, Waiting]:
    """What no policy could start, however little else runs."""
    reasons: dict[str, Waiting] = {}
    for request, shape in ledger.above_max_slots:
        limit = ledger.accounts[request.job_id].job.max_slots or 0
        reasons[request.id] = explain.above_max_slots(shape, limit)
    same: dict[RequestShape, Waiting] = {}
    for request, shape in ledger.hopeless:
        reasons[request.id] = same.get(shape) or same.setdefault(
            shape, explain.no_such_agent(shape, pool, ledger.sizes)
        )
    return reasons


class Queued(NamedTuple):
    """A request that got nothing, in a queue."""

    request_id: str
    shape: RequestShape
    higher: int
    """Requests of higher priority that wait, too."""
    same: int
    """Requests of its own priority that wait before it."""
    held_back: bool
    """It must leave alone what is kept for others."""


def explain_queued(
    pool: PoolState,
    ledger: Ledger,
    availability: Availability,
    queued: Iterable[Queued],
    started: Mapping[str, Start],
) -> dict[str, Waiting]:
    """Where there is one queue with priorities."""
    reasons: dict[str, Waiting] = {}
    figures = Figures(pool, ledger, started)
    room: dict[RequestShape, bool] = {}
    for request_id, shape, higher, same, held_back in queued:
        if not higher and not same:
            free = figures.free_for(shape)
            preempts = bool(pool.settings.preemption)
            reasons[request_id] = explain.scattered(shape, free, figures.total, preempts=preempts)
            continue
        kept = False
        if held_back:
            if shape not in room:
                room[shape] = availability.spare.find(shape) is not None
            kept = room[shape]
        reasons[request_id] = explain.queued_behind(higher, same, kept=kept)
    return reasons


def explain_turns(
    pool: PoolState,
    ledger: Ledger,
    accounts: Iterable[JobAccount],
    started: Mapping[str, Start],
    promised: Container[str],
    blocked_from: Mapping[str, Request],
) -> dict[str, Waiting]:
    """Where jobs take turns: the first that is left of each could not be placed, the others wait behind it.

    `blocked_from`: by job, the first of its requests that could never be placed, which is not among these.
    """
    reasons: dict[str, Waiting] = {}
    figures = Figures(pool, ledger, started)
    for account in accounts:
        room = account.room - account.promised
        ahead = 0
        behind: Waiting | None = None
        hopeless = blocked_from.get(account.job.id)
        for request, shape in account.waiting:
            if request.id in started or request.id in promised:
                continue
            if hopeless is not None and by_age(request) > by_age(hopeless):
                ahead = ahead or hopeless.slots
            if shape.slots > room:
                reasons[request.id] = explain.max_slots_used(account, ahead)
            elif ahead:
                behind = behind or explain.behind_first()
                reasons[request.id] = behind
            else:
                free = figures.free_for(shape)
                reasons[request.id] = explain.scattered(shape, free, figures.total, preempts=False)
            if shape.slots <= room:
                room -= shape.slots
                ahead += shape.slots
    return reasons


class Figures:
    """The pool in numbers, for the texts."""

    def __init__(self, pool: PoolState, ledger: Ledger, started: Mapping[str, Start]) -> None:
        used = dict(ledger.usage.used)
        for agent, slots in used_slots(started.values()).items():
            used[agent] = used.get(agent, 0) + slots
        open_agents = [agent for agent in pool.agents if agent.schedulable]
        self.in_use = sum(used.values())
        self.fixed = sum(ledger.usage.fixed.values())
        """Slots of work that cannot be preempted."""
        self._free_on = {a.id: max(0, a.slots - used.get(a.id, 0)) for a in open_agents}
        self._free = sum(self._free_on.values())
        self.total = self.in_use + self._free

    def free_for(self, shape: RequestShape) -> int:
        """Free slots, together or not, on agents that it may use."""
        return self._free - sum(self._free_on.get(agent, 0) for agent in shape.blocked)


def _why(
    figures: Figures, account: JobAccount, shape: RequestShape, share: int, *, within: bool
) -> Waiting:
    free = figures.free_for(shape)
    if within or free >= shape.slots:
        return explain.scattered(shape, free, figures.total, in_turn=within)
    if account.held + account.leaving > 0:
        return explain.share_used(account, share, figures.total)
    # Else its job's turn comes, and it is placed then.
    obstructed = shape.slots not in account.gangs or shape.slots > figures.total - figures.fixed
    return explain.queued(account, figures.in_use, figures.total, in_turn=obstructed)
