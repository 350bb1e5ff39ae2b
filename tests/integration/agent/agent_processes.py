"""What tests ask of the processes of a task."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from windlass.base.processes import marked_processes, start_time

POLL_S = 0.01


def of_container(container_id: str) -> list[int]:
    """Every process with the task's environment, that is not a zombie."""
    found = marked_processes("DET_CONTAINER_ID", container_id)
    return [pid for pid in found if start_time(pid) is not None]


def supervisor(work_dir: Path, container_id: str) -> dict[str, int]:
    path = work_dir / "containers" / container_id / "supervisor.json"
    told: dict[str, int] = json.loads(path.read_text())
    return told


async def eventually(condition: Callable[[], bool]) -> None:
    """Other processes send no events to a test: look again until it holds; the test's own time limit is the limit."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(POLL_S)


async def gone(*pids: int) -> None:
    await eventually(lambda: all(start_time(pid) is None for pid in pids))


def command_lines() -> str:
    """Of every process of this machine that can be read."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return b"\n".join(found).decode(errors="replace")
