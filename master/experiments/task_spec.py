"""What a trial's containers are given beyond what every task is: its facts, its ports, its checkpoint storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_bootstrap.container_options import CheckpointFolder
from master.allocations.cluster_tasks import ClusterTasks
from master.allocations.identities import TaskOwner
from master.allocations.machine import AllocationState
from master.allocations.mounts import SHARED_FS, below_host_folder, storage_mount
from master.allocations.peer_ssh import PeerKeys
from master.allocations.task_environment import (
    LAUNCHER,
    WORK_DIR,
    as_json,
    common,
    has_peers,
    own_mounts,
    own_variables,
)
from master.core.expconf import ExperimentConfig
from master.experiments.lifecycle.state import ExperimentState, TrialState
from rm_backends.base import BindMount, LaunchSpec, TaskFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpecs:
    """Builds launch specs. Holds what all tasks of this cluster share."""

    cluster: ClusterTasks = field(default_factory=ClusterTasks)
    keys: PeerKeys

    def trial(
        self,
        experiment: ExperimentState,
        trial: TrialState,
        allocation: AllocationState,
        *,
        owner: TaskOwner,
        owner_name: str,
        token: str,
    ) -> LaunchSpec:
        config = self.cluster.resolved(experiment.config, allocation.pool)
        options = self.cluster.options(config, allocation, owner)
        environment = {
            **common(allocation, token, task_type="TRIAL", user=owner_name),
            **_trial(experiment, trial, config),
            **{name: str(port) for name, port in allocation.ports.items()},
            **self.cluster.peer_network(allocation),
            **own_variables(config, allocation),
        }
        return LaunchSpec(
            allocation_id=allocation.id,
            task_id=allocation.task_id,
            task_type="TRIAL",
            entrypoint=LAUNCHER,
            environment=environment,
            work_dir=WORK_DIR,
            files=(*self.cluster.startup_hook(allocation.current_pool), *self._ssh(allocation)),
            binds=tuple(_binds(config)),
            options=options.model_copy(update={"checkpoints": _checkpoints(experiment, trial)}),
        )

    def _ssh(self, allocation: AllocationState) -> Iterable[TaskFile]:
        return self.keys.files(allocation.id) if has_peers(allocation) else ()


def _checkpoints(experiment: ExperimentState, trial: TrialState) -> CheckpointFolder | None:
    mount = storage_mount(experiment.config)
    if mount is None:
        return None
    return CheckpointFolder(
        host_path=mount.source,
        below=below_host_folder(experiment.config.checkpoint_storage),
        make=mount.target == SHARED_FS,
        experiment_id=experiment.id,
        trial_id=trial.id,
    )


def _trial(
    experiment: ExperimentState, trial: TrialState, config: ExperimentConfig
) -> dict[str, str]:
    checkpoint = trial.latest_checkpoint or trial.warm_start_checkpoint
    steps = trial.latest_checkpoint_steps if trial.latest_checkpoint else 0
    environment = {
        "DET_EXPERIMENT_ID": str(experiment.id),
        "DET_TRIAL_ID": str(trial.id),
        "DET_TRIAL_RUN_ID": str(trial.run_id),
        "DET_TRIAL_SEED": str(trial.seed),
        "DET_STEPS_COMPLETED": str(steps),
        "DET_EXPERIMENT_CONFIG": as_json(config.to_json()),
        "DET_HPARAMS": as_json(trial.hparams),
    }
    return {**environment, "DET_LATEST_CHECKPOINT": checkpoint} if checkpoint else environment


def _binds(config: ExperimentConfig) -> Iterable[BindMount]:
    """The checkpoint storage, then the user's mounts, which may themselves be where the storage lies."""
    if (storage := storage_mount(config)) is not None:
        yield storage
    yield from own_mounts(config)
