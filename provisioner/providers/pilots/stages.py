"""How far pilots are whose agents have not joined: asked of their nodes' logs while the site lists them as running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from provisioner.batch.base import JobPhase, JobReport
from provisioner.batch.dialects import DIALECTS
from provisioner.batch.disks import Disk
from provisioner.batch.stages import JOIN_S, begun
from provisioner.ports import PilotHost
from provisioner.providers.pilots.book import Pilot


class PilotStages:
    """Nothing of it outlives the master: a job that runs then is asked again."""

    def __init__(self, host: PilotHost, disk: Disk, monotonic: Callable[[], float]) -> None:
        self._host = host
        self._disk = disk
        self._monotonic = monotonic
        self._joined: set[str] = set()
        """Jobs all of whose agents were connected once."""
        self._since: dict[str, float] = {}
        """When the others were first seen running."""
        self._said: dict[str, str] = {}

    async def look(self, pilot: Pilot, job: JobReport) -> None:
        """The site has just listed that job."""
        tag = pilot.tag
        if job.phase is not JobPhase.RUNNING or tag in self._joined:
            return
        if self._host.connected(pilot.agents) == len(pilot.agents):
            self.forget(tag)
            self._joined.add(tag)
            return
        now = self._monotonic()
        if now - self._since.setdefault(tag, now) > JOIN_S:
            files = pilot.files_on(self._disk)
            self._said[tag] = await asyncio.to_thread(files.nodes_say, pilot)

    def words(self, pilot: Pilot, job: JobReport | None) -> str:
        """Empty: all of its agents have joined, or it has no nodes."""
        if job is None or job.phase is JobPhase.QUEUED or pilot.tag in self._joined:
            return ""
        return begun(
            f"{DIALECTS[pilot.shape.system].name} job {job.job_id}",
            job.phase,
            nodes=job.nodes,
            since=job.starts_at,
            joined=self._host.connected(pilot.agents),
            agents=len(pilot.agents),
            said=self._said.get(pilot.tag, ""),
        )

    def forget(self, tag: str) -> None:
        self._joined.discard(tag)
        self._since.pop(tag, None)
        self._said.pop(tag, None)
