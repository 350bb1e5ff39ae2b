"""Events of experiments and trials in sentences, for pages and `det` alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from master.allocations.machine import AllocationState
from master.allocations.outcome import OutcomeKind
from master.experiments.queries.events import Event, EventKind

_BAD = frozenset({OutcomeKind.FAILED, OutcomeKind.TRANSIENT})


def is_problem(event: Event) -> bool:
    if event.kind is EventKind.ALLOCATION_ENDED:
        outcome = event.allocation.outcome if event.allocation is not None else None
        return outcome is not None and outcome.kind in _BAD
    return event.state == "ERROR"


def text_of(event: Event) -> str:
    return _TEXTS[event.kind](event)


def _of_run(event: Event, text: Callable[[AllocationState], str]) -> str:
    """Names the run. Its row may be gone: read between two queries."""
    run = event.allocation
    if run is None:
        return "A run that has been deleted meanwhile"
    return f"Run {run.run_id} {text(run)}"


def _queued(run: AllocationState) -> str:
    slots = f"{run.slots} slot{'' if run.slots == 1 else 's'}"
    return f"requested {slots} in pool {run.pool}"


def _started(run: AllocationState) -> str:
    agents = dict.fromkeys(one.container.agent_id for one in run.containers)
    where = f" on {', '.join(agents)}" if agents else ""
    fell_back = f", in pool {run.granted_pool}: {run.fell_back_because}" if run.granted_pool else ""
    return f"started{where}{fell_back}"


def _asked(run: AllocationState) -> str:
    return f"was asked to save a checkpoint and leave: {run.preempt_reason or 'no reason is known'}"


def _ended(run: AllocationState) -> str:
    return f"ended: {run.outcome.reason}" if run.outcome is not None else "ended"


def _checkpoint(event: Event) -> str:
    found = event.checkpoint
    if found is None:
        return "A checkpoint that has been deleted meanwhile"
    gone = " It is deleted." if found.state == "DELETED" else ""
    return f"Checkpoint {found.uuid} at step {found.steps}.{gone}"


def _end(what: str) -> Callable[[Event], str]:
    def text(event: Event) -> str:
        why = f": {event.error}" if event.error else ""
        return f"{what} ended: {event.state.lower().replace('_', ' ')}{why}"

    return text


_TEXTS: Mapping[EventKind, Callable[[Event], str]] = {
    EventKind.EXPERIMENT_CREATED: lambda event: "Experiment submitted",
    EventKind.TRIAL_CREATED: lambda event: "Trial created",
    EventKind.ALLOCATION_QUEUED: lambda event: _of_run(event, _queued),
    EventKind.ALLOCATION_STARTED: lambda event: _of_run(event, _started),
    EventKind.PREEMPTION_REQUESTED: lambda event: _of_run(event, _asked),
    EventKind.ALLOCATION_ENDED: lambda event: _of_run(event, _ended),
    EventKind.CHECKPOINT_REPORTED: _checkpoint,
    EventKind.TRIAL_ENDED: _end("Trial"),
    EventKind.EXPERIMENT_ENDED: _end("Experiment"),
}
