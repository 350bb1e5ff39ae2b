"""What a request that cannot be placed keeps from those behind it: the agents on which its slots could come together.

Agents that are too small for it, or that it must not use, it does not keep. Nor, without preemption, does it keep
anything from requests of its own priority, and with preemption from preemptible ones: those are asked to leave when
it matters.
"""

from __future__ import annotations

from master.core.scheduler.availability import Availability
from master.core.scheduler.fitting import RequestShape, usable_agents
from master.core.scheduler.ledger import Ledger
from master.core.scheduler.types import PoolState, Request


class Blockade:
    """Grows as the queue is walked: `enter_priority`, `note_unplaced` what could get nothing."""

    def __init__(self, pool: PoolState, ledger: Ledger, availability: Availability) -> None:
        self._preemption = bool(pool.settings.preemption)
        self._mixed_sizes = pool.settings.allow_heterogeneous_fits
        self._availability = availability
        self._sizes = dict(ledger.sizes)
        self._sizes.update((agent, size) for agent, size, _, _ in ledger.expected)
        self._pending: dict[RequestShape, None] = {}
        """Noted, and not in force before the next priority."""
        self._noted: set[RequestShape] = set()
        self._outside: dict[RequestShape, RequestShape] = {}

    @property
    def is_anything_unplaced(self) -> bool:
        return bool(self._noted)

    def enter_priority(self) -> None:
        """From here on requests have a lower priority."""
        self._close()

    def note_unplaced(self, shape: RequestShape) -> None:
        if shape in self._noted:
            return
        self._noted.add(shape)
        self._pending[shape] = None
        if self._preemption:
            self._close()

    def holds_back(self, request: Request) -> bool:
        """Whether it may only use `Availability.open`."""
        return bool(self._availability.kept) and not (self._preemption and request.preemptible)

    def outside(self, shape: RequestShape) -> RequestShape | None:
        """The shape for a request that is held back: it must not use what is kept. None: all is kept."""
        if self._availability.is_nothing_open:
            return None
        narrow = self._outside.get(shape)
        if narrow is None:
            narrow = shape._replace(blocked=shape.blocked | self._availability.kept)
            self._outside[shape] = narrow
        return narrow

    def _close(self) -> None:
        for shape in self._pending:
            if not self._availability.is_nothing_open:
                self._availability.keep(
                    usable_agents(shape, self._sizes, mixed_sizes=self._mixed_sizes)
                )
                self._outside.clear()
        self._pending.clear()
