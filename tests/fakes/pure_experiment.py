"""One experiment as pure steps, without store, clock or cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from master.allocations import machine as allocation
from master.allocations.backoff import LONGEST_PAUSE_S
from master.allocations.effects import AskResources, Effect, StartContainers
from master.core.expconf import ClusterDefaults, ExperimentConfig, complete
from master.core.searcher.search import Search
from master.experiments.lifecycle import machine
from master.experiments.lifecycle.deadlines import Deadlines
from master.experiments.lifecycle.state import ExperimentState, Phase, RunSettings, TrialState
from master.experiments.lifecycle.step_builder import Env, ExperimentStep, LoggedEvent
from master.experiments.waiting import waiting_reasons
from rm_backends.base import Container, ContainerExit, ContainerPhase

START = datetime(2026, 1, 1, tzinfo=UTC)
SINGLE = {"name": "single", "metric": "loss", "smaller_is_better": True}
ASHA = {
    "name": "async_halving",
    "metric": "loss",
    "smaller_is_better": True,
    "num_rungs": 3,
    "divisor": 2,
    "max_trials": 8,
    "max_concurrent_trials": 4,
    "max_time": 8,
    "time_metric": "epochs",
}
HPARAMS = {"lr": {"type": "double", "minval": 0.0, "maxval": 1.0}}


def config_of(searcher: dict[str, Any]) -> ExperimentConfig:
    storage = {"type": "shared_fs", "host_path": "/tmp"}
    raw = {"entrypoint": "true", "searcher": searcher, "hyperparameters": HPARAMS}
    defaults = ClusterDefaults(checkpoint_storage=storage)
    return complete(raw, defaults=defaults, seed=7, name="e")


class PureExperiment:
    """An experiment with its log, driven by hand."""

    def __init__(self, searcher: dict[str, Any] = SINGLE, **run: Any) -> None:
        self.search = Search.from_config(searcher, HPARAMS, 7)
        self._ids = count(1)
        self._metric_ids = count(1)
        self._in_order: list[str] = []
        """Request ids."""
        self.deadlines = Deadlines()
        self.now = START
        self.max_lost_runs = 10
        self.log: list[LoggedEvent] = []
        self.effects: list[Effect] = []
        self.state = ExperimentState(
            id=1,
            job_id="job",
            owner_id=1,
            name="e",
            config=config_of(searcher),
            settings=RunSettings(pool="default", slots_per_trial=1, metric="loss", **run),
            searcher=self.search.start(),
            created_at=START,
            phase=Phase.ACTIVE,
        )
        self.do(machine.begin)

    def do(self, step: Callable[[ExperimentState, Env], ExperimentStep]) -> list[Effect]:
        result = step(self.state, self.env())
        assert [e.seq for e in result.events] == [
            self.state.searcher_seq + i + 1 for i in range(len(result.events))
        ]
        self.state = result.state
        for change in result.trials:
            self.deadlines.note(change.after)
            if change.before is None:
                self._in_order.append(change.after.request_id)
        self.log.extend(result.events)
        self.effects = list(result.effects)
        return self.effects

    def env(self) -> Env:
        return Env(
            now=self.now,
            search=self.search,
            next_trial_id=lambda: next(self._ids),
            next_metric_id=lambda: next(self._metric_ids),
            max_lost_runs=self.max_lost_runs,
        )

    def tick(self) -> list[Effect]:
        """The clock has moved: do what is due."""
        due = self.deadlines.due(self.now)
        effects = self.do(partial(machine.clock_ticked, due=due))
        self.deadlines.done(due)
        return effects

    def trial(self, index: int = 0) -> TrialState:
        return self.state.trials[self._in_order[index]]

    def on_run(self, trial: TrialState, step: machine.AllocationStep) -> list[Effect]:
        assert trial.allocation is not None
        name = trial.allocation.id
        return self.do(lambda s, e: machine.allocation_event(s, e, name, step))

    def start(self, index: int = 0, *, ready: bool = True) -> None:
        """Grant and run the trial's open allocation."""
        trial = self.trial(index)
        self.start_and_wait(index)
        assert StartContainers in {type(e) for e in self.effects}
        self.report(index, ContainerPhase.RUNNING)
        if ready:
            self.on_run(trial, lambda s: (allocation.marked_ready(s), ()))

    def start_and_wait(self, index: int = 0) -> None:
        """Grant the trial's open allocation; its agent says nothing yet."""
        trial = self.trial(index)
        box = (Container(container_id=f"c-{trial.id}", agent_id="a", rank=0, slot_ids=(0,)),)
        self.on_run(trial, lambda s: allocation.granted(s, box, token_hash="h", ports={}))

    def report(self, index: int, phase: ContainerPhase, exit_: ContainerExit | None = None) -> None:
        trial = self.trial(index)
        self.on_run(
            trial,
            lambda s: allocation.container_changed(s, f"c-{trial.id}", phase, exit_, now=self.now),
        )

    def exit(self, index: int = 0, code: int | None = 0, **more: Any) -> None:
        self.report(index, ContainerPhase.TERMINATED, ContainerExit(exit_code=code, **more))

    def acknowledge(self, index: int = 0) -> None:
        self.on_run(self.trial(index), lambda s: (allocation.acknowledged(s), ()))

    def validate(self, index: int, **metrics: Any) -> None:
        trial = self.trial(index)
        self.do(
            lambda s, e: machine.metrics_reported(s, e, trial.request_id, trial.metrics, metrics)
        )

    def sit_out_the_pause(self) -> None:
        """After a run that could not be started the trial asks for nothing, until its deadline."""
        due = self.deadlines.next()
        if self.trial().phase.is_terminal:
            assert due is None
            return
        assert due is not None
        assert timedelta(0) < due - self.now <= timedelta(seconds=LONGEST_PAUSE_S)
        assert self.tick() == []
        assert waiting_reasons(self.state.trials.values(), lambda _: None)[self.trial().id].retry_at
        self.now = due
        assert self.tick() == [AskResources(self.run_of().id)]

    def run_of(self, index: int = 0) -> allocation.AllocationState:
        run = self.trial(index).allocation
        assert run is not None
        return run
