"""What the log of a task says of its batch job: its number, why it waits, where it runs, why it did not start."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from provisioner.batch.base import EndCause
from provisioner.batch.job_files import JobFiles
from rm_backends.batch import leases as life
from rm_backends.batch.leases import Lease, LeaseState
from rm_backends.batch.ports import LeaseStore

_NUMBERS = re.compile(r"\d+")
Line = tuple[str, str]
"""Level and text."""


class TaskLogWriter(Protocol):
    """Where lines of the master go."""

    def say(self, task_id: str, allocation_id: str, text: str, *, level: str = "INFO") -> None:
        """Never fails or delays: logs are not state."""
        ...


def lines(old: Lease | None, new: Lease) -> Iterator[Line]:
    """For each thing worth saying about what became of a lease since it was last committed. Pure."""
    if new.job_id is None:
        if new.message and new.called_at is None and (old is None or old.message != new.message):
            yield "WARNING", new.message
        return
    what = life.shown(new)
    if old is None or old.job_id is None:
        yield "INFO", f"{what} was submitted"
    waits = new.pending_text if new.site_state else ""
    if waits and (old is None or waits != old.pending_text):
        yield "INFO", waits
    if new.node_names and (old is None or old.node_names != new.node_names):
        yield "INFO", f"{what} has {', '.join(new.node_names)}"


class JobLines:
    """Implements `LeaseStore`: tells tasks what another one has committed."""

    def __init__(
        self, store: LeaseStore, task_log: TaskLogWriter, files: Mapping[str, JobFiles]
    ) -> None:
        """`files`: of each pool's jobs."""
        self._store = store
        self._task_log = task_log
        self._files = files
        self._saved: dict[str, Lease] = {}
        self._told: dict[str, set[str]] = {}
        """By job, without numbers: reasons of a site take turns, and count, for days."""

    async def load(self) -> Sequence[Lease]:
        found = await self._store.load()
        self._saved = {lease.tag: lease for lease in found}
        for lease in found:
            self._is_new(lease, lease.pending_text)
        return found

    async def save(self, leases: Sequence[Lease]) -> None:
        await self._store.save(leases)
        for lease in leases:
            old = self._saved.get(lease.tag)
            for level, text in (*lines(old, lease), *await self._said_by(old, lease)):
                if text == lease.pending_text and not self._is_new(lease, text):
                    continue
                task_id = lease.allocation_id.rpartition(".")[0]
                self._task_log.say(task_id, lease.allocation_id, text, level=level)
            self._saved[lease.tag] = lease
            if lease.state is LeaseState.SETTLED:
                del self._saved[lease.tag]
                self._told.pop(lease.tag, None)

    def _is_new(self, lease: Lease, text: str) -> bool:
        """Nothing like it was said of that job, as far as this process knows."""
        told = self._told.setdefault(lease.tag, set())
        kind = _NUMBERS.sub("#", text)
        is_new = kind not in told
        told.add(kind)
        return is_new

    async def _said_by(self, old: Lease | None, new: Lease) -> Sequence[Line]:
        """The end of the log of a job that ended before its task could start."""
        if new.state is not LeaseState.OVER or (old is not None and old.state is LeaseState.OVER):
            return ()
        files = self._files.get(new.pool)
        if files is None or new.granted or new.end_why or new.cause is EndCause.CANCELLED:
            return ()
        said = await asyncio.to_thread(files.log_tail, new)
        return [("ERROR", f"{life.shown(new)} said: {line}") for line in said]
