"""Where the trials of a new experiment start: from nothing, or from a checkpoint of an earlier one."""

from __future__ import annotations

from sqlalchemy import select

from master.core.expconf import ExperimentConfig
from master.experiments.lifecycle.state import Phase
from master.store.store import Store
from master.store.tables import Checkpoint, Experiment, Trial
from windlass.base.errors import InvalidArgument, InvalidConfig

COMPLETED = "COMPLETED"


class WarmStart:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def resolve(self, config: ExperimentConfig) -> ExperimentConfig:
        """The config with the checkpoint that its `source_trial_id` stands for now; the trial wins over a given one.

        Raises InvalidConfig for a source that does not exist or cannot be restored.
        """
        searcher = config.searcher
        if searcher.source_trial_id is not None:
            uuid = await self._newest(searcher.source_trial_id)
        elif searcher.source_checkpoint_uuid:
            uuid = searcher.source_checkpoint_uuid
            if problem := await self._problem(uuid):
                raise _invalid("source_checkpoint_uuid", problem)
        else:
            return config
        started = searcher.model_copy(update={"source_checkpoint_uuid": uuid})
        return config.model_copy(update={"searcher": started})

    async def require(self, uuid: str, field: str) -> None:
        """Raises InvalidArgument that names the field, unless a trial may start from this checkpoint."""
        if problem := await self._problem(uuid):
            raise InvalidArgument(f"{field}: {problem}")

    async def _newest(self, trial_id: int) -> str:
        checkpoints = await self._store.read(
            select(Checkpoint)
            .where(Checkpoint.trial_id == trial_id, Checkpoint.state == COMPLETED)
            .order_by(Checkpoint.steps.desc(), Checkpoint.reported_at.desc())
            .limit(1)
        )
        if not checkpoints:
            raise _invalid("source_trial_id", f"trial {trial_id} has no checkpoint")
        if problem := await self._goes(checkpoints[0]):
            raise _invalid("source_trial_id", problem)
        return checkpoints[0].uuid

    async def _problem(self, uuid: str) -> str:
        """Why nothing can start from it; empty: it can."""
        found = await self._store.read_one(select(Checkpoint).where(Checkpoint.uuid == uuid))
        if found is None:
            return f'there is no checkpoint "{uuid}"'
        if found.state != COMPLETED:
            state = found.state.lower().replace("_", " ")
            return f"checkpoint {uuid} is {state}"
        return await self._goes(found)

    async def _goes(self, checkpoint: Checkpoint) -> str:
        state = await self._store.read_one(
            select(Experiment.state).where(Experiment.id == checkpoint.experiment_id)
        )
        if state == Phase.DELETING:
            return f"the experiment of checkpoint {checkpoint.uuid} is being deleted"
        deletion = await self._store.read_one(
            select(Trial.deletion).where(Trial.id == checkpoint.trial_id)
        )
        if deletion == Phase.DELETING:
            return f"the run of checkpoint {checkpoint.uuid} is being deleted"
        return ""


def _invalid(key: str, problem: str) -> InvalidConfig:
    return InvalidConfig([f"<config>.searcher.{key}: {problem}"], what="experiment configuration")
