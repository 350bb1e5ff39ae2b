"""What is looked up of an experiment's trials without a walk over all of them; kept with each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from master.allocations.machine import AllocationState
from master.experiments.state import TrialState


class TrialIndex:
    """Of one experiment."""

    def __init__(self, trials: Iterable[TrialState] = ()) -> None:
        self._request_ids: dict[int, str] = {}
        self._waiting: dict[str, None] = {}
        """Request ids of those without a running allocation, the longest waiting first."""
        for trial in trials:
            self.note(trial)

    def note(self, trial: TrialState) -> None:
        """The trial is new, or has changed."""
        self._request_ids[trial.id] = trial.request_id
        if _waits(trial):
            self._waiting[trial.request_id] = None
        else:
            self._waiting.pop(trial.request_id, None)

    def request_id(self, trial_id: int) -> str:
        """Raises KeyError."""
        return self._request_ids[trial_id]

    def trial_ids(self) -> Iterable[int]:
        return self._request_ids.keys()

    def waiting(self, trials: Mapping[str, TrialState]) -> Iterator[TrialState]:
        """Those whose allocation has not started, or that sit out a pause before the next."""
        return (trials[request_id] for request_id in self._waiting)

    def waiting_allocations(self, trials: Mapping[str, TrialState]) -> list[AllocationState]:
        """Those without slots, oldest first."""
        allocations = (trial.open_allocation for trial in self.waiting(trials))
        found = [a for a in allocations if a is not None and not a.has_slots]
        return sorted(found, key=lambda allocation: (allocation.requested_at, allocation.id))


def _waits(trial: TrialState) -> bool:
    allocation = trial.open_allocation
    return trial.not_before is not None if allocation is None else allocation.started_at is None
