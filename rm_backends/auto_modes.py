"""Pools of `mode: auto`: each has two sides, and each request is sent to one of them when it comes.

The side of jobs has the name of the pool. What goes to the side of pilots counts as away from its own pool, as what
falls back does, so its grant says where it is. Nothing is stored: after a crash what waits is chosen for anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace

from master.core.batch_mode import FEW, BatchMode, choose
from master.core.reasons import Reason
from rm_backends.base import BY_MODE, AllocationRequest, FellBack
from windlass.base.errors import Unsatisfiable


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotSide:
    pool: str
    lasts_s: float
    """How long a pilot is of use to what starts there."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    request: AllocationRequest
    """As the side is asked."""
    why: str


class AutoModes:
    """`sides` by the name of the pool; `check` raises Unsatisfiable for what a pool could never hold."""

    def __init__(
        self,
        sides: Mapping[str, PilotSide],
        check: Callable[[AllocationRequest], object],
        has_work: Callable[[str, str], bool],
        knows: Callable[[str], bool],
    ) -> None:
        """`has_work`: whether work of a job waits or runs in a pool: (pool, job). `knows`: whether a request does."""
        self._sides = sides
        self._check = check
        self._has_work = has_work
        self._knows = knows
        self._waiting: dict[str, _Chosen] = {}
        self._kinds: defaultdict[tuple[str, Hashable], dict[str, None]] = defaultdict(dict)
        """Ids of those that wait."""

    def placed(
        self, request: AllocationRequest, held: Collection[tuple[str, str]] | None = None
    ) -> AllocationRequest:
        """For its side. The same again for one that waits.

        `held`: what pools do not know yet, as `has_work` has it; nor do they know then what was placed before.
        """
        side = self._sides.get(request.pool)
        if side is None or request.fell_back is not None:
            return request
        known = self._waiting.get(request.allocation_id)
        if known is not None:
            return replace(known.request, job=request.job)
        kind = _kind(request.pool, request)
        if held is None:
            self._drop_lost(kind)
        mode, why = self._choose(request, side, held or ())
        chosen = request
        if mode is BatchMode.PILOT:
            away = FellBack(home=request.pool, why=f"{BY_MODE}{why}")
            chosen = replace(request, pool=side.pool, fell_back=away)
        self._waiting[request.allocation_id] = _Chosen(chosen, why)
        self._kinds[kind][request.allocation_id] = None
        return chosen

    def follows(self, request: AllocationRequest) -> bool:
        """It was chosen for its side here: nothing moves it."""
        home = request.fell_back.home if request.fell_back is not None else request.pool
        side = self._sides.get(home)
        return side is not None and request.pool == side.pool

    def gone(self, allocation_id: str) -> None:
        """It waits no more."""
        known = self._waiting.pop(allocation_id, None)
        if known is None:
            return
        request = known.request
        home = request.fell_back.home if request.fell_back is not None else request.pool
        kind = _kind(home, request)
        self._kinds[kind].pop(allocation_id, None)
        if not self._kinds[kind]:
            del self._kinds[kind]

    def _drop_lost(self, kind: tuple[str, Hashable]) -> None:
        """Nobody tells of a grant that is lost before it is started. Looked at are as many as a choice depends on."""
        found, lost = 0, []
        for allocation_id in self._kinds.get(kind, ()):
            if not self._knows(allocation_id):
                lost.append(allocation_id)
            elif (found := found + 1) > FEW:
                break
        for allocation_id in lost:
            self.gone(allocation_id)

    def explain(self, allocation_id: str, reason: Reason | None) -> Reason | None:
        """With the side where it waits, and why there."""
        known = self._waiting.get(allocation_id)
        if known is None or reason is None:
            return reason
        where = "on a pilot" if known.request.fell_back is not None else "as a job of its own"
        return replace(reason, text=f"{reason.text}; mode auto runs it {where}: {known.why}")

    def away(self, job_id: str) -> set[str]:
        """The pools of pilots where work of that job waits or runs."""
        pools = (side.pool for side in self._sides.values())
        return {pool for pool in pools if self._has_work(pool, job_id)}

    def _choose(
        self, request: AllocationRequest, side: PilotSide, held: Collection[tuple[str, str]]
    ) -> tuple[BatchMode, str]:
        job = request.job
        if job.max_slots is not None and (mode := self._mode_of(request, side, held)):
            return mode, "its job has max_slots, and keeps to the mode of its other work"
        return choose(
            fits_one_node=self._fits_one_node(request, side),
            run_time_s=job.run_time_s,
            alike=len(self._kinds.get(_kind(request.pool, request), ())),
            lasts_s=side.lasts_s,
        )

    def _mode_of(
        self, request: AllocationRequest, side: PilotSide, held: Collection[tuple[str, str]]
    ) -> BatchMode | None:
        """Of other work of its job. Each side would give the job its `max_slots`."""
        for pool, mode in ((side.pool, BatchMode.PILOT), (request.pool, BatchMode.DISPATCH)):
            if (pool, request.job.job_id) in held or self._has_work(pool, request.job.job_id):
                return mode
        return None

    def _fits_one_node(self, request: AllocationRequest, side: PilotSide) -> bool:
        if request.slots == 1 and not request.requires.is_picky:
            return True  # also at a start, when the site has not said yet what its nodes have
        try:
            self._check(replace(request, pool=side.pool, single_agent=True))
        except Unsatisfiable:
            return False
        return True


def _kind(pool: str, request: AllocationRequest) -> tuple[str, Hashable]:
    return pool, request.shape
