"""The slots of one decision, now and as they will be, with what is promised to requests that wait for them."""

from __future__ import annotations

from collections.abc import Iterable

from master.core.scheduler.fitting import REAL, FreeSlots, RequestShape
from master.core.scheduler.ledger import Ledger
from master.core.scheduler.types import Placement, Running, SchedulerSettings


class Availability:
    """Views that are kept in step.

    `later` has the slots that are free or on their way back, and expected agents as its second tier. `spare` has what
    may be given away now: free, and not promised to a request that waits for more of the same agents. `open` is
    `spare` without the agents that are kept for requests which could be promised nothing.

    With `strict` a promise holds what is free on its agents, and the rest of it comes back. Else it holds what comes
    back, and of what is free only as much as that is too little: more starts at once, though what it waits for may
    leave later than what it would have waited for.
    """

    def __init__(self, settings: SchedulerSettings, ledger: Ledger, *, strict: bool) -> None:
        self._settings = settings
        self._ledger = ledger
        self._strict = strict
        rows = ledger.free_agents
        self._sizes = {agent: size for agent, size, _, _ in rows}
        self._free = {agent: free for agent, _, free, _ in rows}
        self._leaving = {agent: dict(parts) for agent, parts in ledger.leaving.items()}
        self._unspoken = {agent: dict(parts) for agent, parts in ledger.leaving.items()}
        """What is leaving, less what requests were told to wait for: only for their reasons."""
        self._surplus_on: dict[str, int] = {}
        self._surplus = 0
        self._settling: tuple[str, ...] | None = None
        self._promised: dict[str, int] = {}
        self.left = sum(free for free in self._free.values() if free > 0)
        """Slots of agents that exist, free or on their way back, that nobody was given or promised."""
        self.left += sum(sum(parts.values()) for parts in self._leaving.values())
        self.left -= sum(ledger.kept.values())
        self._later: FreeSlots | None = None
        self._open: FreeSlots | None = None
        self.kept: frozenset[str] = frozenset()
        """Agents that `open` leaves out; expected ones, too."""
        self.is_nothing_open = False
        """Every agent is kept."""
        self.spare = FreeSlots(settings, rows, ledger.apart)

    @property
    def later(self) -> FreeSlots:
        """Built when first needed: on a pool that nothing leaves, what fits starts without it."""
        if self._later is None:
            returning = {agent: sum(parts.values()) for agent, parts in self._leaving.items()}
            closing, kept = self._ledger.closing, self._ledger.kept
            rows = [
                (
                    agent,
                    self._sizes[agent] - closing.get(agent, 0),
                    free + returning.get(agent, 0) - kept.get(agent, 0),
                    REAL,
                )
                for agent, free in self._free.items()
            ]
            self._later = FreeSlots(
                self._settings, [*rows, *self._ledger.expected], self._ledger.apart
            )
            self._refresh(self._leaving)
        return self._later

    @property
    def open(self) -> FreeSlots:
        return self.spare if self._open is None else self._open

    @property
    def is_anything_leaving(self) -> bool:
        return bool(self._leaving)

    def keep(self, agents: Iterable[str]) -> None:
        """Leave these agents out of `open` from now on."""
        if self._open is None:
            self._open = FreeSlots(self._settings, self.spare.rows(), self.spare.apart)
        new = frozenset(agents) - self.kept
        for agent in new:
            if agent in self._open:
                self._open.take({agent: self._open.free_on(agent)})
        self.kept |= new
        self.is_nothing_open = len(self.kept) >= len(self._free) + len(self._ledger.expected) > 0

    def start(self, placement: Placement) -> None:
        """Give spare slots away."""
        for agent, slots in placement.items():
            self._free[agent] -= slots
            self.left -= slots
            self._change_spare(agent, -slots)
        if self._later is not None:
            self._later.take(placement)
            self._refresh(placement)

    def promise(self, placement: Placement) -> None:
        """Reserve slots of `later`."""
        self.later.take(placement)
        self.note_cleared(placement)

    def note_cleared(self, placement: Placement) -> None:
        """These slots of `later` were taken by who cleared them for a request that waits for them."""
        for agent, slots in placement.items():
            self._promised[agent] = self._promised.get(agent, 0) + slots
            if agent in self._free:
                self.left -= slots
        self._refresh(placement)

    def is_free(self, placement: Placement) -> bool:
        """Whether it can start there now. Several agents are taken whole, with nothing else on them."""
        if len(placement) == 1:
            return all(self.spare.free_on(agent) >= n for agent, n in placement.items())
        return all(self.spare.free_on(agent) == self._sizes.get(agent) for agent in placement)

    def undo_start(self, placement: Placement) -> None:
        for agent, slots in placement.items():
            self._free[agent] += slots
            self.left += slots
        self.later.give_back(placement)
        self._refresh(placement)

    def undo_promise(self, placement: Placement) -> None:
        for agent, slots in placement.items():
            self._promised[agent] -= slots
            self.left += slots
        self.later.give_back(placement)
        self._refresh(placement)
        for agent in placement:
            if agent in self._leaving:
                self._unspoken[agent] = dict(self._leaving[agent])

    def note_asked(self, victim: Running) -> None:
        """Its slots were added to `later` by who chose it; they come back when it has left.

        The place that it made room on is told next (`swap`), so only other agents are looked at here.
        """
        for agent, slots in victim.returning.items():
            self._leaving.setdefault(agent, {})[victim.request.id] = slots
            self._unspoken.setdefault(agent, {})[victim.request.id] = slots
            self.left += slots
        self._settling = None
        if len(victim.placement) > 1:
            self._refresh(victim.placement)

    def note_taken_back(self, victim: Running) -> None:
        """It was about to start: its slots were added to `later` by who chose it, and are free."""
        for agent, slots in victim.placement.items():
            self._free[agent] += slots
            self.left += slots
        self._refresh(victim.placement)

    def swap(self, cleared: Placement, shape: RequestShape) -> dict[str, int] | None:
        """A free place for a request that a place was just cleared for, if others can wait for that one instead.

        Slots that are free but promised may become spare when more comes back to the same agent. None: it waits, as
        it always does when promises are strict.
        """
        if self._strict or all(self._free[agent] <= 0 for agent in cleared):
            self.note_cleared(cleared)
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
            parts = self._unspoken.get(agent)
            while parts and needed > 0:
                one, slots = next(iter(parts.items()))
                named[one] = None
                if slots > needed:
                    parts[one] = slots - needed
                else:
                    del parts[one]
                needed -= slots
        return tuple(sorted(named)) or self._leavers(placement)

    def is_settling(self, shape: RequestShape) -> bool:
        """Whether `settling` names anybody."""
        return self._surplus >= shape.slots

    def settling(self, shape: RequestShape) -> tuple[str, ...]:
        """Who is leaving agents on which slots enough for `shape` will be left over, though perhaps not where it can
        use them.

        While that is so nothing more is asked to leave for it: how the slots fall is known only when they are free,
        and asking again before that would ask for more than is needed.
        """
        if not self.is_settling(shape):
            return ()
        if self._settling is None:
            self._settling = self._leavers(self._surplus_on)
        return self._settling

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
            promised = self._promised.get(agent, 0)
            spare = max(0, free - promised) if self._strict else min(free, left)
            change = spare - self.spare.free_on(agent)
            if change:
                self._change_spare(agent, change)
            if agent in self._leaving:
                self._surplus += max(0, left) - self._surplus_on.get(agent, 0)
                self._surplus_on[agent] = max(0, left)

    def _change_spare(self, agent: str, change: int) -> None:
        self.spare.change(agent, change)
        if self._open is not None and agent not in self.kept:
            self._open.change(agent, change)
