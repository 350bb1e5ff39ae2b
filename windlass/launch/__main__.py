"""The chain of the launcher. Every failure is one line on stderr and exit code 1."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from windlass.base.errors import InvalidArgument, WindlassError
from windlass.core._info import ClusterInfo, run_dir, write_info
from windlass.core._session import TaskSession
from windlass.core._storage import build_storage, check_writable
from windlass.launch.accelerators import find_accelerators, report_accelerators
from windlass.launch.context_files import install_model_definition
from windlass.launch.entrypoint import command_of, run_entrypoint
from windlass.launch.hooks import find_hooks, run_through_hooks
from windlass.launch.rendezvous import rendezvous

AFTER_HOOKS = "--after-hooks"
"""How the launcher starts itself again from the shell that has sourced the hooks."""


def main(argv: list[str]) -> int:
    try:
        if argv not in ([], [AFTER_HOOKS]):
            raise InvalidArgument("usage: python -P -m windlass.launch (inside a task)")
        info = ClusterInfo.from_env(os.environ)
        if info.task_type != "TRIAL":
            raise InvalidArgument(f"only trials are launched, not {info.task_type}")
        session = TaskSession.for_task(info)
        if not argv:
            prepare(info, session)
            hooks = find_hooks(run_dir(), Path.cwd())
            if hooks:
                session.close()
                run_through_hooks(
                    hooks, [sys.executable, "-P", "-m", "windlass.launch", AFTER_HOOKS]
                )
        return start(info, session)
    except (WindlassError, OSError) as problem:
        print(f"windlass launch: {problem}", file=sys.stderr, flush=True)
        return 1


def prepare(info: ClusterInfo, session: TaskSession) -> None:
    """Everything that comes before the startup hooks. Leaves us in the working directory."""
    directory = run_dir() / "info"
    # Left over from another allocation, they would speak for the wrong one.
    for stale in ("rendezvous.json", "resources.json"):
        (directory / stale).unlink(missing_ok=True)
    write_info(directory, "cluster.json", info.to_json())
    write_info(directory, "trial.json", info.trial.to_json())
    work_dir = Path(os.environ.get("DET_WORKDIR") or Path.cwd())
    work_dir.mkdir(parents=True, exist_ok=True)
    os.chdir(work_dir)
    _link_output(run_dir() / "train" / "logs")
    install_model_definition(session, info.task_id, (run_dir() / "train" / "model", work_dir))
    accelerators = find_accelerators(info.slot_ids, os.environ)
    write_info(directory, "resources.json", accelerators.to_json())
    report_accelerators(session, info, accelerators, os.environ.get("DET_CONTAINER_ID", ""))


def start(info: ClusterInfo, session: TaskSession) -> int:
    """Meet the other containers, look whether checkpoints can be stored, run the user's program. Its exit code."""
    met = rendezvous(session, info, os.environ)
    write_info(run_dir() / "info", "rendezvous.json", met.to_json())
    _check_storage(info)
    command = command_of(info.trial.config.get("entrypoint"))
    trial = info.trial
    print(
        f"windlass: trial {trial.trial_id} of experiment {trial.experiment_id}, run {trial.trial_run_id}, "
        f"on {info.agent_id} (container {met.container_rank} of {len(met.container_addrs)}, "
        f"{len(info.slot_ids)} slots)",
        flush=True,
    )
    try:
        return run_entrypoint(command, session, info)
    finally:
        session.close()


def _check_storage(info: ClusterInfo) -> None:
    try:
        config = info.trial.config.get("checkpoint_storage") or {}
        check_writable(build_storage(config, on_cluster=True, environ=os.environ))
    except (WindlassError, OSError) as problem:
        raise InvalidArgument(f"checkpoint storage cannot be used: {problem}") from problem


def _link_output(logs: Path) -> None:
    """Ranks started over ssh write to these, and so into this container's log."""
    logs.mkdir(parents=True, exist_ok=True)
    for name, descriptor in (("stdout.log", 1), ("stderr.log", 2)):
        link = logs / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
