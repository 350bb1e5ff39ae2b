"""What is left in the directories of jobs that are over."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from provisioner.batch.collector import EndCollector
from provisioner.batch.job_files import JobFiles, JobShape, Leased


@dataclass(frozen=True)
class Job:
    tag: str = "wl-1"
    job_name: str = "wl-1"
    pool: str = "gpu"
    agents: tuple[str, ...] = ("wl-1-0",)
    shape: JobShape = JobShape(queue="gpu", nodes=1, slots_per_node=1, gpus_per_node=1)  # noqa: RUF009


class StaleFiles(JobFiles):
    def left_behind(self, job: Leased) -> NoReturn:
        raise OSError(errno.ESTALE, "Stale file handle", f"/shared/{job.tag}")


async def test_a_directory_that_cannot_be_read_ends_only_its_own_collection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file system of a site is away for a moment: the master goes on."""
    told = asyncio.Event()
    collector = EndCollector(told.set)
    running = asyncio.create_task(collector.run())
    await asyncio.sleep(0)
    files = StaleFiles(root=tmp_path, python="python3", agent={})
    assert not collector.is_done(Job(), files, 0.0)
    await told.wait()
    assert collector.is_done(Job(), files, 0.0)
    assert not running.done()
    assert "what is left of job wl-1 cannot be read: Stale file handle" in caplog.text
    running.cancel()
