"""What people write on an experiment: name, description, notes, labels, and whether it is archived.

These columns are written here only, one change at a time; nothing of them matters to what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog
from sqlalchemy import select, update

from master.core.actor import Actor
from master.core.expconf import ExperimentConfig
from master.experiments.lifecycle.run_numbers import number_runs
from master.experiments.lifecycle.state import ExperimentState, Phase, not_ended
from master.experiments.lifecycle.step_builder import Env, ExperimentStep
from master.experiments.service import ExperimentService
from master.store import tables
from master.store.store import Store
from master.store.unit_of_work import Operation, UnitOfWork
from master.workspace_rules import WorkspaceRules
from windlass.base.errors import InvalidArgument, InvalidState, NotFound

log = structlog.get_logger(__name__)

_IN_CONFIG = ("name", "description", "labels")
"""Also keys of the experiment's configuration, which shows the newest."""
_CONFIG = "config"
"""In a change: keys of the configuration that are no columns."""

Change = Callable[[tables.Experiment], Mapping[str, object]]
"""From the present row to the columns that change; it may refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPatch:
    """None leaves a field as it is. `labels` replaces all of them."""

    name: str | None = None
    description: str | None = None
    notes: str | None = None
    labels: Sequence[str] | None = None


class ExperimentMetadata:
    """Changes the row of an experiment, and the live one with it. All raise NotFound."""

    def __init__(
        self, *, store: Store, experiments: ExperimentService, rules: WorkspaceRules
    ) -> None:
        self._store = store
        self._experiments = experiments
        self._rules = rules

    async def patch(self, experiment_id: int, patch: MetadataPatch, *, by: Actor) -> None:
        """Raises InvalidArgument for a blank name."""
        if patch.name is not None and not patch.name.strip():
            raise InvalidArgument("name: must not be blank")
        values: dict[str, object] = {
            key: value
            for key in ("name", "description", "notes")
            if (value := getattr(patch, key)) is not None
        }
        if patch.labels is not None:
            values["labels"] = list(dict.fromkeys(patch.labels))
        await self._change(experiment_id, lambda row: values, by)

    async def add_label(self, experiment_id: int, label: str, *, by: Actor) -> list[str]:
        """All labels there are now."""
        return await self._relabel(experiment_id, lambda labels: [*labels, label], by)

    async def remove_label(self, experiment_id: int, label: str, *, by: Actor) -> list[str]:
        """All labels there are now."""
        return await self._relabel(
            experiment_id, lambda labels: [known for known in labels if known != label], by
        )

    async def set_archived(self, experiment_id: int, archived: bool, *, by: Actor) -> None:
        """Raises InvalidState if it runs, or is archived (or not) already."""

        def change(row: tables.Experiment) -> Mapping[str, object]:
            if archived and not Phase(row.state).is_terminal:
                raise InvalidState(not_ended(experiment_id, Phase(row.state)))
            if row.archived == archived:
                raise InvalidState(
                    f"Experiment {experiment_id} is {'already' if archived else 'not'} archived"
                )
            return {"archived": archived}

        await self._change(experiment_id, change, by)

    async def set_run_archived(self, trial_id: int, archived: bool, *, by: Actor) -> None:
        """Its own flag, which matters to nothing that runs. Raises Conflict for one that is gone."""
        unit = UnitOfWork()
        unit.update(tables.Trial, {"id": trial_id}, {"archived": archived}, expect=1)
        await self._store.commit(unit)
        log.info("run archived" if archived else "run unarchived", trial=trial_id, by=str(by))

    async def move(self, experiment_id: int, project_id: int, *, by: Actor) -> None:
        """Its runs get the next numbers of that project.

        Raises NotFound, and InvalidState if it or either project is archived or its pool may not be used there.
        """
        target = await self._experiments.placing.open(project_id)

        def change(row: tables.Experiment) -> Mapping[str, object]:
            if row.archived:
                raise InvalidState("Experiment is archived.")
            if Phase(row.state) is Phase.DELETING:
                raise InvalidState(f"Experiment {experiment_id} is being deleted")
            return {} if row.project_id == project_id else {"project_id": project_id}

        async def turn() -> None:
            experiment = tables.Experiment
            source = await self._store.read_one(
                select(experiment.project_id).where(experiment.id == experiment_id)
            )
            if source is not None:
                here = (await self._experiments.placing.open(source)).workspace.id
                if here != target.workspace.id:
                    await self._rules.require_takes(
                        target.workspace.id, experiment.id == experiment_id
                    )
            numbers = tuple(number_runs(experiment_id).operations)
            await self._apply(experiment_id, change, by, after=numbers)
            self._experiments.relocated([experiment_id], target.workspace.id)

        await self._experiments.row_changes.run(turn)

    async def set_keep_counts(
        self,
        experiment_id: int,
        counts: Mapping[str, int],
        *,
        also: tuple[Operation, ...],
        by: Actor,
    ) -> None:
        """Keys of `checkpoint_storage` in its configuration. `also` is written in the same commit."""

        def change(row: tables.Experiment) -> Mapping[str, object]:
            storage = {**row.config["checkpoint_storage"], **counts}
            return {_CONFIG: {"checkpoint_storage": storage}}

        await self._change(experiment_id, change, by, also)

    async def set_log_retention(self, experiment_id: int, days: int, *, by: Actor) -> None:
        """Of all its tasks, and in its configuration. Raises InvalidState unless it has ended."""

        def change(row: tables.Experiment) -> Mapping[str, object]:
            if not Phase(row.state).is_terminal:
                raise InvalidState(
                    f"experiment in non terminal state '{row.state}', try again later: "
                    "until then, set the log retention of its trials"
                )
            return {_CONFIG: {"retention_policy": {"log_retention_days": days}}}

        task = tables.Task
        of_its_tasks = update(task).where(task.experiment_id == experiment_id)
        uow = UnitOfWork()
        uow.execute(of_its_tasks.values(log_retention_days=days))
        await self._change(experiment_id, change, by, tuple(uow.operations))

    async def _relabel(
        self, experiment_id: int, edit: Callable[[Sequence[str]], Sequence[str]], by: Actor
    ) -> list[str]:
        labels: list[str] = []

        def change(row: tables.Experiment) -> Mapping[str, object]:
            labels[:] = dict.fromkeys(edit(row.labels))
            return {"labels": list(labels)}

        await self._change(experiment_id, change, by)
        return labels

    async def _change(
        self, experiment_id: int, change: Change, by: Actor, also: tuple[Operation, ...] = ()
    ) -> None:
        await self._experiments.row_changes.run(
            lambda: self._apply(experiment_id, change, by, also)
        )

    async def _apply(
        self,
        experiment_id: int,
        change: Change,
        by: Actor,
        also: tuple[Operation, ...] = (),
        after: tuple[Operation, ...] = (),
    ) -> None:
        """`also` and `after` are written in the same commit, before and after the row."""
        experiment = tables.Experiment
        row = await self._store.read_one(select(experiment).where(experiment.id == experiment_id))
        if row is None:
            raise NotFound("experiment", experiment_id)
        values = dict(change(row))
        if not values:
            return
        changed = sorted(values)
        uow = UnitOfWork(list(also))
        edits = {key: value for key, value in values.items() if key in _IN_CONFIG}
        only_config = values.pop(_CONFIG, {})
        edits |= only_config if isinstance(only_config, Mapping) else {}
        live = self._experiments.live(experiment_id)
        if live is not None:
            if values:
                uow.update(experiment, {"id": experiment_id}, values, expect=1)
            uow.operations += after
            await live.apply(partial(_edited, edits=edits, rows=tuple(uow.operations)), by=by)
        else:
            values["config"] = {**row.config, **edits}
            uow.update(experiment, {"id": experiment_id}, values, expect=1)
            uow.operations += after
            await self._store.commit(uow)
        log.info(
            "experiment metadata changed", experiment=experiment_id, changed=changed, by=str(by)
        )


def _edited(
    state: ExperimentState, env: Env, edits: Mapping[str, object], rows: tuple[Operation, ...]
) -> ExperimentStep:
    """The live experiment says the same as its row."""
    config = ExperimentConfig.from_json({**state.config.to_json(), **edits})
    name = str(edits.get("name", state.name))
    return ExperimentStep(replace(state, name=name, config=config), rows=rows)
