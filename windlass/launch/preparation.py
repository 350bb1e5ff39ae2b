"""What comes before the startup hooks of all tasks but commands, which report no accelerators."""

from __future__ import annotations

import os
from pathlib import Path

from windlass.core._info import ClusterInfo, run_dir, write_info
from windlass.core._session import TaskSession
from windlass.launch.accelerators import find_accelerators, report_accelerators
from windlass.launch.context_files import install_files
from windlass.launch.task_folder import enter_task


def prepare(info: ClusterInfo, session: TaskSession, *copies: Path) -> None:
    """Leaves us in the working directory, with the task's files. `copies`: where they go besides."""
    work_dir = enter_task(info)
    install_files(session, info.task_id, (*copies, work_dir))
    accelerators = find_accelerators(info.slot_ids, os.environ)
    write_info(run_dir() / "info", "resources.json", accelerators.to_json())
    report_accelerators(session, info, accelerators, os.environ.get("DET_CONTAINER_ID", ""))
