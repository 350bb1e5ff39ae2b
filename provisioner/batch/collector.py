"""What agents of jobs that are over left in their directories: told by short-lived agents on this machine.

A master may be away when a job ends. Its agents keep what they could not tell, and end when they are idle.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from provisioner.batch.commands import killed
from provisioner.batch.job_files import JobFiles, Leased

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Each is a Python of its own."""
LIMIT_S = 300.0
"""It ends by itself long before that. As a user of the site it is theirs to stop: others wait for it."""
IN_LOG = ("/bin/sh", "-c", 'umask 077; exec >> "$0" 2>&1; exec "$@"')
"""Before a file and a command: as whoever runs it, for the file is theirs."""
_KEPT = ("PATH", "HOME", "USER", "LANG", "LD_LIBRARY_PATH", "SSL_CERT_FILE")


class EndCollector:
    """`run` it; then `is_done` begins with a job, and says when it is over with it."""

    def __init__(
        self,
        done: Callable[[], None],
        before: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        """`done` is called whenever one is over. `before`: what stands before a command of a user."""
        self._done = done
        self._before = before
        self._running: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    def is_done(self, job: Leased, files: JobFiles | None, before: float) -> bool:
        """Everything that can be told was told. Whatever goes wrong ends it, too.

        `before`: bad ends of tasks from then on (seconds since the epoch) are those of the job.
        """
        if files is None or self._tasks is None:
            return True
        if job.job_name not in self._running:
            task = self._tasks.create_task(self._collect(job, files, before))
            self._running[job.job_name] = task
            task.add_done_callback(lambda _: self._done())
        return self._running[job.job_name].done()

    def forget(self, job: Leased) -> None:
        self._running.pop(job.job_name, None)

    async def _collect(self, job: Leased, files: JobFiles, before: float) -> None:
        try:
            nodes = await asyncio.to_thread(files.left_behind, job)
        except OSError as error:
            log.warning("what is left of job %s cannot be read: %s", job.job_name, error.strerror)
            return
        become = self._before(job.shape.user) if job.shape.user and self._before else ()
        await asyncio.gather(*(self._ask(node, before, become) for node in nodes))

    async def _ask(self, node: Path, before: float, become: Sequence[str]) -> None:
        words = [sys.executable, "-P", "-m", "agent_bootstrap.agent.collect"]
        words += ["--config-file", str(node / "agent.json"), "--ended-before", str(before)]
        async with self._slots:
            code = await _run([*become, *IN_LOG, str(node / "collect.log"), *words])
        if code:
            log.warning("what is left in %s was not all told: see collect.log there", node)


async def _run(words: Sequence[str]) -> int:
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={key: os.environ[key] for key in _KEPT if key in os.environ},
            start_new_session=True,
        )
    except OSError as error:
        log.warning("%s cannot be run: %s", words[0], error.strerror)
        return 1
    try:
        async with asyncio.timeout(LIMIT_S):
            return await process.wait()
    except TimeoutError:
        return 1
    finally:
        await killed(process)
