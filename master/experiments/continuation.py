"""Experiments that have ended and go on: who may, with which configuration, and from where."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import NamedTuple

import structlog
from sqlalchemy import func, select

from master.allocations.identities import TaskOwner
from master.core.actor import Actor
from master.core.expconf import ExperimentConfig, merge, parse
from master.core.expconf.origins import origins_document, origins_from_document, over
from master.core.searcher.search import Search
from master.core.searcher.types import Create, InitialTrials
from master.experiments.lifecycle.continuing import (
    ContinuedTrial,
    beyond,
    continued,
    to_be_continued,
)
from master.experiments.lifecycle.state import (
    ExperimentState,
    Phase,
    RunSettings,
    TrialReports,
    TrialState,
    task_id_of,
)
from master.experiments.lifecycle.step_builder import ExperimentStep
from master.experiments.live import LiveExperiment, LiveParts
from master.experiments.reports.metric_reports import report_from_row
from master.experiments.reports.metrics import rebuild
from master.experiments.restoring import StoredExperiment, rebuilt, stored
from master.experiments.submission.admission import CheckedExperiment, search_of
from master.experiments.unmanaged import managed_only
from master.parsing import in_parsing_thread
from master.roots.live_roots import LiveRoots
from master.store import tables
from windlass.base.errors import Conflict, InvalidArgument, InvalidState
from windlass.base.formats.json_types import JsonMapping, JsonObject

log = structlog.get_logger(__name__)

SINGLE = "single"
SEARCHERS = (SINGLE, "random", "grid")
"""Those whose trials do not depend on each other."""
ENDED = (Phase.COMPLETED, Phase.CANCELED, Phase.ERROR)

Check = Callable[[JsonObject, JsonMapping, TaskOwner], Awaitable[CheckedExperiment]]
"""Of a complete configuration that an override has changed, and of the override alone."""


class Continuation(NamedTuple):
    """What goes on, and with which configuration."""

    before: ExperimentState
    owner_name: str
    trials: Sequence[TrialState]
    checked: CheckedExperiment


class _Tasks(NamedTuple):
    trial_id: int | None
    number: int


class _Saved(NamedTuple):
    trial_id: int | None
    steps: int
    reported_at: datetime
    uuid: str


class Continuations:
    def __init__(
        self,
        parts: LiveParts,
        roots: LiveRoots[LiveExperiment],
        *,
        check: Check,
        require: Callable[[int, RunSettings], Awaitable[None]],
    ) -> None:
        """`require`: that administrators let work with these settings run in a workspace."""
        self._require = require
        self._parts = parts
        self._store = parts.store
        self._roots = roots
        self._check = check

    async def continue_(self, experiment_id: int, override: str, *, by: Actor) -> tuple[str, ...]:
        """Run again what has not completed, or a single trial; the launch warnings. One at a time.

        Raises NotFound, InvalidState, InvalidArgument for an override that may not be, InvalidConfig.
        """
        found, changes = await self._read(experiment_id, override)
        await self._leave_memory(experiment_id)
        before, _, trials, checked = await self._continuation(found, changes)
        state = replace(
            before, name=checked.config.name, config=checked.config, settings=checked.settings
        )
        starts = await self._starts(before, state, trials, checked.search)
        live = LiveExperiment(
            self._parts,
            state,
            owner_name=found.owner_name,
            workspace_id=found.workspace_id,
            search=checked.search,
        )
        step = partial(continued, trials=starts, origins=origins_document(checked.origins))
        try:
            await live.apply(step, by=by, large=True, committed=lambda: self._roots.register(live))
        except Conflict:
            # Somebody was faster, with a deletion most likely.
            await self._ended(experiment_id)
            raise
        log.info("experiment continued", experiment=experiment_id, trials=len(trials), by=str(by))
        return checked.warnings

    async def check(self, experiment_id: int, override: str) -> Continuation:
        """What `continue_` would do. Raises the same; changes nothing."""
        return await self._continuation(*await self._read(experiment_id, override))

    async def _read(self, experiment_id: int, override: str) -> tuple[StoredExperiment, JsonObject]:
        found = await self._ended(experiment_id)
        changes = await in_parsing_thread(_parse_override, override)
        _require_continuable(str(found.experiment.config["searcher"]["name"]), changes)
        return found, changes

    async def _continuation(self, found: StoredExperiment, changes: JsonMapping) -> Continuation:
        before = await rebuilt(self._store, found.experiment)
        trials = to_be_continued(before)
        if not before.trials:
            raise InvalidState(f"experiment {before.id} has no run left to continue")
        if not trials:
            raise InvalidState("experiment has been completed, cannot continue this experiment")
        checked = await self._checked(found, before, changes)
        return Continuation(before, found.owner_name, trials, checked)

    async def _ended(self, experiment_id: int) -> StoredExperiment:
        found = await stored(self._store, experiment_id)
        row = found.experiment
        if row.unmanaged:
            raise managed_only(experiment_id, "continued")
        if Phase(row.state) not in ENDED:
            raise InvalidState(f"experiment in non terminal state '{row.state}', try again later")
        if row.archived:
            raise InvalidState(f"experiment {experiment_id} is archived: unarchive it first")
        return found

    async def _leave_memory(self, experiment_id: int) -> None:
        """What was reported last is written, and nothing more comes."""
        old = self._roots.get(experiment_id)
        if old is not None:
            self._roots.forget(old)
            await old.apply(lambda state, env: ExperimentStep(state))

    async def _checked(
        self, found: StoredExperiment, state: ExperimentState, changes: JsonMapping
    ) -> CheckedExperiment:
        origins = origins_from_document(found.experiment.config_origins)
        if not changes:
            await self._require(found.workspace_id, state.settings)
            warnings = self._parts.admission.check_pool(state.settings)
            return CheckedExperiment(
                config=state.config,
                settings=state.settings,
                search=search_of(state.config),
                warnings=warnings,
                origins=origins,
            )
        owner = TaskOwner(state.owner_id, found.workspace_id)
        document = _over(changes, state)
        checked = await self._check(document, changes, owner)
        if checked.config.searcher.name != SINGLE:
            raise InvalidArgument(
                "overrideConfig: searcher.name must stay "
                f'"{SINGLE}", not "{checked.config.searcher.name}"'
            )
        return replace(
            checked, origins=None if origins is None else over(checked.origins or (), origins)
        )

    async def _starts(
        self,
        before: ExperimentState,
        after: ExperimentState,
        trials: Sequence[TrialState],
        search: Search,
    ) -> list[ContinuedTrial]:
        tasks = await self._tasks(before.id)
        newest = await self._newest_checkpoints(before.id)
        starts: list[ContinuedTrial] = []
        for trial in trials:
            saved = newest.get(trial.id)
            one = ContinuedTrial(
                request_id=trial.request_id,
                task_id=task_id_of(before.id, trial.request_id, tasks[trial.id]),
                checkpoint=saved.uuid if saved else None,
                steps=saved.steps if saved else 0,
                metrics=trial.metrics,
                hparams=_hparams(before.config, after.config, trial, search),
            )
            starts.append(await self._with_metrics(before, after, trial, one))
        return starts

    async def _tasks(self, experiment_id: int) -> dict[int | None, int]:
        """Trial -> how many tasks it has had."""
        task = tables.Task
        rows = await self._store.read(
            select(task.trial_id, func.count())
            .where(task.experiment_id == experiment_id, task.trial_id.is_not(None))
            .group_by(task.trial_id),
            _Tasks,
        )
        return {row.trial_id: row.number for row in rows}

    async def _newest_checkpoints(self, experiment_id: int) -> dict[int | None, _Saved]:
        """Trial -> the last one whose files are all there."""
        checkpoint = tables.Checkpoint
        rows = await self._store.read(
            select(
                checkpoint.trial_id, checkpoint.steps, checkpoint.reported_at, checkpoint.uuid
            ).where(checkpoint.experiment_id == experiment_id, checkpoint.state == "COMPLETED"),
            _Saved,
        )
        return {row.trial_id: row for row in sorted(rows, key=lambda row: row[1:])}

    async def _with_metrics(
        self,
        before: ExperimentState,
        after: ExperimentState,
        trial: TrialState,
        one: ContinuedTrial,
    ) -> ContinuedTrial:
        if one.checkpoint is None:
            return replace(one, metrics=TrialReports())
        old, new = before.settings, after.settings
        judged = (old.metric, old.smaller_is_better) != (new.metric, new.smaller_is_better)
        if not judged and trial.metrics.steps_completed <= one.steps:
            return one
        metric = tables.Metric
        rows = await self._store.read(
            select(metric)
            .where(metric.trial_id == trial.id, metric.archived.is_(False), ~beyond(trial.id, one))
            .order_by(metric.id)
        )
        reports = [(row.id, report_from_row(row)) for row in rows]
        return replace(one, metrics=await in_parsing_thread(rebuild, reports, new))


def _parse_override(text: str) -> JsonObject:
    changes = parse(text) if text.strip() else {}
    for key in ("project", "workspace"):
        if key in changes:
            raise InvalidArgument(
                f"overrideConfig: {key}: use `det experiment move` first to change it"
            )
    return changes


def _require_continuable(searcher: str, changes: Mapping[str, object]) -> None:
    if searcher not in SEARCHERS:
        raise InvalidArgument(
            f"Unsupported searcher type provided: '{searcher}': its trials depend on each other; "
            "`det experiment fork` submits the search again"
        )
    if searcher != SINGLE and changes:
        raise InvalidArgument(
            f'overrideConfig: only the searcher "{SINGLE}" takes one, not "{searcher}": leave it out'
        )


def _over(changes: JsonMapping, state: ExperimentState) -> JsonObject:
    """The override over the active configuration, whose pool may have been changed since."""
    active = state.config.to_json()
    active["resources"] = {**active["resources"], "resource_pool": state.settings.pool}
    return merge(changes, active)


def _hparams(
    before: ExperimentConfig, after: ExperimentConfig, trial: TrialState, search: Search
) -> JsonMapping:
    """Those it had, unless the override changes them: then they are drawn again."""
    if before.to_json()["hyperparameters"] == after.to_json()["hyperparameters"]:
        return trial.hparams
    _, actions = search.on(search.start(), InitialTrials())
    return next(action.hparams for action in actions if isinstance(action, Create))
