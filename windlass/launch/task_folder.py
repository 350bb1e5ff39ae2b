"""The folders a task finds itself in: the info files about it, its working directory, the way to its output."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.core._info import ClusterInfo, run_dir, write_info


def enter_task(info: ClusterInfo) -> Path:
    """Write what the task is, then go to its working directory, which is returned."""
    directory = run_dir() / "info"
    # Left over from another allocation, they would speak for the wrong one.
    for stale in ("rendezvous.json", "resources.json", "trial.json"):
        (directory / stale).unlink(missing_ok=True)
    write_info(directory, "cluster.json", info.to_json())
    if info.trial_info is not None:
        write_info(directory, "trial.json", info.trial_info.to_json())
    work_dir = Path(os.environ.get("DET_WORKDIR") or Path.cwd())
    work_dir.mkdir(parents=True, exist_ok=True)
    os.chdir(work_dir)
    _link_output(run_dir() / "train" / "logs")
    return work_dir


def is_own(folder: Path, mountinfo: str | None = None) -> bool:
    """Whether it is gone with the task. What is mounted is not, nor what lies elsewhere: it may be the user's."""
    top, folder = run_dir().resolve(), folder.resolve()
    if mountinfo is None:
        mountinfo = Path("/proc/self/mountinfo").read_text()
    mounted = (Path(line.split()[4]) for line in mountinfo.splitlines())
    return folder.is_relative_to(top) and not any(
        top in point.parents and folder.is_relative_to(point) for point in mounted
    )


def _link_output(logs: Path) -> None:
    """Ranks started over ssh write to these, and so into this container's log."""
    logs.mkdir(parents=True, exist_ok=True)
    for name, descriptor in (("stdout.log", 1), ("stderr.log", 2)):
        link = logs / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
