"""The steps of a trial around its startup hooks."""

from __future__ import annotations

import os

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.core._info import ClusterInfo, run_dir, write_info
from windlass.core._session import TaskSession
from windlass.core._storage import build_storage
from windlass.launch import preparation
from windlass.launch.entrypoint import command_of, run_entrypoint
from windlass.launch.rendezvous import rendezvous
from windlass.launch.requirements import require_package
from windlass.storage import require_usable


def prepare(info: ClusterInfo, session: TaskSession) -> None:
    """Everything that comes before the startup hooks. Leaves us in the working directory."""
    preparation.prepare(info, session, run_dir() / "train" / "model")


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
