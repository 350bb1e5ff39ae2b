"""What a trial's containers are given: the environment of the published task contract, and the mounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import orjson

from master.allocations.machine import AllocationState
from master.experiments.state import TrialState
from rm_backends.base import BindMount, LaunchSpec, TaskFile

if TYPE_CHECKING:
    from master.experiments.live import LiveExperiment

RUN_DIR = "/run/determined"
WORK_DIR = f"{RUN_DIR}/workdir"
SHARED_FS = "/determined_shared_fs"
STARTUP_HOOK = f"{RUN_DIR}/dynamic-tcd-startup-hook.sh"
RETRY_CONFIG: Mapping[str, Any] = {
    "total": 20,
    "backoff_factor": 0.5,
    "allowed_methods": None,
    "status_forcelist": [429, 502, 503, 504],
    "raise_on_status": False,
}
"""Makes the published harness survive a restart of the master; without it one 503 ends a trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpecs:
    """Builds launch specs. Holds what all tasks of this cluster share."""

    startup_hooks: Mapping[str, str] = field(default_factory=dict)
    """Pool -> the cluster's startup hook for its tasks."""

    def trial(
        self, live: LiveExperiment, trial: TrialState, run: AllocationState, token: str
    ) -> LaunchSpec:
        config = live.config.to_json()
        environment = {
            **_common(run, token, task_type="TRIAL", user=live.owner_name),
            **_trial(live, trial, config),
            **{name: str(port) for name, port in run.ports.items()},
            **_variables(config["environment"]["environment_variables"].get(_kind(run), [])),
        }
        hook = self.startup_hooks.get(run.pool, "")
        files = (TaskFile(path=STARTUP_HOOK, content=hook.encode(), mode=0o700),) if hook else ()
        return LaunchSpec(
            allocation_id=run.id,
            task_id=run.task_id,
            task_type="TRIAL",
            entrypoint=("{python}", "-P", "-m", "windlass.launch"),
            environment=environment,
            work_dir=WORK_DIR,
            files=files,
            binds=tuple(_binds(config)),
        )


def _kind(run: AllocationState) -> str:
    """Of the first container's slots, as for the image: cuda, rocm or cpu."""
    return run.containers[0].container.slot_kind if run.containers else "cpu"


def _common(run: AllocationState, token: str, *, task_type: str, user: str) -> dict[str, str]:
    logging = {"allocation_id": run.id, "task_id": run.task_id}
    return {
        "DET_TASK_ID": run.task_id,
        "DET_ALLOCATION_ID": run.id,
        "DET_TASK_TYPE": task_type,
        "DET_RESOURCES_TYPE": "docker-container",
        "DET_SESSION_TOKEN": token,
        "DET_USER_TOKEN": token,
        "DET_USER": user,
        "DET_RUN_DIR": RUN_DIR,
        "DET_WORKDIR": WORK_DIR,
        "DET_USE_TLS": "false",
        "DET_SEGMENT_ENABLED": "false",
        "DET_TASK_LOGGING_METADATA": _json(logging),
        "DET_RETRY_CONFIG": _json(RETRY_CONFIG),
    }


def _trial(live: LiveExperiment, trial: TrialState, config: Mapping[str, Any]) -> dict[str, str]:
    checkpoint = trial.latest_checkpoint or trial.warm_start_checkpoint
    steps = trial.latest_checkpoint_steps if trial.latest_checkpoint else 0
    environment = {
        "DET_EXPERIMENT_ID": str(live.state.id),
        "DET_TRIAL_ID": str(trial.id),
        "DET_TRIAL_RUN_ID": str(trial.run_id),
        "DET_TRIAL_SEED": str(trial.seed),
        "DET_STEPS_COMPLETED": str(steps),
        "DET_EXPERIMENT_CONFIG": _json(config),
        "DET_HPARAMS": _json(trial.hparams),
    }
    return {**environment, "DET_LATEST_CHECKPOINT": checkpoint} if checkpoint else environment


def _variables(items: Iterable[str]) -> dict[str, str]:
    """ "NAME=VALUE" lines; the later one wins, a name alone is an empty value."""
    pairs = (item.partition("=") for item in items)
    return {name: value for name, _, value in pairs}


def _binds(config: Mapping[str, Any]) -> Iterable[BindMount]:
    storage = config["checkpoint_storage"]
    if storage["type"] == "shared_fs":
        yield BindMount(source=storage["host_path"], target=SHARED_FS)
    elif storage["type"] == "directory":
        yield BindMount(source=storage["container_path"], target=storage["container_path"])
    for mount in config["bind_mounts"]:
        target = str(PurePosixPath(WORK_DIR) / mount["container_path"])
        yield BindMount(source=mount["host_path"], target=target, read_only=mount["read_only"])


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
