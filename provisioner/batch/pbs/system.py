"""OpenPBS and PBS Pro by their own commands, as their user."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from provisioner.batch.base import (
    SUBMIT_LIMIT_S,
    ForeignJob,
    JobReport,
    JobSpec,
    NoAnswer,
    SiteFacts,
)
from provisioner.batch.commands import Commands, FinishedCommand
from provisioner.batch.pbs.arguments import qsub_line
from provisioner.batch.pbs.queues import nodes_of, queues_of
from provisioner.batch.pbs.states import (
    GAVE_UP,
    foreign,
    has_no_answer,
    refusal_of,
    report,
)
from provisioner.batch.pbs.text import (
    JOBS,
    NODES,
    QUEUES,
    SERVERS,
    Record,
    documents,
    not_told,
    records,
)
from windlass.base.errors import BatchSystemError

_BY_ID = 20
"""So many jobs are asked for by id: each costs the server more than all of a site's in one listing."""
_AT_ONCE = 200
_OVER = 35
_UNKNOWN = 153
_NO_HISTORY = "not configured to maintain job history"
_JOB_ID = re.compile(r"\d+(\[\d*\])?(\.[\w.-]+)?")


class PbsSystem:
    """Implements `provisioner.batch.base.BatchSystem`."""

    name = "pbs"
    most_tasks = 1
    """PBS reruns the jobs of its arrays: it takes none with `-r n`, and a pilot must not begin again by itself."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._has_history = True
        self._ids: dict[str, str] = {}
        """By name. PBS does not look jobs up by several names."""
        self._user = ""

    async def site(self) -> SiteFacts:
        servers = await self._ask(SERVERS, "qstat", "-B", "-f")
        server = next(iter(servers.values()), {})
        self._has_history = server.get("job_history_enable", "True") == "True"
        queues = await self._ask(QUEUES, "qstat", "-Q", "-f")
        vnodes = await self._ask(NODES, "pbsnodes", "-av")
        return SiteFacts(
            version=server.get("pbs_version", ""),
            queues=queues_of(queues, nodes_of(vnodes), default=server.get("default_queue", "")),
        )

    async def submit(self, job: JobSpec) -> str:
        done = await self._commands.run(qsub_line(job), limit_s=SUBMIT_LIMIT_S)
        id_ = next((word for word in done.out.split() if _JOB_ID.fullmatch(word)), None)
        if done.code == 0 and id_ is not None:
            self._ids[job.name] = id_
            return id_
        # Below 0 a signal ended it: it may have submitted.
        if done.code <= 0 or has_no_answer(done.code, done.err):
            raise NoAnswer(f"qsub: {done.last}")
        raise refusal_of(done.code, done.err)

    async def poll(self, names: Collection[str]) -> Mapping[str, JobReport]:
        wanted = set(names)
        self._ids = {name: id_ for name, id_ in self._ids.items() if name in wanted}
        found: dict[str, JobReport] = {}
        if len(self._ids) < len(wanted) or len(wanted) > _BY_ID:
            listed = await self._ours(await self._jobs())
            found = {one.name: one for one in listed if one.name in wanted}
            await self._find(wanted - set(found) - set(self._ids))
        asked = [id_ for name, id_ in self._ids.items() if name not in found]
        if asked:
            found |= {one.name: one for one in await self._ours(await self._jobs(*asked))}
        self._ids |= {one.name: one.job_id for one in found.values()}
        return found

    async def named_like(self, prefix: str) -> Sequence[JobReport]:
        mine = await self._ours(await self._jobs())
        return tuple(one for one in mine if one.name.startswith(prefix))

    async def in_queue(self, queue: str) -> Sequence[ForeignJob]:
        found = await self._jobs()
        return tuple(
            foreign(id_, record)
            for id_, record in found.items()
            if queue in ("", record.get("queue", ""))
        )

    async def look_up(self, job_id: str) -> JobReport | None:
        found = next(iter((await self._jobs(job_id)).values()), None)
        if found is None:
            return None
        if GAVE_UP in found.get("comment", ""):
            await self.cancel([job_id])
        return report(job_id, found)

    async def cancel(self, job_ids: Collection[str]) -> None:
        for some in _chunks(sorted(job_ids)):
            done = await self._commands.run(["qdel", *some])
            self._require(done, "qdel")

    async def signal(self, job_id: str, signal: str) -> None:
        """Only to the session on its first node: PBS can do no more."""
        done = await self._commands.run(["qsig", "-s", signal, job_id])
        self._require(done, "qsig")

    async def _find(self, names: Collection[str]) -> None:
        """Those that nothing is known of may have been submitted without an answer, and be over."""
        history = ("-x",) if self._has_history else ()
        for name in sorted(names):
            done = await self._commands.run(["qselect", *history, "-N", name])
            if _NO_HISTORY in done.err:
                self._has_history = False
                done = await self._commands.run(["qselect", "-N", name])
            if done.code:
                raise NoAnswer(f"qselect: {done.last}")
            ids = done.out.split()
            if len(ids) > 1:  # of others, too
                ids = [one.job_id for one in await self._ours(await self._jobs(*ids))]
            if ids:
                self._ids[name] = ids[-1]

    async def _jobs(self, *job_ids: str) -> Mapping[str, Record]:
        """Those of the site that are not over; or these, over or not, without those that the server does not know."""
        if not job_ids:
            return await self._ask(JOBS, "qstat", "-f")
        found: dict[str, Record] = {}
        for some in _chunks(job_ids):
            found |= await self._ask(JOBS, "qstat", *self._history, "-f", ids=some)
        return found

    @property
    def _history(self) -> tuple[str, ...]:
        return ("-x",) if self._has_history else ()

    async def _ours(self, listed: Mapping[str, Record]) -> Sequence[JobReport]:
        """Anybody may give a job a name of ours."""
        if not self._user:
            done = await self._commands.run(["id", "-un"])
            if done.code or not done.out.strip():
                raise NoAnswer(f"id: {done.last}")
            self._user = done.out.strip()
        return [
            report(id_, record)
            for id_, record in listed.items()
            if record.get("Job_Owner", "").partition("@")[0] == self._user
        ]

    async def _ask(self, kind: str, *words: str, ids: Sequence[str] = ()) -> Mapping[str, Record]:
        """Whatever goes wrong, nothing is known then. TZ: PBS prints local time.

        Of several jobs OpenPBS prints only the first as JSON since December 2023, and all as text.
        """
        command = ("env", "TZ=UTC", *words)
        done = await self._commands.run([*command, "-F", "json", *ids])
        if _NO_HISTORY in done.err and "-x" in words:
            self._has_history = False
            return await self._ask(kind, *(w for w in words if w != "-x"), ids=ids)
        answered = self._is_answer(done)
        found = await asyncio.to_thread(documents, done.out, kind) if answered else None
        left = ids if found is None else not_told(ids, found, done.err)
        if self._may_be_text(done) if found is None else left:
            done = await self._commands.run([*command, *left])
            found = {**(found or {}), **await asyncio.to_thread(records, done.out, kind)}
            left = not_told(left, found, done.err)
        if found is None or not self._is_answer(done):
            raise NoAnswer(f"{words[0]}: {done.last}")
        if left:
            raise NoAnswer(f"{words[0]} says nothing of job {left[0]}")
        return found

    @staticmethod
    def _is_answer(done: FinishedCommand) -> bool:
        """Also where some, or all, of the jobs asked for are over or unknown."""
        return done.code in (0, _OVER, _UNKNOWN) and not has_no_answer(done.code, done.err)

    @staticmethod
    def _may_be_text(done: FinishedCommand) -> bool:
        """It answered with broken JSON, or does not know -F (usage: 2)."""
        return PbsSystem._is_answer(done) or done.code == 2

    @staticmethod
    def _require(done: FinishedCommand, command: str) -> None:
        """Jobs that are over, unknown, or not running yet are passed by."""
        if done.code in (0, _OVER, _UNKNOWN, 168):
            return
        down = has_no_answer(done.code, done.err)
        raise (NoAnswer if down else BatchSystemError)(f"{command}: {done.last}")


def _chunks(words: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(words), _AT_ONCE):
        yield words[start : start + _AT_ONCE]
