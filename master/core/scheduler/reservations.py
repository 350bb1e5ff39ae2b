"""The starvation guard: places kept for large gangs that have waited for longer than `reserve_after`.

Without it smaller work could flow past a gang for ever, because its slots never happen to be free together. The gangs
that starve get their places first, in the policy's order: what is free now, else what `release_forecast` expects back
first. Then the rest is decided with what is left, and may use a reserved slot only if it is sure to be gone when the
reservation begins. So no reservation is delayed by later work (conservative backfill). Where a place waits for work
whose end nobody knows, nothing new is started on its agents.

Nothing is asked to stop for a reservation. Waiting is bounded all the same: the first gang in order keeps its place
until that is free (see `release_forecast`), and then the next one is first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from math import inf

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.explain import count, names
from master.core.scheduler.fitting import (
    ALL_ALIKE,
    REAL,
    Apart,
    FreeAgent,
    FreeSlots,
    RequestShape,
    by_kind,
    whole_agents,
)
from master.core.scheduler.release_forecast import (
    KNOWN,
    NEWER,
    RESERVED,
    Parcel,
    Rank,
    ReleaseForecast,
    facts_since,
)
from master.core.scheduler.types import (
    Kept,
    Placement,
    PoolState,
    Request,
    SchedulerSettings,
    Waiting,
)

LARGE = 2
"""Gangs from this many slots on are guarded: one slot is never kept from anybody by being scattered."""
MOST = 16
"""How many gangs have a reservation at a time. Each costs about a millisecond in a large pool, and plans that reach
further ahead rarely hold. The others' turn comes: those before them start."""
MOST_DRAINING = 0.25
"""Part of the pool that may be kept for gangs without a known time. Their agents empty without backfill, which is slots
unused; so the first always gets its place, and others while this suffices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The place of a gang that starves."""

    request_id: str
    placement: Placement
    at: float | None
    """When it is free, in seconds since the epoch (`PoolState.now`: it is); None when nobody knows."""
    waits_for: tuple[str, ...] = ()
    """The running requests whose slots these are now."""


def reserve_for_starving(
    pool: PoolState,
    free: Iterable[FreeAgent],
    candidates: Iterable[tuple[Request, RequestShape]],
    *,
    only_later: bool = False,
) -> Reservations | None:
    """Reservations for those that starve; None if none does, or if the guard is off.

    `candidates` are what the policy would start if only it fitted, in its order. `free` are the agents that may get
    work, with their free slots now. `only_later`: who has a place that is free already gets none.
    """
    if pool.settings.reserve_after is None:
        return None
    after = pool.settings.reserve_after.total_seconds()
    long_ago = pool.now - after
    starving = list(
        islice(
            (
                (request, shape)
                for request, shape in candidates
                if shape.slots >= LARGE and request.requested <= long_ago
            ),
            MOST,
        )
    )
    if not starving:
        return None
    since = facts_since(starving[0][0].requested, after, pool.now)
    release_forecast = ReleaseForecast(free, pool.running, now=pool.now, since=since)
    reservations = Reservations(pool.settings, free, release_forecast, by_kind(pool.agents))
    for request, shape in starving:
        reservations.reserve(request, shape, only_later=only_later)
    return reservations


