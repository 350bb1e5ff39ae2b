"""Slurm by slurmrestd, as the user of its token or of its process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from master.core.reasons import ReasonKind
from provisioner.batch.base import (
    SUBMIT_LIMIT_S,
    ForeignJob,
    JobRefused,
    JobReport,
    JobSpec,
    NoAnswer,
    SiteFacts,
)
from provisioner.batch.commands import Commands
from provisioner.batch.slurm.partitions import queues_of
from provisioner.batch.slurm.rest import documents
from provisioner.batch.slurm.rest.client import RestAnswer, RestClient
from provisioner.batch.slurm.rest.large import Pick
from provisioner.batch.slurm.rest.submission import body
from provisioner.batch.slurm.states import has_no_answer, refusal_of, report
from provisioner.batch.slurm.system import SETTINGS_EVERY, by_name, is_over
from provisioner.batch.slurm.text import JobLine, series
from windlass.base.errors import BatchSystemError, InvalidArgument

log = logging.getLogger(__name__)

MOST_TASKS = 32
"""Which of them wait is told in up to 64 characters: enough, whichever of so many these are."""
WITH_ARRAYS = (37, 38)
"""Versions in which arrays were tried: v0.0.36 takes no ids of their jobs, of later ones none was recorded."""
_AT_ONCE = 8
"""Cancellations: there is one call for each."""


class RestSystem:
    """Implements `provisioner.batch.base.BatchSystem`."""

    name = "slurm"

    def __init__(self, client: RestClient, commands: Commands, user: str = "") -> None:
        """`user`: whose the jobs are; empty: who runs `commands`."""
        self._client = client
        self._commands = commands
        self._user = user
        self._looks = 0
        self._version: int | None = None

    @property
    def most_tasks(self) -> int:
        return MOST_TASKS if self._version in (None, *WITH_ARRAYS) else 1

    async def site(self) -> SiteFacts:
        """Which accounts may be named is not told: whether the site enforces them is no part of the API."""
        if self._looks % SETTINGS_EVERY == 0:
            self._client.forget()
        self._version = (await self._client.served()).version
        partitions, nodes = await asyncio.gather(self._ask("partitions"), self._ask("nodes"))
        self._looks += 1
        found = documents.nodes(nodes)
        queues = queues_of(documents.partitions(partitions), found)
        names = frozenset(node.name for node in found)
        return SiteFacts(version=documents.release(nodes), queues=queues, nodes=names)

    async def submit(self, job: JobSpec) -> str:
        version = (await self._client.served()).version
        try:
            asked = body(job, version)
        except InvalidArgument as error:
            kind = ReasonKind.NO_SUCH_AGENT
            raise JobRefused(error.message, kind=kind, passing=False, final=True) from None
        answer = await self._client.call("POST", "job/submit", asked, limit_s=SUBMIT_LIMIT_S)
        if id_ := documents.submitted(answer.document):
            return id_
        if not answer.text or has_no_answer(answer.text):
            raise NoAnswer(f"slurmrestd: {answer.text or f'HTTP {answer.status}'}")
        raise refusal_of(answer.text)

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        """Anybody may give a job a name of ours."""
        wanted = frozenset(names)
        return await self._mine(lambda line: line.name in wanted) if wanted else {}

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        return tuple((await self._mine(lambda line: line.name.startswith(prefix))).values())

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        document = await self._ask("jobs", documents.listed)
        return await asyncio.to_thread(lambda: tuple(documents.foreign_jobs(document, queue)))

    async def look_up(self, job_id: str) -> JobReport | None:
        answer = await self._client.call("GET", f"job/{job_id}")
        unknown = documents.is_unknown_job(answer.document)
        line = next((one for one in documents.jobs(answer.document) if one.job_id == job_id), None)
        if line is None and not unknown:
            raise NoAnswer(f"slurmrestd: {answer.text or 'it says nothing of a job'}")
        if line is None or "CANCELLED" in line.state:
            line = await self._remembered(job_id) or line
        return None if line is None else report(line)

    async def cancel(self, job_ids: Collection[str]) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def cancel_one(job_id: str) -> None:
            async with turns:
                self._require_sent(await self._client.call("DELETE", f"job/{job_id}"))

        await asyncio.gather(*map(cancel_one, sorted(job_ids)))

    async def signal(self, job_id: str, signal: str) -> None:
        self._require_sent(await self._client.call("DELETE", f"job/{job_id}?signal={signal}"))

    @staticmethod
    def _require_sent(answer: RestAnswer) -> None:
        if not answer.text or documents.is_over(answer.document):
            return
        kind = NoAnswer if has_no_answer(answer.text) else BatchSystemError
        raise kind(f"slurmrestd: {answer.text}")

    async def _mine(self, is_wanted: Callable[[JobLine], bool]) -> dict[str, JobReport]:
        """All jobs of the site are told: there is no other way to ask for many."""
        me = await self._me()
        document = await self._ask("jobs", partial(documents.owned, user=me))
        if not documents.lists_jobs(document):
            raise NoAnswer("slurmrestd: it answers without a list of jobs")
        return by_name([line for line in documents.jobs(document) if is_wanted(line)])

    async def _me(self) -> str:
        if not self._user:
            done = await self._commands.run(["id", "-un"])
            if done.code:
                raise NoAnswer(f"id: {done.last}")
            self._user = done.out.strip()
        return self._user

    async def _remembered(self, job_id: str) -> JobLine | None:
        """How it ended, by accounting where it is served; the last run. None also while that does not answer."""
        if not (await self._client.served()).accounting:
            return None
        try:
            answer = await self._client.call("GET", f"job/{job_id}", of="slurmdb")
        except NoAnswer as error:
            log.info("accounting does not tell of job %s: %s", job_id, error.message)
            return None
        lines = [line for line in documents.remembered(answer.document) if line.job_id == job_id]
        return lines[-1] if lines and is_over(lines[-1]) else None

    async def _ask(self, what: str, pick: Pick | None = None) -> documents.Json:
        """Whatever goes wrong, nothing is known then."""
        try:
            answer = await self._client.call("GET", what, pick=pick)
        except NoAnswer as error:
            raise NoAnswer(f"{error.message}{await self._misfit()}") from None
        if answer.status != 200 or answer.text:
            said = answer.text or f"HTTP {answer.status}"
            raise NoAnswer(f"slurmrestd: {said}{await self._misfit()}")
        return answer.document

    async def _misfit(self) -> str:
        """It is of another release than the site's commands, whose protocol it may not speak. Empty: not known."""
        try:
            done = await self._commands.run(["sinfo", "--version"])
        except NoAnswer:
            return ""
        mine, site = self._client.release, done.out.strip().rpartition(" ")[2]
        if done.code or not mine or series(mine) == series(site):
            return ""
        return (
            f"; slurmrestd is of Slurm {mine}, and the commands of the site are of {site}: "
            "give that of the site (api.url), or remove api"
        )
