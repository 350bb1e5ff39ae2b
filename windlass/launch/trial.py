"""The steps of a trial around its startup hooks."""

from __future__ import annotations

import os

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.core._info import ClusterInfo, run_dir, write_info
from windlass.core._session import TaskSession
from windlass.core._storage import build_storage
from windlass.launch.accelerators import find_accelerators, report_accelerators
from windlass.launch.context_files import install_model_definition
from windlass.launch.entrypoint import command_of, require_package, run_entrypoint
from windlass.launch.rendezvous import rendezvous
from windlass.launch.task_folder import enter_task
from windlass.storage import require_usable


def prepare(info: ClusterInfo, session: TaskSession) -> None:
    """Everything that comes before the startup hooks. Leaves us in the working directory."""
    work_dir = enter_task(info)
    install_model_definition(session, info.task_id, (run_dir() / "train" / "model", work_dir))
    accelerators = find_accelerators(info.slot_ids, os.environ)
    write_info(run_dir() / "info", "resources.json", accelerators.to_json())
    report_accelerators(session, info, accelerators, os.environ.get("DET_CONTAINER_ID", ""))


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Meet the other containers, look whether checkpoints can be stored, run the user's program. Its exit code."""
    met = rendezvous(session, info, os.environ)
    write_info(run_dir() / "info", "rendezvous.json", met.to_json())
    _check_storage(info)
    entrypoint = info.trial.config.get("entrypoint")
    require_package(entrypoint)
    command = command_of(entrypoint)
    trial, slots = info.trial, len(info.slot_ids)
    # The first words are the published launcher's: scripts look for them.
    print(
        f"New trial runner in (container {os.environ.get('DET_RESOURCES_ID', '')}) on agent {info.agent_id}: "
        f"trial {trial.trial_id} of experiment {trial.experiment_id}, run {trial.trial_run_id}, "
        f"container {met.container_rank} of {len(met.container_addrs)}, {slots} slot{'' if slots == 1 else 's'}",
        flush=True,
    )
    try:
        return run_entrypoint(command, session, info)
    finally:
        session.close()


def _check_storage(info: ClusterInfo) -> None:
    try:
        config = info.trial.config.get("checkpoint_storage") or {}
        require_usable(build_storage(config, on_cluster=True, environ=os.environ))
    except (WindlassError, OSError) as problem:
        raise InvalidArgument(f"checkpoint storage cannot be used: {problem}") from problem
