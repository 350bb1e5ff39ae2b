"""The reason of everything that neither starts nor was promised anything, and whether it is demand."""

from __future__ import annotations

from collections.abc import Container, Mapping

from master.core.scheduler import explain
from master.core.scheduler.fitting import Shape
from master.core.scheduler.ledger import JobBook, Ledger, used_slots
from master.core.scheduler.outlook import Outlook
from master.core.scheduler.types import PoolState, Start, Waiting


def explain_rest(
    pool: PoolState,
    ledger: Ledger,
    shares: Mapping[str, int],
    outlook: Outlook,
    *,
    started: Mapping[str, Start],
    promised: Mapping[str, Waiting],
    unserved: Container[str],
) -> dict[str, Waiting]:
    """`unserved` are requests within their job's share that still could not be placed."""
    reasons: dict[str, Waiting] = {}
    for request, shape in ledger.above_max_slots:
        limit = ledger.books[request.job_id].job.max_slots or 0
        reasons[request.id] = explain.above_max_slots(shape, limit)
    for request, shape in ledger.hopeless:
        reasons[request.id] = explain.no_such_agent(shape, pool)
    figures = _Figures(pool, started)
    unfit: set[Shape] = set()
    for job_id, book in ledger.books.items():
        left = [e for e in book.waiting if e[0].id not in started]
        if not left:
            continue
        room = book.room - sum(shape.slots for request, shape in left if request.id in promised)
        same: dict[tuple[Shape, bool | None], Waiting] = {}
        for request, shape in left:
            if request.id in promised:
                continue
            if shape.slots > room:
                reasons[request.id] = same.get((shape, None)) or same.setdefault(
                    (shape, None), explain.max_slots_used(book)
                )
                continue
            room -= shape.slots
            if outlook.is_anything_leaving and shape not in unfit:
                placement = outlook.later.find(shape)
                if placement is not None:
                    outlook.promise(placement)
                    reasons[request.id] = explain.returning(shape)
                    continue
                unfit.add(shape)
            within = request.id in unserved
            reasons[request.id] = same.get((shape, within)) or same.setdefault(
                (shape, within), figures.why(book, shape, shares[job_id], within=within)
            )
    return reasons


class _Figures:
    """The pool in numbers, for the texts."""

    def __init__(self, pool: PoolState, started: Mapping[str, Start]) -> None:
        used = used_slots([*pool.running, *started.values()])
        open_agents = [agent for agent in pool.agents if agent.schedulable]
        self._in_use = sum(used.values())
        self._free_on = {a.id: max(0, a.slots - used.get(a.id, 0)) for a in open_agents}
        self._free = sum(self._free_on.values())
        self._total = self._in_use + self._free

    def why(self, book: JobBook, shape: Shape, share: int, *, within: bool) -> Waiting:
        free = self._free - sum(self._free_on.get(agent, 0) for agent in shape.blocked)
        if within or free >= shape.slots:
            return explain.scattered(shape, free, self._total)
        if book.held + book.leaving > 0:
            return explain.share_used(book, share, self._total)
        return explain.queued(book, self._in_use, self._total)
