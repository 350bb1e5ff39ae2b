"""The slots of one decision, now and as they will be, with what is promised to requests that wait for them."""

from __future__ import annotations

from collections.abc import Iterable

from master.core.scheduler.fitting import REAL, FreeSlots, Shape
from master.core.scheduler.ledger import Ledger
from master.core.scheduler.types import Placement, Running, SchedulerSettings


class Outlook:
    """Two views that are kept in step.

    `later` has the slots that are free or on their way back, and expected agents as its second tier. `spare` has what
    may be given away now: free, and not promised to a request that waits for more of the same agents.
    """

    def __init__(self, settings: SchedulerSettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger
        rows = ledger.free_agents
        self._sizes = {agent: size for agent, size, _, _ in rows}
        self._free = {agent: free for agent, _, free, _ in rows}
        self._leaving = {agent: dict(parts) for agent, parts in ledger.leaving.items()}
        self._unspoken = {agent: dict(parts) for agent, parts in ledger.leaving.items()}
        """What is leaving, less what requests were told to wait for: only for their reasons."""
        self._surplus_on: dict[str, int] = {}
        self._surplus = 0
        self._later: FreeSlots | None = None
        self.spare = FreeSlots(settings, rows)

    @property
    def later(self) -> FreeSlots:
        """Built when first needed: on a pool that nothing leaves, what fits starts without it."""
        if self._later is None:
            returning = {agent: sum(parts.values()) for agent, parts in self._leaving.items()}
            rows = [
                (agent, self._sizes[agent], free + returning.get(agent, 0), REAL)
                for agent, free in self._free.items()
            ]
            self._later = FreeSlots(self._settings, [*rows, *self._ledger.expected])
            self._refresh(self._leaving)
        return self._later

    @property
    def is_anything_leaving(self) -> bool:
        return bool(self._leaving)

    def start(self, placement: Placement) -> None:
        """Give spare slots away."""
        for agent, slots in placement.items():
            self._free[agent] -= slots
        self.spare.take(placement)
        if self._later is not None:
            self._later.take(placement)
            self._refresh(placement)

    def promise(self, placement: Placement) -> None:
        """Reserve slots of `later`."""
        self.later.take(placement)
        self._refresh(placement)

    def note_asked(self, victim: Running) -> None:
        """Its slots were added to `later` by who chose it; they come back when it has left."""
        for agent, slots in victim.placement.items():
            self._leaving.setdefault(agent, {})[victim.request.id] = slots
            self._unspoken.setdefault(agent, {})[victim.request.id] = slots
        self._refresh(victim.placement)

    def note_taken_back(self, victim: Running) -> None:
        """It was about to start: its slots were added to `later` by who chose it, and are free."""
        for agent, slots in victim.placement.items():
            self._free[agent] += slots
        self._refresh(victim.placement)

    def swap(self, cleared: Placement, shape: Shape) -> dict[str, int] | None:
        """A free place for a request that a place was just cleared for, if others can wait for that one instead.

        Slots that are free but promised may become spare when more comes back to the same agent. None: it waits.
        """
        if all(self._free[agent] <= 0 for agent in cleared):
            self._refresh(cleared)
            return None
        self.later.give_back(cleared)
        self._refresh(cleared)
        placement = self.spare.find(shape)
        if placement is None:
            self.promise(cleared)
        return placement

    def wait_on(self, placement: Placement) -> tuple[str, ...]:
        """Whose slots a request with this future placement waits for. No slot is named to two requests."""
        named: dict[str, None] = {}
        for agent, needed in placement.items():
            parts = self._unspoken.get(agent, {})
            while parts and needed > 0:
                one, slots = next(iter(parts.items()))
                named[one] = None
                if slots > needed:
                    parts[one] = slots - needed
                else:
                    del parts[one]
                needed -= slots
        return tuple(sorted(named)) or self._leavers(placement)

    def settling(self, shape: Shape) -> tuple[str, ...]:
        """Who is leaving agents on which slots enough for `shape` will be left over, though perhaps not where it can
        use them.

        While that is so nothing more is asked to leave for it: how the slots fall is known only when they are free,
        and asking again before that would ask for more than is needed.
        """
        return self._leavers(self._surplus_on) if self._surplus >= shape.slots else ()

    def _leavers(self, agents: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted({one for agent in agents for one in self._leaving.get(agent, ())}))

    def _refresh(self, agents: Iterable[str]) -> None:
        """Bring `spare` and the surplus in step with `later` on these agents."""
        later = self.later
        for agent in agents:
            free = self._free.get(agent)
            if free is None:
                continue
            left = later.free_on(agent)
            change = min(free, left) - self.spare.free_on(agent)
            if change:
                self.spare.give_back({agent: change})
            if agent in self._leaving:
                self._surplus += max(0, left) - self._surplus_on.get(agent, 0)
                self._surplus_on[agent] = max(0, left)
