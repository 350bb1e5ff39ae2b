"""The state of one experiment with its trials: frozen, complete, enough to go on after a restart.

    experiment   ACTIVE <-> PAUSED --> STOPPING_{COMPLETED,CANCELED,KILLED,ERROR} --> COMPLETED | CANCELED | ERROR
    trial        ACTIVE           --> STOPPING_{COMPLETED,CANCELED,KILLED,ERROR} --> COMPLETED | CANCELED | ERROR

A trial is PAUSED only in what users see: it is its experiment that is paused. `unmanaged` has those of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from master.allocations.machine import AllocationState
from master.allocations.start_failures import StartFailure
from master.core.expconf import ExperimentConfig
from master.core.machines import NO_REQUIREMENTS, Requirements
from master.core.persistent_map import PersistentMap
from master.core.searcher.search import SearchState
from master.core.searcher.types import ExitReason
from rm_backends.base import NO_BATCH, BatchOptions
from windlass.base.formats.json_types import JsonMapping


class Phase(StrEnum):
    """Of an experiment or a trial. The words of the published API without their `STATE_` prefix."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    STOPPING_COMPLETED = "STOPPING_COMPLETED"
    STOPPING_CANCELED = "STOPPING_CANCELED"
    STOPPING_KILLED = "STOPPING_KILLED"
    STOPPING_ERROR = "STOPPING_ERROR"
    COMPLETED = "COMPLETED"
    CANCELED = "CANCELED"
    ERROR = "ERROR"
    DELETING = "DELETING"
    """Only an experiment that had ended: its files and rows go. Nothing of it lives in memory."""
    DELETE_FAILED = "DELETE_FAILED"
    """Some of its files could not be deleted; it may be tried again."""

    @property
    def is_stopping(self) -> bool:
        return self in TERMINAL_OF

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL_OF: Mapping[Phase, Phase] = {
    Phase.STOPPING_COMPLETED: Phase.COMPLETED,
    Phase.STOPPING_CANCELED: Phase.CANCELED,
    Phase.STOPPING_KILLED: Phase.CANCELED,
    Phase.STOPPING_ERROR: Phase.ERROR,
}
"""Where each stopping phase leads when nothing runs any more."""

_ENDED_WORDS: Mapping[Phase, str] = {
    Phase.COMPLETED: "completed",
    Phase.CANCELED: "been canceled",
    Phase.ERROR: "failed",
    Phase.DELETING: "been marked for deletion",
    Phase.DELETE_FAILED: "ended, and could not be deleted",
}
ENDS = frozenset(TERMINAL_OF.values())
"""How what lives may end."""
TERMINAL = frozenset(_ENDED_WORDS)


def already_ended(experiment_id: int, phase: Phase) -> str:
    """What a user is told whose change comes too late."""
    return f"Experiment {experiment_id} has already {_ENDED_WORDS[phase]}"


def not_ended(experiment_id: int, phase: Phase) -> str:
    """What a user is told whose change comes too early."""
    return f"Experiment {experiment_id} has not ended yet: it is {phase}"