class Reservations:
    """What is reserved, and what is left for others: now, and for how long."""

    def __init__(
        self,
        settings: SchedulerSettings,
        free: Iterable[FreeAgent],
        release_forecast: ReleaseForecast,
        apart: Apart = ALL_ALIKE,
    ) -> None:
        self.by_request: dict[str, Reservation] = {}
        """In the order in which they were made."""
        self._settings = settings
        self._release_forecast = release_forecast
        self._apart = apart
        self._rows = {row[0]: row for row in free}
        self._free = {agent: row[2] for agent, row in self._rows.items()}
        self._left = sum(free for free in self._free.values() if free > 0)
        self._on: dict[str, list[Reservation]] = {}
        self._times: list[float] = []
        """When known reservations begin, sorted."""
        self._draining = 0
        self._most_draining = MOST_DRAINING * sum(release_forecast.sizes.values())
        self._ready: dict[int, dict[str, Rank]] = {}
        """Slots -> agent -> when it has them."""
        self._views: dict[float, FreeSlots] = {}
        """What work may take that is gone when reservations after the key begin; infinity: any work."""
        self._unfit: dict[float, set[RequestShape]] = {}

    def reserve(
        self, request: Request, shape: RequestShape, *, only_later: bool = False
    ) -> Reservation | None:
        """The best place for a gang, behind those that have one; None if there is none, or too much is kept already.

        A reservation that begins now counts as started.
        """
        placement = self._view(inf).find(shape)
        if placement is not None:
            if only_later:
                return None
            self.start(placement, request.expected_run_s)
            found = Reservation(
                request_id=request.id, placement=placement, at=self._release_forecast.now
            )
        else:
            later = self._reserve_later(request, shape)
            if later is None:
                return None
            found = later
        self.by_request[request.id] = found
        return found

    def kept(self) -> dict[str, Kept]:
        """By agent, what of its slots is for reservations that have not begun."""
        found: dict[str, Kept] = {}
        for agent, reservations in self._on.items():
            total = sum(one.placement[agent] for one in reservations)
            free = self._free[agent] - self._spare(agent, inf)
            found[agent] = Kept(free, max(0, total - free))
        return found

    def rows(self) -> list[FreeAgent]:
        """Free slots that anybody may take for any time: what a policy decides on."""
        return self._view(inf).rows()

    @property
    def is_full(self) -> bool:
        """No slot is free, kept or not."""
        return self._left <= 0

    def find(self, shape: RequestShape, expected_run_s: float | None) -> dict[str, int] | None:
        """A free place for work of that length that delays no reservation; takes nothing."""
        bound = self._bound(expected_run_s)
        unfit = self._unfit.setdefault(bound, set())
        if shape in unfit:
            return None
        placement = self._view(bound).find(shape)
        if placement is None:
            unfit.add(shape)
        return placement

    def start(self, placement: Placement, expected_run_s: float | None) -> None:
        """Account for work that gets free slots now."""
        until = self._back_at(self._release_forecast.now, expected_run_s)
        for agent, slots in placement.items():
            self._free[agent] -= slots
            self._left -= slots
            self._release_forecast.add(
                agent, self._release_forecast.remove(agent, slots, until), until
            )
        self._refresh(placement)

    def _reserve_later(self, request: Request, shape: RequestShape) -> Reservation | None:
        whole = (
            self._whole(shape._replace(blocked=shape.blocked | others)) for others in self._apart
        )
        places = [place for place in (self._one(shape), *whole) if place is not None]
        if not places:
            return None
        rank, placement = min(places, key=lambda place: place[0])
        if self._release_forecast.time(rank) is None and not self._may_drain(shape.slots):
            return None
        taken: list[Parcel] = []
        for agent, slots in placement.items():
            taken += self._release_forecast.take(agent, slots, rank)
        times = [self._release_forecast.time(parcel.rank) for parcel in taken]
        known = [time for time in times if time is not None]
        at = max(known) if len(known) == len(times) else None
        if at is None:
            self._draining += shape.slots
        else:
            insort(self._times, at)
        until = self._back_at(at, request.expected_run_s)
        found = Reservation(
            request_id=request.id,
            placement=placement,
            at=at,
            waits_for=tuple(sorted({parcel.by for parcel in taken if parcel.by})),
        )
        for agent, slots in placement.items():
            self._release_forecast.add(agent, slots, until)
            self._on.setdefault(agent, []).append(found)
        self._refresh(placement)
        return found

    def _may_drain(self, slots: int) -> bool:
        return self._draining == 0 or self._draining + slots <= self._most_draining

    def _one(self, shape: RequestShape) -> tuple[Rank, dict[str, int]] | None:
        ready = self._ready_for(shape.slots)
        best = min(
            ((rank, agent) for agent, rank in ready.items() if agent not in shape.blocked),
            default=None,
        )
        return None if best is None else (best[0], {best[1]: shape.slots})

    def _whole(self, shape: RequestShape) -> tuple[Rank, dict[str, int]] | None:
        """The shortest row of agents of one slot type, by when they are empty, of which some make the gang."""
        if shape.single_agent:
            return None
        sizes = self._release_forecast.sizes
        empty = sorted(
            (rank, agent)
            for size in set(sizes.values())
            if 0 < size <= shape.slots
            for agent, rank in self._ready_for(size).items()
            if sizes[agent] == size and agent not in shape.blocked
        )

        def plan(length: int) -> dict[int, int] | None:
            idle = Counter(sizes[agent] for _, agent in empty[:length])
            mixed_sizes = self._settings.allow_heterogeneous_fits
            return whole_agents(shape.slots, idle, mixed_sizes=mixed_sizes)

        length = bisect_left(range(len(empty) + 1), True, key=lambda n: plan(n) is not None)
        left = plan(length)
        if left is None:
            return None
        placement: dict[str, int] = {}
        rank = empty[length - 1][0]
        for _, agent in empty[:length]:
            size = sizes[agent]
            if left.get(size, 0) > 0:
                left[size] -= 1
                placement[agent] = size
        return rank, placement

    def _ready_for(self, slots: int) -> dict[str, Rank]:
        found = self._ready.get(slots)
        if found is None:
            found = self._ready[slots] = {
                agent: rank
                for agent, size in self._release_forecast.sizes.items()
                if size >= slots
                and (rank := self._release_forecast.ready(agent, slots)) is not None
            }
        return found

    def _back_at(self, start: float | None, run_s: float | None) -> Rank:
        if start is not None and run_s is not None:
            return (KNOWN, start + run_s)
        if start == self._release_forecast.now:
            return (NEWER, self._release_forecast.now)  # as it will rank from the next decision on
        return (RESERVED, float(len(self.by_request)))

    def _bound(self, expected_run_s: float | None) -> float:
        """The last reservation that work of that length would still be there for; infinity: it may be any."""
        if expected_run_s is None:
            return inf
        before = bisect_left(self._times, self._release_forecast.now + expected_run_s)
        if before == len(self._times):
            return inf
        return self._times[before - 1] if before else -inf

    def _view(self, bound: float) -> FreeSlots:
        view = self._views.get(bound)
        if view is None:
            rows = [
                (agent, row[1], self._spare(agent, bound), REAL)
                for agent, row in self._rows.items()
            ]
            view = self._views[bound] = FreeSlots(self._settings, rows, self._apart)
        return view

    def _spare(self, agent: str, bound: float) -> int:
        spare = self._free[agent]
        for reservation in self._on.get(agent, ()):
            if reservation.at is None:
                return min(0, spare)
            if reservation.at <= bound:
                spare = min(spare, self._release_forecast.sure_by(agent, reservation.at))
        return spare

    def _refresh(self, agents: Iterable[str]) -> None:
        for agent in agents:
            for bound, view in self._views.items():
                change = self._spare(agent, bound) - view.free_on(agent)
                if change:
                    view.give_back({agent: change})
            for slots, ready in self._ready.items():
                rank = self._release_forecast.ready(agent, slots)
                if rank is not None and agent in ready:
                    ready[agent] = rank


def reserved(reservation: Reservation, now: float) -> Waiting:
    """What a gang with a reservation that has not begun is told. It stays demand: new capacity may serve it sooner."""
    place = names(sorted(reservation.placement))
    if reservation.at is not None:
        minutes = max(1, round((reservation.at - now) / 60))
        when = f"free in about {count(minutes, 'minute')}"
    else:
        when = f"free when {names(reservation.waits_for)} have ended"
    slots = count(sum(reservation.placement.values()), "slot")
    text = f"queued: it has waited long, so {slots} are kept for it on {place}, {when}"
    return Waiting(
        reason=Reason(kind=ReasonKind.QUEUED, text=text), needs_capacity=True, in_turn=True
    )