_RUNNING_MAY_GO = frozenset(TERMINAL_OF) | ENDS
ALLOWED: Mapping[Phase, frozenset[Phase]] = {
    Phase.ACTIVE: frozenset({Phase.PAUSED}) | _RUNNING_MAY_GO,
    Phase.PAUSED: frozenset({Phase.ACTIVE}) | _RUNNING_MAY_GO,
    # A kill overtakes a graceful stop; an error overtakes nothing that the user asked for.
    Phase.STOPPING_COMPLETED: frozenset(
        {Phase.STOPPING_CANCELED, Phase.STOPPING_KILLED, Phase.STOPPING_ERROR} | ENDS
    ),
    Phase.STOPPING_CANCELED: frozenset({Phase.STOPPING_KILLED} | ENDS),
    Phase.STOPPING_KILLED: ENDS,
    Phase.STOPPING_ERROR: frozenset({Phase.STOPPING_KILLED} | ENDS),
    **dict.fromkeys(TERMINAL, frozenset[Phase]()),
}
"""What may follow what, for experiments and trials alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What running an experiment's trials needs of its config."""

    pool: str
    slots_per_trial: int
    max_restarts: int = 5
    single_node: bool = False
    requires: Requirements = NO_REQUIREMENTS
    batch: BatchOptions = NO_BATCH
    weight: float = 1.0
    max_slots: int | None = None
    priority: int | None = None
    queue_position: Decimal | None = None
    """Where its job was moved to among jobs of its priority: seconds since the epoch. None: not moved."""
    preemption_timeout_s: float = 3600.0
    metric: str = ""
    smaller_is_better: bool = True
    time_metric: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetrics:
    """The newest report of one metric group of a trial: enough to recognise repeats and roll-backs."""

    run_id: int
    max_steps: int
    last_id: int
    """Row id of the report at `max_steps`."""
    last_avg: JsonMapping = field(default_factory=dict)
    last_has_batches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReports:
    """What is derived from a trial's live (not archived) reports."""

    steps_completed: int = 0
    groups: Mapping[str, GroupMetrics] = field(default_factory=dict)
    summary: JsonMapping = field(default_factory=dict)
    latest_validation_id: int | None = None
    latest_validation: float | None = None
    """The searcher metric of the newest validation that has it."""
    best_validation_id: int | None = None
    best: float | None = None
    """The best searcher metric so far, as reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialState:
    id: int
    request_id: str
    task_id: str
    hparams: JsonMapping
    seed: int
    created_at: datetime
    phase: Phase = Phase.ACTIVE
    restarts: int = 0
    aborts: int = 0
    """Runs in a row that could not even be started: bounded, so that a broken node cannot spin."""
    start_failure: StartFailure | None = None
    """Of these the last ones that a node refused. Not stored: `aborts` bounds what restarts forget."""
    lost_runs: int = 0
    """Allocations since the last new checkpoint that others ended: machines lost, slots taken back."""
    checkpoint_run_id: int = 0
    """The run that made the newest checkpoint; 0: none, or it is not known."""
    not_before: datetime | None = None
    """After an allocation that could not be started: no new one before this. Not stored: a restart tries at once."""
    run_id: int = 0
    progress: float = 0.0
    progressed_at: datetime | None = None
    """When it last reported its progress. Not stored: only the pace of an allocation is learned from it."""
    awaits_point: bool = False
    """A sampler is still to choose its hyperparameters: it does not run before. Stored with the search."""
    awaits_turn: bool = False
    """So many others of its search run as may at a time. Not stored: derived."""
    searcher_stopped: bool = False
    early_exit: ExitReason | None = None
    early_exit_at: datetime | None = None
    log_policy: str = ""
    """The name of the log policy that matched last."""
    retries_cancelled: bool = False
    """A log policy said so: the next failure is final."""
    avoids: tuple[str, ...] = ()
    """Agents and nodes that log policies excluded."""
    warm_start_checkpoint: str | None = None
    latest_checkpoint: str | None = None
    latest_checkpoint_steps: int = 0
    metrics: TrialReports = field(default_factory=TrialReports)
    runner_state: str = ""
    error: str = ""
    ended_at: datetime | None = None
    allocation: AllocationState | None = None
    """The current allocation, or the last one."""
    external_id: str | None = None
    """Of an unmanaged trial: what its process calls it."""
    last_activity: datetime | None = None
    """When the process of an unmanaged trial was last heard of; None before it starts."""
    not_lost_before: datetime | None = None
    """After a restart of the master, which heard nobody. Not stored."""

    @property
    def open_allocation(self) -> AllocationState | None:
        allocation = self.allocation
        return allocation if allocation is not None and allocation.is_open else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentState:
    id: int
    job_id: str
    owner_id: int
    name: str
    config: ExperimentConfig
    """Complete; it says what `settings` do."""
    settings: RunSettings
    searcher: SearchState
    created_at: datetime
    phase: Phase = Phase.PAUSED
    unmanaged: bool = False
    """Its processes run outside of the cluster: it has no allocations, and its search is asked nothing."""
    searcher_seq: int = 0
    """How many searcher events are logged."""
    trials: PersistentMap[str, TrialState] = field(default_factory=PersistentMap[str, TrialState])
    """By request id, in order of creation."""
    open_trials: int = 0
    """How many of them have not ended."""
    progress: float = 0.0
    error: str = ""
    ended_at: datetime | None = None
    last_release: str = ""
    """Why the scheduler last asked an allocation for its slots. Not stored: a restart knows of the newest ones only."""

    def trial_of_allocation(self, allocation_id: str) -> TrialState:
        """The trial whose current allocation this is. Raises KeyError."""
        trial = self.trials[request_id_of(allocation_id)]
        if trial.allocation is None or trial.allocation.id != allocation_id:
            raise KeyError(allocation_id)
        return trial


def request_id_of(allocation_id: str) -> str:
    """`<experiment id>.<request id>.<run>` -> request id. Raises KeyError for anything else.

    A trial that was continued has a number after its request id: see `task_id_of`.
    """
    parts = allocation_id.split(".")
    if len(parts) != 3:
        raise KeyError(allocation_id)
    return parts[1][:REQUEST_ID_LENGTH]


REQUEST_ID_LENGTH = 36
"""Of a UUID."""


def task_id_of(experiment_id: int, request_id: str, times_continued: int = 0) -> str:
    """Of a trial: each time that it is continued it becomes another task."""
    suffix = f"-{times_continued}" if times_continued else ""
    return f"{experiment_id}.{request_id}{suffix}"
